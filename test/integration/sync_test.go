package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

const httpService = "{ports: [{name: http, port: 80, targetPort: 8080}]}"

// TestSync runs a clusterset of three: two exporters, and an importer in whose
// cluster nothing but syncd writes these objects.
func TestSync(t *testing.T) {
	whole := t
	set := clusterset(t, "east", "west.eu", "hub")
	east, west, hub := set[0], set[1], set[2]
	mesh(t, east, west, hub)
	for _, m := range set {
		m.namespace(t, "shop")
	}
	east.syncd(t)
	west.syncd(t)
	hubSyncd := hub.syncd(t)
	importOf := func(name string) *api.ServiceImport {
		i, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return i
	}

	t.Run("an export of two clusters becomes an import with a clusterset IP", func(t *testing.T) {
		for m, address := range map[*member]string{east: "10.1.0.1", west: "10.2.0.1"} {
			m.apply(t, service("shop", "web", httpService), slice("shop", "web", "web-1", "[{name: http, port: 8080}]", address), export("shop", "web"))
		}
		eventually(t, "endpoints of both", func() error {
			return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1", "west.eu": "10.2.0.1"})
		})
		eventually(t, "a ready import", func() error { return readyWith(importOf("web"), "east", "west.eu") })
		imp := importOf("web")
		derived, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: "shop", Name: "web"}), metav1.GetOptions{})
		must(t, err)
		if len(imp.Spec.IPs) != 1 || imp.Spec.IPs[0] != derived.Spec.ClusterIP || len(derived.Spec.Selector) != 0 {
			t.Errorf("import has IPs %v, derived Service has %v and selector %v", imp.Spec.IPs, derived.Spec.ClusterIPs, derived.Spec.Selector)
		}
		tied, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelSliceService + "=" + derived.Name})
		must(t, err)
		if len(tied.Items) != 2 {
			t.Errorf("%d slices are tied to the derived Service, want 2", len(tied.Items))
		}
		for _, m := range []*member{east, west} {
			eventually(t, "conditions in "+m.id, func() error {
				return conditions(m, t, "web", map[string]metav1.ConditionStatus{"Valid": "True", "Ready": "True"})
			})
		}
	})

	t.Run("a pod that comes or goes in a peer changes its slice and nothing else", func(t *testing.T) {
		writesOnceQuiet(t, hub, syncdUser)
		before := importOf("web")
		east.apply(t, slice("shop", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.1", "10.1.0.2"))
		eventually(t, "the new pod", func() error {
			return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1,10.1.0.2", "west.eu": "10.2.0.1"})
		})
		if after := importOf("web"); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the import was written: %s, before %s", after.ResourceVersion, before.ResourceVersion)
		}
	})

	t.Run("a headless service has no clusterset IP and slices that kube-proxy does not see", func(t *testing.T) {
		east.apply(t, service("shop", "db", "{clusterIP: None, ports: [{name: sql, port: 5432}]}"),
			slice("shop", "db", "db-1", "[{name: sql, port: 5432}]", "10.1.0.9"), export("shop", "db"))
		eventually(t, "a ready import", func() error { return readyWith(importOf("db"), "east") })
		if imp := importOf("db"); imp.Spec.Type != api.Headless || len(imp.Spec.IPs) != 0 {
			t.Errorf("import is %s with IPs %v", imp.Spec.Type, imp.Spec.IPs)
		}
		tied, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=db"})
		must(t, err)
		if len(tied.Items) != 1 {
			t.Fatalf("%d slices", len(tied.Items))
		}
		if _, hidden := tied.Items[0].Labels[mcs.LabelHeadless]; !hidden {
			t.Errorf("labels of the slice are %v, want %s", tied.Items[0].Labels, mcs.LabelHeadless)
		}
	})

	t.Run("a dual-stack export has a clusterset IP of each family", func(t *testing.T) {
		east.apply(t, service("shop", "dual", "{ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], ports: [{port: 80}]}"),
			slice("shop", "dual", "dual-4", "[{name: '', port: 8080}]", "10.1.0.7"),
			slice("shop", "dual", "dual-6", "[{name: '', port: 8080}]", "fd00:10:1::7"), export("shop", "dual"))
		eventually(t, "a ready import", func() error { return readyWith(importOf("dual"), "east") })
		imp := importOf("dual")
		if len(imp.Spec.IPs) != 2 || !strings.Contains(imp.Spec.IPs[0], ":") || fmt.Sprint(imp.Spec.IPFamilies) != "[IPv6 IPv4]" {
			t.Errorf("import has IPs %v of families %v", imp.Spec.IPs, imp.Spec.IPFamilies)
		}
		eventually(t, "endpoints of both families", func() error {
			got := hub.mirrored(t, "shop", "dual")["east"]
			slices.Sort(got)
			if fmt.Sprint(got) != "[10.1.0.7 fd00:10:1::7]" {
				return fmt.Errorf("endpoints are %v", got)
			}
			return nil
		})
	})

	t.Run("a name that comes back as another type leaves nothing of the old one", func(t *testing.T) {
		derived := mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: "shop", Name: "turn"})
		headless := "{clusterIP: None, ports: [{name: http, port: 80}]}"
		for _, spec := range []string{httpService, headless, httpService} {
			if err := east.kube.CoreV1().Services("shop").Delete(t.Context(), "turn", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			east.apply(t, service("shop", "turn", spec), slice("shop", "turn", "turn-1", "[{name: http, port: 8080}]", "10.1.0.8"), export("shop", "turn"))
			eventually(t, "the import, its Service and its slice of one type", func() error {
				imp := importOf("turn")
				if err := readyWith(imp, "east"); err != nil {
					return err
				}
				_, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), derived, metav1.GetOptions{})
				list, listErr := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=turn"})
				must(t, listErr)
				if len(list.Items) != 1 {
					return fmt.Errorf("%d slices", len(list.Items))
				}
				_, hidden := list.Items[0].Labels[mcs.LabelHeadless]
				if want := spec == headless; (imp.Spec.Type == api.Headless) != want || (len(imp.Spec.IPs) == 0) != want || apierrors.IsNotFound(err) != want || hidden != want {
					return fmt.Errorf("import is %s with IPs %v, derived Service: %w, slice hidden %v", imp.Spec.Type, imp.Spec.IPs, err, hidden)
				}
				return nil
			})
		}
	})

	t.Run("an export without a Service is invalid, and valid once there is one", func(t *testing.T) {
		east.apply(t, export("shop", "late"))
		eventually(t, "conditions", func() error {
			return conditions(east, t, "late", map[string]metav1.ConditionStatus{"Valid": "False", "Ready": "False"})
		})
		east.apply(t, service("shop", "late", httpService))
		eventually(t, "conditions", func() error {
			return conditions(east, t, "late", map[string]metav1.ConditionStatus{"Valid": "True", "Ready": "True"})
		})
		eventually(t, "a ready import", func() error { return readyWith(importOf("late"), "east") })
	})

	t.Run("ports of two clusters are united, and one with a name of another is left out", func(t *testing.T) {
		east.apply(t, service("shop", "ports", "{ports: [{name: http, port: 80}]}"), export("shop", "ports"))
		eventually(t, "the older export", func() error { return readyWith(importOf("ports"), "east") })
		// A creation time has a resolution of a second, and the older export must be older.
		eventually(t, "a second later", func() error {
			west.apply(t, export("shop", "ports"))
			w, err := west.mcs.MulticlusterV1beta1().ServiceExports("shop").Get(t.Context(), "ports", metav1.GetOptions{})
			must(t, err)
			e, err := east.mcs.MulticlusterV1beta1().ServiceExports("shop").Get(t.Context(), "ports", metav1.GetOptions{})
			must(t, err)
			if !e.CreationTimestamp.Before(&w.CreationTimestamp) {
				must(t, west.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "ports", metav1.DeleteOptions{}))
				return fmt.Errorf("both are of %s", e.CreationTimestamp)
			}
			return nil
		})
		west.apply(t, service("shop", "ports", "{ports: [{name: http, port: 8080}, {name: metrics, port: 9090}]}"),
			slice("shop", "ports", "ports-1", "[{name: http, port: 8080}, {name: metrics, port: 9090}]", "10.2.0.5"))
		eventually(t, "both exporters", func() error { return readyWith(importOf("ports"), "east", "west.eu") })
		eventually(t, "the slice's ports", func() error {
			list, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=ports," + mcs.LabelSourceCluster + "=west.eu"})
			must(t, err)
			if len(list.Items) != 1 || len(list.Items[0].Ports) != 1 || *list.Items[0].Ports[0].Name != "metrics" {
				return fmt.Errorf("slices %v", list.Items)
			}
			return nil
		})
		if ports := importOf("ports").Spec.Ports; len(ports) != 2 || ports[0].Port != 80 || ports[1].Name != "metrics" {
			t.Errorf("ports are %v", ports)
		}
	})

	t.Run("a closed namespace is not exported", func(t *testing.T) {
		east.apply(t, service("default", "web", httpService), export("default", "web"))
		eventually(t, "the condition", func() error {
			e, err := east.mcs.MulticlusterV1beta1().ServiceExports("default").Get(t.Context(), "web", metav1.GetOptions{})
			must(t, err)
			if c := meta.FindStatusCondition(e.Status.Conditions, "Valid"); c == nil || c.Reason != "NamespaceNotAllowed" {
				return fmt.Errorf("conditions are %v", e.Status.Conditions)
			}
			return nil
		})
	})

	t.Run("an import or a derived Service deleted by hand comes back", func(t *testing.T) {
		vip := importOf("web").Spec.IPs[0]
		must(t, hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		eventually(t, "the import with its address", func() error {
			if err := readyWith(importOf("web"), "east", "west.eu"); err != nil {
				return err
			}
			if now := importOf("web").Spec.IPs[0]; now != vip {
				return fmt.Errorf("the address is %s, was %s", now, vip)
			}
			return nil
		})
		name := mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: "shop", Name: "web"})
		must(t, hub.kube.CoreV1().Services("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
		eventually(t, "the Service and an import that follows it", func() error {
			derived, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if imp := importOf("web"); imp == nil || len(imp.Spec.IPs) != 1 || imp.Spec.IPs[0] != derived.Spec.ClusterIP {
				return fmt.Errorf("import is %v, Service has %s", imp, derived.Spec.ClusterIP)
			}
			return nil
		})
	})

	t.Run("a foreign Service under a derived name is left alone and said", func(t *testing.T) {
		name := mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: "shop", Name: "taken"})
		hub.apply(t, service("shop", name, httpService))
		east.apply(t, service("shop", "taken", httpService), export("shop", "taken"))
		eventually(t, "the condition", func() error {
			imp := importOf("taken")
			if imp == nil {
				return errors.New("no import yet")
			}
			c := meta.FindStatusCondition(imp.Status.Conditions, "Ready")
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "not syncd's") {
				return fmt.Errorf("conditions are %v", imp.Status.Conditions)
			}
			return nil
		})
		foreign, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if len(foreign.Annotations) != 0 || len(importOf("taken").Spec.IPs) != 0 {
			t.Errorf("annotations of the foreign Service are %v, the import's IPs %v", foreign.Annotations, importOf("taken").Spec.IPs)
		}
		must(t, hub.kube.CoreV1().Services("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
		eventually(t, "the import once the name is free", func() error { return readyWith(importOf("taken"), "east") })
	})

	t.Run("a restart with nothing changed writes nothing", func(t *testing.T) {
		settled := writesOnceQuiet(t, hub, syncdUser)
		must(t, hubSyncd.Stop(t.Context()))
		if code := hubSyncd.ExitCode(); code != 0 {
			t.Errorf("syncd ended with %d", code)
		}
		hubSyncd = hub.syncd(whole) // goes on after this part
		eventually(t, "both peers read", func() error {
			for _, id := range []string{"east", "west.eu"} {
				if err := hubSyncd.metric(t, `mcs_syncd_peer_state{cluster="`+id+`",state="Synced"} 1`); err != nil {
					return err
				}
			}
			return nil
		})
		if after := writesOnceQuiet(t, hub, syncdUser); len(after) != len(settled) {
			t.Errorf("%d writes by the restart: %v", len(after)-len(settled), after[len(settled):])
		}
	})

	t.Run("a service that one cluster un-exports keeps the other's endpoints, and goes with the last", func(t *testing.T) {
		vip := importOf("web").Spec.IPs[0]
		must(t, west.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		eventually(t, "endpoints of east only", func() error {
			return hub.wantMirrored(t, "shop", "web", map[string]string{"east": "10.1.0.1,10.1.0.2"})
		})
		eventually(t, "an import of east only", func() error { return readyWith(importOf("web"), "east") })
		if now := importOf("web").Spec.IPs[0]; now != vip {
			t.Errorf("the clusterset IP moved from %s to %s", vip, now)
		}
		must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		eventually(t, "nothing left", func() error {
			if importOf("web") != nil {
				return errors.New("the import is there")
			}
			_, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: "shop", Name: "web"}), metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the derived Service: %w", err)
			}
			return hub.wantMirrored(t, "shop", "web", map[string]string{})
		})
	})

	t.Run("the roles are enough: no request of syncd was refused", func(t *testing.T) {
		for _, m := range set {
			events, err := m.AuditEvents()
			must(t, err)
			for _, e := range events {
				if (e.User == syncdUser || e.User == peerUser) && e.Code == 403 {
					t.Errorf("%s: %s may not %s %s/%s", m.id, e.User, e.Verb, e.Resource, e.Subresource)
				}
			}
		}
	})
}

