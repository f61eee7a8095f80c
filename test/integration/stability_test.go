package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// Times that are short enough to wait for, and long enough for a busy machine.
var quick = []string{"--probe-interval=1s", "--stale-after=4s", "--recover-hold=2s", "--brake-window=5s"}

const webPorts = "[{name: http, port: 8080}]"

// stability is a hub whose peers are behind links that can be cut.
type stability struct {
	hub, east, west *member
	links           map[string]*kubetest.Link
	syncd           *syncdProcess
}

func newStability(t *testing.T) *stability {
	t.Helper()
	set := clusterset(t, "hub", "east", "west")
	s := &stability{hub: set[0], east: set[1], west: set[2], links: map[string]*kubetest.Link{}}
	for _, m := range set {
		m.namespace(t, "shop")
	}
	for _, m := range set[1:] {
		link, err := m.NewLink()
		must(t, err)
		kubeconfig, err := link.Kubeconfig(m.peerKubeconfig(t))
		must(t, err)
		s.links[m.id] = link
		s.hub.addPeer(t, m.id, kubeconfig)
	}
	return s
}

// put exports a service of one endpoint.
func (m *member) put(t *testing.T, namespace, name, address string) {
	t.Helper()
	m.apply(t, service(namespace, name, httpService), slice(namespace, name, name+"-1", webPorts, address), export(namespace, name))
}

// annotate sets an annotation of a ServiceExport, and removes it when the value is "".
func (m *member) annotateExport(t *testing.T, name, annotation, value string) {
	t.Helper()
	_, err := m.mcs.MulticlusterV1beta1().ServiceExports("shop").Patch(t.Context(), name, types.MergePatchType, annotationPatch(annotation, value), metav1.PatchOptions{})
	must(t, err)
}

// annotatePeer does the same for the Secret of a peer.
func (m *member) annotatePeer(t *testing.T, id, annotation, value string) {
	t.Helper()
	_, err := m.kube.CoreV1().Secrets("k8s-mcs").Patch(t.Context(), "peer-"+id, types.MergePatchType, annotationPatch(annotation, value), metav1.PatchOptions{})
	must(t, err)
}

func annotationPatch(annotation, value string) []byte {
	if value == "" {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, annotation)
	}
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value)
}

