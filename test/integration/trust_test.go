package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestHostilePeer has a peer that offers more than it is trusted with.
func TestHostilePeer(t *testing.T) {
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	for _, m := range set {
		m.namespace(t, "shop", "bank")
	}
	imports := func(want ...string) error {
		list, err := hub.mcs.MulticlusterV1beta1().ServiceImports("").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		got := []string{}
		for _, i := range list.Items {
			got = append(got, i.Namespace+"/"+i.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("imports are %v, want %v", got, want)
		}
		return nil
	}
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	syncd := hub.syncd(t, "--max-exports=3", "--probe-interval=1s", "--allow-namespaces=default")
	east.put(t, "shop", "a", "10.1.0.1")
	east.put(t, "bank", "b", "10.1.0.2")
	for _, namespace := range []string{"default", "kube-system"} {
		east.put(t, namespace, "open", "10.1.0.3")
	}
	eventually(t, "imports but of the closed namespace", func() error { return imports("bank/b", "default/open", "shop/a") })
	must(t, syncd.metric(t, `mcs_syncd_peer_denied_exports{cluster="east"} 1`))
	must(t, east.mcs.MulticlusterV1beta1().ServiceExports("default").Delete(t.Context(), "open", metav1.DeleteOptions{}))
	eventually(t, "the others", func() error { return imports("bank/b", "shop/a") })

	t.Run("only namespaces on its list are taken over", func(t *testing.T) {
		hub.annotatePeer(t, "east", mcs.AnnotationAllowNamespaces, "shop")
		eventually(t, "one import", func() error { return imports("shop/a") })
		eventually(t, "the metric", func() error { return syncd.metric(t, `mcs_syncd_peer_denied_exports{cluster="east"} 2`) })
		eventually(t, "a line", func() error {
			return oneLine(syncd.Log(), `"level":"WARN"`, `"msg":"exports are not taken over"`, `"exports":2`, "k8s-mcs.io/allow-namespaces")
		})
	})
	t.Run("a list that cannot be read allows nothing", func(t *testing.T) {
		hub.annotatePeer(t, "east", mcs.AnnotationAllowNamespaces, "*")
		eventually(t, "no import", func() error { return imports() })
		if err := oneLine(syncd.Log(), `"level":"ERROR"`, `"secret":"k8s-mcs/peer-east"`, "annotation k8s-mcs.io/allow-namespaces", "names of namespaces", `"remedy"`); err != nil {
			t.Error(err)
		}
		hub.annotatePeer(t, "east", mcs.AnnotationAllowNamespaces, "")
		eventually(t, "all imports", func() error { return imports("bank/b", "shop/a") })
	})
	t.Run("only addresses in its ranges are taken over", func(t *testing.T) {
		east.apply(t, slice("shop", "a", "a-1", webPorts, "10.1.0.1", "10.66.0.1"))
		eventually(t, "both", func() error { return hub.wantMirrored(t, "shop", "a", map[string]string{"east": "10.1.0.1,10.66.0.1"}) })
		hub.annotatePeer(t, "east", mcs.AnnotationAllowCIDRs, "10.1.0.0/16")
		eventually(t, "one", func() error { return hub.wantMirrored(t, "shop", "a", map[string]string{"east": "10.1.0.1"}) })
		must(t, syncd.metric(t, `mcs_syncd_peer_dropped_addresses_total{cluster="east"}`))
		hub.annotatePeer(t, "east", mcs.AnnotationAllowCIDRs, "")
		eventually(t, "both", func() error { return hub.wantMirrored(t, "shop", "a", map[string]string{"east": "10.1.0.1,10.66.0.1"}) })
	})
	t.Run("what is over its bounds is left out, the oldest kept", func(t *testing.T) {
		for _, name := range []string{"c", "d"} {
			time.Sleep(1100 * time.Millisecond) // a creation time has a resolution of a second
			east.put(t, "shop", name, "10.1.0.4")
		}
		eventually(t, "a line at 80 %", func() error {
			return oneLine(syncd.Log(), `"level":"WARN"`, `"msg":"peer is near its bounds"`, "raise --max-exports")
		})
		eventually(t, "the oldest", func() error { return imports("bank/b", "shop/a", "shop/c") })
		eventually(t, "the metric", func() error { return syncd.metric(t, `mcs_syncd_peer_denied_exports{cluster="east"} 2`) })
		must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}))
		eventually(t, "the next once there is room", func() error { return imports("bank/b", "shop/c", "shop/d") })
	})
}

