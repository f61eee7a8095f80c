// Package integration tests syncd and mcs-core-dns as processes, against real
// control planes and under exactly the roles of deploy/rbac.
package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	mcsclient "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// How long something may take that takes a moment on a quiet machine.
const patience = 60 * time.Second

const (
	syncdUser = "system:serviceaccount:k8s-mcs:syncd"
	peerUser  = "system:serviceaccount:k8s-mcs:peer"
)

// member is one cluster of a clusterset with our CRDs, namespace and roles.
type member struct {
	*kubetest.Cluster
	id   string
	bed  *kubetest.Bed
	kube kubernetes.Interface
	mcs  mcsclient.Interface
}

// clusterset starts clusters that have everything but a syncd and peer Secrets.
func clusterset(t *testing.T, ids ...string) []*member {
	t.Helper()
	bed := kubetest.ForTest(t)
	configs := make([]kubetest.ClusterConfig, 0, len(ids))
	for _, id := range ids {
		configs = append(configs, kubetest.ClusterConfig{Name: id})
	}
	members := start(t, bed, configs...)
	join(t, members...)
	return members
}

// start starts clusters with nothing in them.
func start(t *testing.T, bed *kubetest.Bed, configs ...kubetest.ClusterConfig) []*member {
	t.Helper()
	clusters, err := bed.StartClusters(t.Context(), configs...)
	must(t, err)
	members := make([]*member, 0, len(clusters))
	for i, c := range clusters {
		config := c.Config()
		config.QPS, config.Burst = 200, 400
		kube, err := kubernetes.NewForConfig(config)
		must(t, err)
		mcsClient, err := mcsclient.NewForConfig(config)
		must(t, err)
		members = append(members, &member{Cluster: c, id: configs[i].Name, bed: bed, kube: kube, mcs: mcsClient})
	}
	return members
}

// join installs the CRDs and roles.
func join(t *testing.T, members ...*member) {
	t.Helper()
	var wait sync.WaitGroup
	for _, m := range members {
		wait.Go(func() {
			must(t, m.InstallCRDs(t.Context()))
			m.applyRoles(t)
		})
	}
	wait.Wait()
}

func (m *member) applyRoles(t *testing.T) {
	t.Helper()
	for _, name := range []string{"namespace.yaml", "syncd.yaml", "peer.yaml", "mcs-core-dns.yaml"} {
		manifest, err := deploy.RBAC.ReadFile("rbac/" + name)
		must(t, err)
		must(t, m.Apply(t.Context(), manifest))
	}
}

// apply applies YAML documents.
func (m *member) apply(t *testing.T, manifests ...string) {
	t.Helper()
	for _, manifest := range manifests {
		must(t, m.Apply(t.Context(), []byte(manifest)))
	}
}

func (m *member) namespace(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := m.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// peerKubeconfig is what a peer's syncd is given to read this cluster.
func (m *member) peerKubeconfig(t *testing.T) []byte {
	t.Helper()
	kubeconfig, err := m.UserKubeconfig(peerUser, "system:serviceaccounts")
	must(t, err)
	return kubeconfig
}

// addPeer puts a peer Secret into the cluster, or replaces it.
func (m *member) addPeer(t *testing.T, id string, kubeconfig []byte) {
	t.Helper()
	m.peerSecret(t, "peer-"+id, id, map[string][]byte{mcs.SecretKeyKubeconfig: kubeconfig})
}

func (m *member) peerSecret(t *testing.T, name, id string, data map[string][]byte) {
	t.Helper()
	secrets := m.kube.CoreV1().Secrets("k8s-mcs")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{mcs.LabelPeer: id}},
		Data:       data,
	}
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	must(t, err)
}

// mesh gives each cluster a Secret for each other one.
func mesh(t *testing.T, members ...*member) {
	t.Helper()
	for _, m := range members {
		for _, p := range members {
			if p != m {
				m.addPeer(t, p.id, p.peerKubeconfig(t))
			}
		}
	}
}

// syncdProcess is a running syncd.
type syncdProcess struct {
	*kubetest.Process
	url string
}