// deleteCRD deletes a definition, and with it all its objects.
func (m *member) deleteCRD(t *testing.T, name string) {
	t.Helper()
	client, err := dynamic.NewForConfig(m.Config())
	must(t, err)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	must(t, client.Resource(definitions).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// wantParked checks which services of a cluster are parked, and how.
func (m *member) wantParked(t *testing.T, cluster string, want ...string) error {
	t.Helper()
	list, err := m.kube.DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelParkedCluster + "=" + cluster})
	must(t, err)
	got := []string{}
	for _, s := range list.Items {
		got = append(got, s.Labels[mcs.LabelParkedService])
		_, hidden := s.Labels[mcs.LabelHeadless]
		if !hidden || s.Labels[mcs.LabelServiceName] != "" || s.Labels[mcs.LabelSourceCluster] != "" || s.Labels[mcs.LabelSliceService] == "" {
			return fmt.Errorf("labels of a parked slice are %v", s.Labels)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("parked of %s are %v, want %v", cluster, got, want)
	}
	return nil
}

func state(cluster, state string) string {
	return fmt.Sprintf("mcs_syncd_peer_state{cluster=%q,state=%q} 1", cluster, state)
}

// wantState waits for the metric of a peer's state.
func (s *stability) wantState(t *testing.T, cluster, name string) {
	t.Helper()
	eventually(t, cluster+" is "+name, func() error { return s.syncd.metric(t, state(cluster, name)) })
}

// wantEvent waits for an event on the Secret of a peer.
func (m *member) wantEvent(t *testing.T, id, reason string) corev1.Event {
	t.Helper()
	var found corev1.Event
	eventually(t, "the event "+reason, func() error {
		events, err := m.kube.CoreV1().Events("k8s-mcs").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=peer-" + id + ",reason=" + reason})
		must(t, err)
		if len(events.Items) == 0 {
			return errors.New("there is none")
		}
		found = events.Items[len(events.Items)-1]
		return nil
	})
	return found
}

// leaseAnnotation reads an annotation of a peer's Lease.
func (m *member) leaseAnnotation(t *testing.T, id, name string) string {
	t.Helper()
	lease, err := m.kube.CoordinationV1().Leases("k8s-mcs").Get(t.Context(), "peer-"+id, metav1.GetOptions{})
	must(t, err)
	return lease.Annotations[mcs.Prefix+name]
}

// sameWrites checks that nothing was written since.
func (m *member) sameWrites(t *testing.T, before []kubetest.AuditEvent) {
	t.Helper()
	if after := writesOnceQuiet(t, m, syncdUser); len(after) != len(before) {
		t.Errorf("%d writes: %v", len(after)-len(before), after[len(before):])
	}
}

// TestPeerLost cuts peers off in every way and sees what becomes of their
// endpoints.
func TestPeerLost(t *testing.T) {
	outer := t
	s := newStability(t)
	hub, east, west := s.hub, s.east, s.west
	for _, name := range []string{"both", "pinned"} {
		east.put(t, "shop", name, "10.1.0.1")
		west.put(t, "shop", name, "10.2.0.1")
	}
	east.put(t, "shop", "solo", "10.1.0.2")
	east.annotateExport(t, "pinned", mcs.AnnotationOnLost, "keep")
	s.syncd = hub.syncd(t, quick...)
	everywhere := map[string]string{"east": "10.1.0.1", "west": "10.2.0.1"}
	whole := func(t *testing.T) {
		t.Helper()
		eventually(t, "all endpoints", func() error {
			return all(hub.wantMirrored(t, "shop", "both", everywhere), hub.wantMirrored(t, "shop", "pinned", everywhere),
				hub.wantMirrored(t, "shop", "solo", map[string]string{"east": "10.1.0.2"}))
		})
	}
	exporters := func() error {
		for name, clusters := range map[string][]string{"both": {"east", "west"}, "solo": {"east"}} {
			imp, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := readyWith(imp, clusters...); err != nil {
				return err
			}
		}
		return nil
	}
	whole(t)
	eventually(t, "ready imports", exporters)

	t.Run("a peer that hangs is lost: where another serves, its endpoints leave with one write", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		s.links["east"].Drop()
		eventually(t, "the problem, long before HTTP/2 notices", func() error {
			return s.syncd.metric(t, `mcs_syncd_problem{cluster="east",reason="Unreachable",resource="probe"`)
		})
		s.wantState(t, "east", "Stale")
		eventually(t, "what is parked", func() error { return hub.wantParked(t, "east", "both") })
		must(t, all(exporters(), hub.wantMirrored(t, "shop", "pinned", everywhere),
			hub.wantMirrored(t, "shop", "solo", map[string]string{"east": "10.1.0.2"})))
		if after := writesOnceQuiet(t, hub, syncdUser); len(after) != len(before)+1 {
			t.Errorf("%d writes, want one: %v", len(after)-len(before), after[len(before):])
		}
		must(t, s.syncd.metric(t, `mcs_syncd_peer_parked_slices{cluster="east"} 1`))
		if lines := logLines(s.syncd.Log(), `"level":"WARN"`, `"cluster":"east"`, `"state":"Stale"`, `"reason":"Lost"`, "on-lost=fallback"); len(lines) != 1 {
			t.Errorf("%d log lines", len(lines))
		}
		if e := hub.wantEvent(t, "east", "PeerStale"); e.Type != corev1.EventTypeWarning {
			t.Errorf("event is %+v", e)
		}
		eventually(t, "the state on the Lease", func() error {
			if got := hub.leaseAnnotation(t, "east", "state"); got != "Stale" {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	})

	t.Run("a restart meanwhile changes nothing", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		must(t, s.syncd.Stop(t.Context()))
		s.syncd = hub.syncd(outer, quick...)
		s.wantState(t, "west", "Synced")
		s.wantState(t, "east", "Stale")
		hub.sameWrites(t, before)
		must(t, hub.wantParked(t, "east", "both"))
	})

	t.Run("when the other is lost too, all serve again", func(t *testing.T) {
		s.links["west"].Cut()
		s.wantState(t, "west", "Stale")
		whole(t)
		s.links["west"].Restore()
		s.wantState(t, "west", "Synced")
		eventually(t, "what is parked", func() error { return hub.wantParked(t, "east", "both") })
	})

	t.Run("a policy of withdraw on its Secret takes the last ones out too", func(t *testing.T) {
		hub.annotatePeer(t, "east", mcs.AnnotationOnLost, "withdraw")
		eventually(t, "what is parked", func() error { return hub.wantParked(t, "east", "both", "solo") })
		must(t, exporters())
		hub.annotatePeer(t, "east", mcs.AnnotationOnLost, "")
		eventually(t, "what is parked", func() error { return hub.wantParked(t, "east", "both") })
	})

	t.Run("it counts again after recover-hold", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		s.links["east"].Restore()
		s.wantState(t, "east", "Synced")
		whole(t)
		if after := writesOnceQuiet(t, hub, syncdUser); len(after) != len(before)+1 {
			t.Errorf("%d writes, want one: %v", len(after)-len(before), after[len(before):])
		}
		hub.wantEvent(t, "east", "PeerSynced")
	})

	t.Run("when all peers fall silent at once, nothing leaves, however long", func(t *testing.T) {
		hub.put(t, "shop", "both", "10.0.0.1")
		own := map[string]string{"east": "10.1.0.1", "west": "10.2.0.1", "hub": "10.0.0.1"}
		eventually(t, "own endpoints", func() error { return hub.wantMirrored(t, "shop", "both", own) })
		before := writesOnceQuiet(t, hub, syncdUser)
		for _, link := range s.links {
			link.Cut()
		}
		s.wantState(t, "east", "SelfIsolated")
		s.wantState(t, "west", "SelfIsolated")
		time.Sleep(5 * time.Second) // longer than stale-after
		must(t, all(s.syncd.metric(t, state("east", "SelfIsolated")), hub.wantMirrored(t, "shop", "both", own)))
		hub.sameWrites(t, before)
		for _, link := range s.links {
			link.Restore()
		}
		s.wantState(t, "east", "Synced")
		s.wantState(t, "west", "Synced")
		hub.sameWrites(t, before)
	})

	t.Run("a peer that refuses is Held, and nothing leaves, however long", func(t *testing.T) {
		before := writesOnceQuiet(t, hub, syncdUser)
		must(t, east.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "k8s-mcs-peer", metav1.DeleteOptions{}))
		s.wantState(t, "east", "Held")
		time.Sleep(5 * time.Second) // longer than stale-after
		must(t, s.syncd.metric(t, state("east", "Held")))
		if lines := logLines(s.syncd.Log(), `"level":"WARN"`, `"cluster":"east"`, `"state":"Held"`, `"reason":"Forbidden"`); len(lines) != 1 {
			t.Errorf("%d log lines", len(lines))
		}
		hub.sameWrites(t, before)
		east.applyRoles(t)
		s.wantState(t, "east", "Synced")
	})

	t.Run("own endpoints come first where the export asks for it", func(t *testing.T) {
		heldBack := func(want bool) error {
			list, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=both"})
			must(t, err)
			for _, s := range list.Items {
				_, hidden := s.Labels[mcs.LabelHeadless]
				if hidden != (want && s.Labels[mcs.LabelSourceCluster] != "hub") {
					return fmt.Errorf("labels are %v", s.Labels)
				}
			}
			return nil
		}
		hub.annotateExport(t, "both", mcs.AnnotationPrefer, "local")
		eventually(t, "peers held back", func() error { return heldBack(true) })
		hub.apply(t, strings.Replace(slice("shop", "both", "both-1", webPorts, "10.0.0.1"), "ready: true", "ready: false", 1))
		eventually(t, "peers join", func() error { return heldBack(false) })
	})

	t.Run("a Secret that goes takes the Lease along", func(t *testing.T) {
		must(t, hub.kube.CoreV1().Secrets("k8s-mcs").Delete(t.Context(), "peer-east", metav1.DeleteOptions{}))
		eventually(t, "no Lease", func() error {
			if _, err := hub.kube.CoordinationV1().Leases("k8s-mcs").Get(t.Context(), "peer-east", metav1.GetOptions{}); err == nil {
				return errors.New("it is there")
			}
			return hub.wantMirrored(t, "shop", "solo", map[string]string{})
		})
	})
}