// TestOwnExports has a cluster offer more than its peers take over, and in a
// namespace that they do not.
func TestOwnExports(t *testing.T) {
	hub := clusterset(t, "hub")[0]
	hub.namespace(t, "shop")
	syncd := hub.syncd(t, "--max-exports=2", "--denied-namespaces=shut*,bank", "--allow-namespaces=shut-not")
	want := func(namespace, name, kind, reason string) {
		t.Helper()
		eventually(t, kind+" "+reason+" of "+name, func() error {
			e, err := hub.mcs.MulticlusterV1beta1().ServiceExports(namespace).Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			if c := meta.FindStatusCondition(e.Status.Conditions, kind); c == nil || c.Reason != reason {
				return fmt.Errorf("conditions are %v", e.Status.Conditions)
			}
			return nil
		})
	}
	t.Run("namespaces are closed by name and by beginning, but for those allowed", func(t *testing.T) {
		hub.namespace(t, "bank", "shutter", "shut-not")
		for _, namespace := range []string{"bank", "shutter", "shut-not"} {
			hub.put(t, namespace, "web", "10.0.0.1")
		}
		want("bank", "web", "Valid", "NamespaceNotAllowed")
		want("shutter", "web", "Valid", "NamespaceNotAllowed")
		want("shut-not", "web", "Valid", "Valid")
		hub.wantEvents(t, "ServiceExport", "bank", "web", map[string]int{"Warning NamespaceNotAllowed": 1})
		must(t, hub.mcs.MulticlusterV1beta1().ServiceExports("shut-not").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	})
	t.Run("the youngest exports over the bounds say so", func(t *testing.T) {
		hub.put(t, "shop", "a", "10.0.0.1")
		want("shop", "a", "Ready", "Ready")
		hub.put(t, "shop", "b", "10.0.0.2")
		hub.put(t, "shop", "c", "10.0.0.3")
		want("shop", "c", "Ready", "LimitExceeded")
		want("shop", "c", "Valid", "Valid")
		want("shop", "b", "Ready", "Ready")
		hub.wantEvents(t, "ServiceExport", "shop", "c", map[string]int{"Warning LimitExceeded": 1})
		must(t, oneLine(syncd.Log(), `"level":"WARN"`, `"msg":"this cluster is over the bounds"`, "raise --max-exports"))
		must(t, hub.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}))
		want("shop", "c", "Ready", "Ready")
	})
	t.Run("an annotation that is wrong is told once", func(t *testing.T) {
		hub.annotateExport(t, "b", mcs.AnnotationPrefer, "remote")
		hub.wantEvents(t, "ServiceExport", "shop", "b", map[string]int{"Warning BadAnnotation": 1})
		hub.apply(t, service("shop", "b", "{ports: [{name: http, port: 81}]}"))
		eventually(t, "the new port", func() error {
			imp, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "b", metav1.GetOptions{})
			must(t, err)
			if len(imp.Spec.Ports) == 0 || imp.Spec.Ports[0].Port != 81 {
				return fmt.Errorf("ports are %v", imp.Spec.Ports)
			}
			return nil
		})
		must(t, oneLine(syncd.Log(), `"level":"WARN"`, `"msg":"cannot read annotations of ServiceExport"`, `"service":"shop/b"`, mcs.AnnotationPrefer))
		hub.wantEvents(t, "ServiceExport", "shop", "b", map[string]int{"Warning BadAnnotation": 1})
	})
}

// TestEachRuleIsNeeded takes each rule out of the roles, one at a time. What syncd
// then may not do, it asks for in vain: so a rule too many is one that nobody
// misses, and one too few fails the tests that see no refused request.
func TestEachRuleIsNeeded(t *testing.T) {
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	gke, err := deploy.CRDs.ReadFile("crds/gke-compat/net.gke.io_serviceexports.yaml")
	must(t, err)
	for _, m := range set {
		m.namespace(t, "shop")
		must(t, m.Apply(t.Context(), gke))
	}
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	round := 0
	for _, c := range []struct {
		file, user string
		where      *member
	}{{"rbac/syncd.yaml", syncdUser, hub}, {"rbac/peer.yaml", peerUser, east}} {
		content, err := deploy.RBAC.ReadFile(c.file)
		must(t, err)
		for _, role := range roles(t, content) {
			for i, rule := range role.Rules {
				t.Run(fmt.Sprintf("%s without %v of %v", role.Name, rule.Resources, rule.APIGroups), func(t *testing.T) {
					less := role
					less.Rules = slices.Delete(slices.Clone(role.Rules), i, i+1)
					manifest, err := yaml.Marshal(less)
					must(t, err)
					must(t, c.where.Apply(t.Context(), manifest))
					before := len(requests(t, c.where))
					flags := []string{"--gke-compat", "--probe-interval=1s", "--leader-elect=false"}
					if slices.Contains(rule.Resources, "clusterproperties") {
						flags = append(flags, "--cluster-id=")
					}
					syncd := hub.syncd(t, flags...)
					round++
					// Something new to write, and something to complain about.
					name := fmt.Sprintf("new%d", round)
					hub.put(t, "shop", name, "10.0.0.1")
					hub.apply(t, service("shop", name+"-bad", "{type: ExternalName, externalName: store.example}"), export("shop", name+"-bad"), gkeExport("shop", name))
					eventually(t, "a request that is refused", func() error {
						for _, e := range requests(t, c.where)[before:] {
							if e.User == c.user && e.Code == http.StatusForbidden && covers(rule, e) {
								return nil
							}
						}
						return errors.New("there is none")
					})
					must(t, syncd.Stop(t.Context()))
					whole, err := yaml.Marshal(role)
					must(t, err)
					must(t, c.where.Apply(t.Context(), whole))
				})
			}
		}
	}
}

// roles are the Roles and ClusterRoles of a file, with their rules.
func roles(t *testing.T, content []byte) []rbacv1.ClusterRole {
	t.Helper()
	var found []rbacv1.ClusterRole
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content)))
	for {
		buffer := make([]byte, 64<<10)
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return found
		}
		must(t, err)
		var role rbacv1.ClusterRole // a Role has the same fields
		must(t, yaml.Unmarshal(buffer[:n], &role))
		if role.Kind == "Role" || role.Kind == "ClusterRole" {
			found = append(found, role)
		}
	}
}

// covers reports whether a rule would have allowed a request.
func covers(rule rbacv1.PolicyRule, e kubetest.AuditEvent) bool {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return slices.Contains(rule.APIGroups, e.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, e.Verb)
}