// syncd starts syncd in a cluster, under its role.
func (m *member) syncd(t *testing.T, flags ...string) *syncdProcess {
	t.Helper()
	binary, err := m.bed.Build(t.Context(), "./cmd/syncd")
	must(t, err)
	kubeconfig, err := m.UserKubeconfig(syncdUser, "system:serviceaccounts")
	must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, kubeconfig, 0o600))

	argv := append([]string{
		binary, "--cluster-id", m.id, "--kubeconfig", file, "--listen", "127.0.0.1:0", "--log-level", "debug",
	}, flags...)
	p, err := m.bed.Run(t.Context(), "syncd-"+m.id, argv)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line, err := p.WaitLog(ctx, `"msg":"listening"`)
	must(t, err)
	var entry struct{ Addr string }
	must(t, json.Unmarshal([]byte(line), &entry))
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := p.Stop(stop); err != nil {
			t.Errorf("stop syncd of %s: %v", m.id, err)
		}
		if t.Failed() {
			t.Logf("log of syncd in %s:\n%s", m.id, tail(p.Log(), 60))
		}
	})
	return &syncdProcess{Process: p, url: "http://" + entry.Addr}
}

// pages is a client for the pages of our processes.
var pages = &http.Client{Timeout: 10 * time.Second}

// get fetches a page of syncd; the status comes first.
func (p *syncdProcess) get(t *testing.T, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, http.NoBody)
	must(t, err)
	response, err := pages.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// metric reports whether a line of /metrics begins so.
func (p *syncdProcess) metric(t *testing.T, line string) error {
	t.Helper()
	_, body := p.get(t, "/metrics")
	for l := range strings.Lines(body) {
		if strings.HasPrefix(l, line) {
			return nil
		}
	}
	return fmt.Errorf("no metric %q in:\n%s", line, grep(body, "mcs_syncd"))
}

// logLines are the lines of a log with all of the given parts.
func logLines(log string, parts ...string) []string {
	var found []string
lines:
	for line := range strings.Lines(log) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func grep(text, part string) string { return strings.Join(logLines(text, part), "\n") }

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// service, export and slice are the objects of a walkthrough service, as YAML.
func service(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", namespace, name, spec)
}

func export(namespace, name string) string {
	return fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {namespace: %s, name: %s}\n", namespace, name)
}

func slice(namespace, service, name, ports string, addresses ...string) string {
	family := "IPv4"
	if strings.Contains(addresses[0], ":") {
		family = "IPv6"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  namespace: %s\n  name: %s\n  labels: {kubernetes.io/service-name: %s}\n", namespace, name, service)
	fmt.Fprintf(&b, "addressType: %s\nports: %s\nendpoints:\n", family, ports)
	for _, a := range addresses {
		fmt.Fprintf(&b, "- addresses: [%q]\n  conditions: {ready: true}\n", a)
	}
	return b.String()
}

// mirrored are the addresses of our slices of a service, by source cluster.
func (m *member) mirrored(t *testing.T, namespace, name string) map[string][]string {
	t.Helper()
	list, err := m.kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=" + name})
	must(t, err)
	found := map[string][]string{}
	for _, s := range list.Items {
		cluster := s.Labels[mcs.LabelSourceCluster]
		for _, e := range s.Endpoints {
			found[cluster] = append(found[cluster], e.Addresses...)
		}
		if len(s.Endpoints) == 0 && found[cluster] == nil {
			found[cluster] = []string{}
		}
	}
	return found
}

// wantMirrored checks the addresses by source cluster: "east=10.1.0.1,10.1.0.2 west=10.2.0.1".
func (m *member) wantMirrored(t *testing.T, namespace, name string, want map[string]string) error {
	t.Helper()
	got := map[string]string{}
	for cluster, addresses := range m.mirrored(t, namespace, name) {
		got[cluster] = strings.Join(addresses, ",")
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("mirrored endpoints of %s/%s in %s are %v, want %v", namespace, name, m.id, got, want)
	}
	return nil
}