// TestBrake has a peer withdraw its exports in every way.
func TestBrake(t *testing.T) {
	outer := t
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	s := &stability{hub: hub, east: east}
	for _, m := range set {
		m.namespace(t, "shop", "fair")
	}
	for i := range 6 {
		east.put(t, "shop", fmt.Sprintf("s%d", i), fmt.Sprintf("10.1.0.1%d", i))
	}
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	s.syncd = hub.syncd(t, quick...)
	imports := func(namespace string, want int) error {
		list, err := hub.mcs.MulticlusterV1beta1().ServiceImports(namespace).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != want {
			return fmt.Errorf("%d imports, want %d", len(list.Items), want)
		}
		return nil
	}
	withheld := func(count int) error {
		return s.syncd.metric(t, fmt.Sprintf(`mcs_syncd_peer_withheld_exports{cluster="east"} %d`, count))
	}
	eventually(t, "all imports", func() error { return imports("shop", 6) })

	t.Run("one that is withdrawn goes", func(t *testing.T) {
		must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "s5", metav1.DeleteOptions{}))
		eventually(t, "one import less", func() error { return imports("shop", 5) })
		east.put(t, "shop", "s5", "10.1.0.15")
		eventually(t, "all imports", func() error { return imports("shop", 6) })
		time.Sleep(5 * time.Second) // it counts no more in the window
	})

	before := writesOnceQuiet(t, hub, syncdUser)
	t.Run("a peer that loses the definition of exports loses none here", func(t *testing.T) {
		east.deleteCRD(t, "serviceexports.multicluster.x-k8s.io")
		eventually(t, "held withdrawals", func() error { return withheld(6) })
		s.wantState(t, "east", "Held") // the resource is missing
		hub.sameWrites(t, before)
		must(t, imports("shop", 6))
		if lines := logLines(s.syncd.Log(), `"level":"WARN"`, `"msg":"withdrawals are held"`, `"exports":6`, `kubectl -n k8s-mcs annotate secret peer-east`); len(lines) != 1 {
			t.Errorf("%d log lines", len(lines))
		}
		hub.wantEvent(t, "east", "WithdrawalsHeld")
	})

	t.Run("what is held follows the peer's endpoints", func(t *testing.T) {
		east.apply(t, slice("shop", "s0", "s0-1", webPorts, "10.1.0.99"))
		eventually(t, "the change", func() error { return hub.wantMirrored(t, "shop", "s0", map[string]string{"east": "10.1.0.99"}) })
	})

	t.Run("a restart goes on holding, since the same time", func(t *testing.T) {
		var since string
		eventually(t, "held-since on the Lease", func() error {
			if since = hub.leaseAnnotation(t, "east", "held-since"); since == "" {
				return errors.New("it is not there")
			}
			return nil
		})
		before := writesOnceQuiet(t, hub, syncdUser)
		must(t, s.syncd.Stop(t.Context()))
		must(t, east.InstallCRDs(t.Context())) // so that the peer can be read, and has no exports
		s.syncd = hub.syncd(outer, quick...)
		s.wantState(t, "east", "Synced")
		eventually(t, "held withdrawals", func() error { return withheld(6) })
		hub.sameWrites(t, before)
		if now := hub.leaseAnnotation(t, "east", "held-since"); now != since {
			t.Errorf("held since %s, before the restart since %s", now, since)
		}
	})

	t.Run("those that come back are held no more, and an operator's word lets the others pass", func(t *testing.T) {
		east.apply(t, export("shop", "s0"))
		eventually(t, "one less held", func() error { return withheld(5) })
		hub.annotatePeer(t, "east", "k8s-mcs.io/release-held", hub.leaseAnnotation(t, "east", "held-since"))
		eventually(t, "one import left", func() error { return imports("shop", 1) })
		hub.wantEvent(t, "east", "WithdrawalsPass")
		eventually(t, "nothing held on the Lease", func() error {
			if since := hub.leaseAnnotation(t, "east", "held-since"); since != "" {
				return fmt.Errorf("since %s", since)
			}
			return nil
		})
	})

	t.Run("what goes with its namespace passes", func(t *testing.T) {
		for i := range 8 {
			east.put(t, "fair", fmt.Sprintf("f%d", i), fmt.Sprintf("10.1.1.1%d", i))
		}
		eventually(t, "the imports", func() error { return imports("fair", 8) })
		must(t, east.kube.CoreV1().Namespaces().Delete(t.Context(), "fair", metav1.DeleteOptions{}))
		for i := range 8 { // what the API's own controllers do
			must(t, east.mcs.MulticlusterV1beta1().ServiceExports("fair").Delete(t.Context(), fmt.Sprintf("f%d", i), metav1.DeleteOptions{}))
		}
		eventually(t, "no imports", func() error { return imports("fair", 0) })
		if lines := logLines(s.syncd.Log(), `"msg":"withdrawals are held"`); len(lines) != 0 {
			t.Errorf("they were held: %v", lines)
		}
	})

	t.Run("held withdrawals pass after their time", func(t *testing.T) {
		for i := range 6 {
			east.put(t, "shop", fmt.Sprintf("t%d", i), fmt.Sprintf("10.1.2.1%d", i))
		}
		eventually(t, "the imports", func() error { return imports("shop", 7) })
		must(t, s.syncd.Stop(t.Context()))
		for i := range 6 {
			must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), fmt.Sprintf("t%d", i), metav1.DeleteOptions{}))
		}
		s.syncd = hub.syncd(outer, append(slices.Clone(quick), "--brake-release=3s")...)
		eventually(t, "held withdrawals", func() error { return withheld(6) })
		eventually(t, "one import left", func() error { return imports("shop", 1) })
		if lines := logLines(s.syncd.Log(), `"msg":"held withdrawals pass"`, `"exports":6`); len(lines) != 1 {
			t.Errorf("%d log lines", len(lines))
		}
	})
}