// readyWith checks that an import is ready and comes from these clusters.
func readyWith(imp *api.ServiceImport, clusters ...string) error {
	if imp == nil {
		return errors.New("no import")
	}
	var got []string
	for _, c := range imp.Status.Clusters {
		got = append(got, c.Cluster)
	}
	if strings.Join(got, " ") != strings.Join(clusters, " ") && len(clusters) == 1 || len(got) != len(clusters) {
		return fmt.Errorf("clusters are %v, want %v", got, clusters)
	}
	if !meta.IsStatusConditionTrue(imp.Status.Conditions, "Ready") {
		return fmt.Errorf("conditions are %v", imp.Status.Conditions)
	}
	if imp.Status.EndpointSliceObjects != api.EndpointSlicesPresent {
		return fmt.Errorf("endpointSliceObjects is %q", imp.Status.EndpointSliceObjects)
	}
	return nil
}

// conditions checks the conditions of a ServiceExport in namespace shop.
func conditions(m *member, t *testing.T, name string, want map[string]metav1.ConditionStatus) error {
	t.Helper()
	e, err := m.mcs.MulticlusterV1beta1().ServiceExports("shop").Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	for condition, status := range want {
		c := meta.FindStatusCondition(e.Status.Conditions, condition)
		if c == nil || c.Status != status || c.ObservedGeneration != e.Generation {
			return fmt.Errorf("conditions of %s are %v, want %s %s", name, e.Status.Conditions, condition, status)
		}
	}
	return nil
}
