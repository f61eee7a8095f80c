package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestClusters(t *testing.T) {
	b := ForTest(t)
	clusters, err := b.StartClusters(t.Context(),
		ClusterConfig{Name: "plain"},
		ClusterConfig{Name: "v4.registry", ServiceCIDRs: "172.16.16.0/20"},
		ClusterConfig{Name: "full", Controllers: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	plain, v4, full := clusters[0], clusters[1], clusters[2]

	t.Run("each answers under its own name with its own addresses", func(t *testing.T) {
		testAddresses(t, plain, "10.100.0.0/16", "fd00:10:100::/112")
		testAddresses(t, v4, "172.16.16.0/20")
		testAddresses(t, full, "10.102.0.0/16", "fd00:10:102::/112")
	})
	t.Run("a name is taken once", func(t *testing.T) {
		if _, err := b.StartClusters(t.Context(), ClusterConfig{Name: "plain"}); err == nil {
			t.Error("a second cluster of the name started")
		}
	})
	t.Run("the CRDs are served and check what they are given", func(t *testing.T) { testCRDs(t, plain) })
	t.Run("a user may do what RBAC says", func(t *testing.T) { testRBAC(t, plain) })
	t.Run("a certificate of one cluster is none of another", func(t *testing.T) { testForeign(t, plain, v4) })
	t.Run("controllers make slices and finish namespaces", func(t *testing.T) { testControllers(t, full) })
	t.Run("a cluster that hangs answers when it goes on", func(t *testing.T) { testHang(t, v4) })
	t.Run("a link cuts, drops and heals", func(t *testing.T) { testLink(t, v4) })
	t.Run("a killed cluster comes back on its port with its data", func(t *testing.T) {
		testRestart(t, full, func() error { return full.Kill() })
	})
	t.Run("a stopped cluster comes back on its port with its data", func(t *testing.T) {
		testRestart(t, v4, func() error { return v4.Stop(t.Context()) })
	})
	t.Run("a hung cluster can be stopped", func(t *testing.T) {
		if err := errors.Join(plain.Hang(), plain.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func testAddresses(t *testing.T, c *Cluster, ranges ...string) {
	policy := corev1.IPFamilyPolicyPreferDualStack
	service, err := client(t, c.Config()).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "addresses"},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("%s: %v", c.Name(), err)
		return
	}
	if len(service.Spec.ClusterIPs) != len(ranges) {
		t.Errorf("%s: ClusterIPs %v, want one of each of %v", c.Name(), service.Spec.ClusterIPs, ranges)
		return
	}
	for i, ip := range service.Spec.ClusterIPs {
		if !netip.MustParsePrefix(ranges[i]).Contains(netip.MustParseAddr(ip)) {
			t.Errorf("%s: ClusterIP %s is not in %s", c.Name(), ip, ranges[i])
		}
	}
	file, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil || file.Host != c.Config().Host {
		t.Errorf("%s: the kubeconfig file is for %v (%v), want %s", c.Name(), file, err, c.Config().Host)
	}
}

func testCRDs(t *testing.T, c *Cluster) {
	if err := c.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	const good = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: default}
spec:
  type: ClusterSetIP
  ports: [{port: 80}]
status:
  clusters: [{cluster: far}]
`
	if err := c.Apply(t.Context(), []byte(good)); err != nil {
		t.Fatal(err)
	}
	live, err := client(t, c.Config()).Discovery().RESTClient().Get().
		AbsPath("/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceimports/web").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(live), `"cluster":"far"`) {
		t.Errorf("the import is %s (%v), want the status that was applied in it", live, err)
	}
	bad := strings.Replace(good, "ClusterSetIP", "Sideways", 1)
	if err := c.Apply(t.Context(), []byte(bad)); !apierrors.IsInvalid(err) {
		t.Errorf("an import of an unknown type: %v, want that it is invalid", err)
	}
}

func testRBAC(t *testing.T, c *Cluster) {
	content, err := c.UserKubeconfig("reader", "readers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := restConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	reader := client(t, config)
	list := func() error {
		_, err := reader.CoreV1().ConfigMaps("kube-system").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("a user without roles lists ConfigMaps: %v, want forbidden", err)
	}
	if err := c.Apply(t.Context(), []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: configmap-reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: configmap-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: configmap-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}]
`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the user lists ConfigMaps with a role", list)
	if err := reader.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "x", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the user deletes a ConfigMap: %v, want forbidden", err)
	}
	// The audit log tells all three, and a moment after the answers.
	eventually(t, "the audit log has the user's requests", func() error {
		events, err := c.AuditEvents()
		if err != nil {
			return err
		}
		var got []string
		for _, e := range events {
			if e.User == "reader" {
				got = append(got, fmt.Sprint(e.Verb, " ", e.Resource, " ", e.Namespace, " ", e.Name, " ", e.Code))
			}
		}
		got = slices.Compact(got)
		want := []string{"list configmaps kube-system  403", "list configmaps kube-system  200", "delete configmaps kube-system x 403"}
		if !slices.Equal(got, want) {
			return fmt.Errorf("audit events %q, want %q", got, want)
		}
		return nil
	})
}

func testForeign(t *testing.T, c, other *Cluster) {
	config := c.Config()
	config.Host = other.Config().Host
	if _, err := client(t, config).Discovery().ServerVersion(); err == nil {
		t.Error("the other cluster's server was believed")
	}
	config.TLSClientConfig.CAData = other.Config().CAData
	if err := version(t.Context(), client(t, config)); !apierrors.IsUnauthorized(err) {
		t.Errorf("an admin of one cluster asks another: %v, want unauthorized", err)
	}
}

func testControllers(t *testing.T, c *Cluster) {
	if err := c.Apply(t.Context(), []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
status:
  conditions: [{type: Ready, status: "True", reason: Test, message: ready}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: web, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: web, image: web}]}
status:
  phase: Running
  podIP: 10.5.0.10
  podIPs: [{ip: 10.5.0.10}]
  conditions: [{type: Ready, status: "True"}]
`)); err != nil {
		t.Fatal(err)
	}
	admin := client(t, c.Config())
	eventually(t, "the slice of the Service has the Pod's address", func() error {
		slices, err := admin.DiscoveryV1().EndpointSlices("web").List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return err
		}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Addresses[0] == "10.5.0.10" && *endpoint.Conditions.Ready && *slice.Ports[0].Port == 8080 {
					return nil
				}
			}
		}
		return fmt.Errorf("slices %+v", slices.Items)
	})
	eventually(t, "the namespace has the cluster's certificates", func() error {
		_, err := admin.CoreV1().ConfigMaps("web").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	now := int64(0)
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	// A Pod on a Node waits for its kubelet, and there is none.
	if err := admin.CoreV1().Pods("web").Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() error {
		_, err := admin.CoreV1().Namespaces().Get(t.Context(), "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func testHang(t *testing.T, c *Cluster) {
	admin := client(t, c.Config())
	if err := version(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	if err := c.Hang(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := version(short, admin); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request to a cluster that hangs: %v, want that it times out", err)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := version(t.Context(), admin); err != nil {
		t.Errorf("a request to the cluster that goes on: %v", err)
	}
}

// testRestart ends a cluster and starts it again. Only processes may differ.
func testRestart(t *testing.T, c *Cluster, end func() error) {
	admin := client(t, c.Config())
	before, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pids := c.Pids()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if left := c.Pids(); len(left) != 0 {
		t.Errorf("processes %v run after the end", left)
	}
	for _, pid := range pids {
		if processRuns(pid) {
			t.Errorf("process %d runs after the end", pid)
		}
	}
	if err := version(t.Context(), admin); err == nil {
		t.Error("a cluster that has ended answers")
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := admin.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read what was written before: %v", err)
	}
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the object is %s at %s, want %s at %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
	eventually(t, "as many processes run as before, and none of them", func() error {
		now := c.Pids()
		if len(now) != len(pids) || slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(pids, pid) }) {
			return fmt.Errorf("processes %v, before %v", now, pids)
		}
		return nil
	})
	if err := c.Start(t.Context()); err != nil {
		t.Errorf("start a cluster that runs: %v", err)
	}
}

func TestBedsSideBySide(t *testing.T) {
	one, two := ForTest(t), ForTest(t)
	if one.Dir() == two.Dir() {
		t.Fatalf("both runs have the folder %s", one.Dir())
	}
	var servers []*Cluster
	for _, b := range []*Bed{one, two} {
		clusters, err := b.StartClusters(t.Context(), ClusterConfig{Name: "same"})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, clusters...)
	}
	if servers[0].Config().Host == servers[1].Config().Host {
		t.Errorf("both runs serve on %s", servers[0].Config().Host)
	}
	// A cluster that is down keeps its port from the other run.
	if err := servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		port, err := two.Port()
		if err != nil {
			t.Fatal(err)
		}
		if port == servers[0].port {
			t.Errorf("port %d of a cluster that is down was given to the other run", port)
		}
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(two.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a closed run is there: %v", err)
	}
	if err := servers[0].Start(t.Context()); err != nil {
		t.Errorf("start a cluster after the other run has ended: %v", err)
	}
	if _, err := two.Run(t.Context(), "late", []string{"true"}); err == nil {
		t.Error("a closed run started a child")
	}
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// version asks the server something that every user may know.
func version(ctx context.Context, c *kubernetes.Clientset) error {
	_, err := c.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	return err
}
