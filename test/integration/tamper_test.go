package integration

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// TestMisbehavingPeer puts a proxy that lies and fails between syncd and a peer.
// What is bad is left out and said in few lines; what cannot be read takes
// nothing away; and all heals when the peer behaves again.
func TestMisbehavingPeer(t *testing.T) {
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	for _, m := range set {
		m.namespace(t, "shop")
	}
	const ports = "[{name: http, port: 8080}]"
	put := func(t *testing.T, name string, addresses ...string) {
		t.Helper()
		east.apply(t, slice("shop", "web", name, ports, addresses...))
	}
	east.apply(t, service("shop", "web", httpService), export("shop", "web"))
	put(t, "web-1", "10.1.0.1")
	put(t, "web-2", "10.1.0.2")

	proxy := tamper.ForTest(t)
	kubeconfig, err := proxy.Kubeconfig(east.peerKubeconfig(t))
	must(t, err)
	hub.addPeer(t, "east", kubeconfig)
	syncd := hub.syncd(t)
	want := func(t *testing.T, addresses string) {
		t.Helper()
		eventually(t, "the peer's endpoints", func() error {
			got := hub.mirrored(t, "shop", "web")
			slices.Sort(got["east"])
			if len(got) != 1 || strings.Join(got["east"], " ") != addresses {
				return fmt.Errorf("mirrored endpoints are %v, want of east alone %s", got, addresses)
			}
			return nil
		})
	}
	want(t, "10.1.0.1 10.1.0.2")
	slicesOnly := tamper.Match{Resource: "endpointslices"}
	// relist makes syncd list all slices again; it returns when the list has come.
	relist := func(t *testing.T) {
		t.Helper()
		listed := proxy.Add(tamper.Rule{
			Match:  tamper.Match{Resource: "endpointslices", Verb: tamper.List, Namespace: "shop", Name: "web-1"},
			Effect: tamper.Change(func(map[string]any) {}),
		})
		defer listed.Remove()
		expired := proxy.Add(tamper.Rule{Match: tamper.Match{Resource: "endpointslices", Verb: tamper.Watch}, Effect: tamper.Expire(), Times: 1})
		eventually(t, "a watch that expires, and a list", func() error { return all(applied(expired, 1), applied(listed, 1)) })
	}
	endRules := func(t *testing.T) { t.Helper(); t.Cleanup(proxy.Clear) }

	t.Run("bad addresses are left out, their neighbours stay, and the log does not overflow", func(t *testing.T) {
		endRules(t)
		bad := []string{"169.254.20.5", "127.0.0.1", "::ffff:10.1.0.9", "store.example", "224.0.0.1", "0.0.0.0", "fe80::1", ""}
		rule := proxy.Add(tamper.Rule{
			Match:  tamper.Match{Resource: "endpointslices", Namespace: "shop", Name: "web-1"},
			Effect: tamper.AddAddress(bad...),
		})
		relist(t)
		for i := range 10 { // each brings all the bad ones again
			put(t, "web-1", fmt.Sprintf("10.1.0.1%d", i))
		}
		want(t, "10.1.0.19 10.1.0.2")
		must(t, applied(rule, 2))
		lines := logLines(syncd.Log(), `"level":"WARN"`, `"msg":"address left out"`, `"cluster":"east"`, `"slice":"shop/web-1"`)
		if len(lines) == 0 || len(lines) > 6 || !strings.Contains(lines[0], `"address":"169.254.20.5","reason":"a link-local address"`) {
			t.Errorf("%d lines about addresses, want a few, and the first about %s:\n%s", len(lines), bad[0], strings.Join(lines, "\n"))
		}
		put(t, "web-1", "10.1.0.1")
		want(t, "10.1.0.1 10.1.0.2")
	})

	t.Run("labels that claim another origin give no other cluster or service endpoints", func(t *testing.T) {
		endRules(t)
		var rules []*tamper.Added
		for name, effect := range map[string]tamper.Effect{
			"from-hub":    tamper.Label(mcs.LabelSourceCluster, "hub"), // not believed: it stays east's
			"ours":        tamper.Label(mcs.LabelSliceManagedBy, mcs.ManagedBy),
			"of-other":    tamper.Label(mcs.LabelSliceService, "other"),
			"of-system":   tamper.Namespace("kube-system"),
			"of-far-away": tamper.Label(mcs.LabelServiceName, "other"), // means nothing in a source, so it stays
		} {
			rules = append(rules, proxy.Add(tamper.Rule{Match: tamper.Match{Resource: "endpointslices", Name: name}, Effect: effect}))
			put(t, name, "10.1.1.1")
		}
		for _, rule := range rules {
			eventually(t, "the forged slices in the proxy", func() error { return applied(rule, 1) })
		}
		put(t, "web-2", "10.1.0.22")
		want(t, "10.1.0.1 10.1.0.22 10.1.1.1 10.1.1.1")
		if got := hub.mirrored(t, "shop", "other"); len(got) > 0 {
			t.Errorf("there are endpoints of a service that nobody exports: %v", got)
		}
		for _, rule := range rules {
			name := rule.Name
			rule.Remove()
			put(t, name, "10.1.1.2") // now it is what it is
		}
		want(t, "10.1.0.1 10.1.0.22 10.1.1.2 10.1.1.2 10.1.1.2 10.1.1.2 10.1.1.2")
		for _, rule := range rules {
			must(t, east.kube.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), rule.Name, metav1.DeleteOptions{}))
		}
		put(t, "web-2", "10.1.0.2")
		want(t, "10.1.0.1 10.1.0.2")
	})

	t.Run("an export is of the namespace where it is read, and system namespaces are closed", func(t *testing.T) {
		endRules(t)
		proxy.Add(tamper.Rule{Match: tamper.Match{Name: "stray"}, Effect: tamper.Namespace("kube-system")})
		east.apply(t, service("shop", "stray", httpService), slice("shop", "stray", "stray", ports, "10.1.0.9"), export("shop", "stray"), export("shop", "after"), service("shop", "after", httpService))
		eventually(t, "an export that came later", func() error {
			_, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "after", metav1.GetOptions{})
			return err
		})
		imports, err := hub.mcs.MulticlusterV1beta1().ServiceImports("").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, i := range imports.Items {
			if i.Name == "stray" {
				t.Errorf("there is an import %s/%s", i.Namespace, i.Name)
			}
		}
		for _, name := range []string{"stray", "after"} {
			must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	})

	t.Run("what was deleted while a watch said nothing is gone after the watch expires", func(t *testing.T) {
		endRules(t)
		silence := proxy.Add(tamper.Rule{Match: tamper.Match{Resource: "endpointslices", Verb: tamper.Watch}, Effect: tamper.Swallow()})
		must(t, east.kube.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), "web-2", metav1.DeleteOptions{}))
		eventually(t, "the event in the proxy", func() error { return applied(silence, 1) })
		want(t, "10.1.0.1 10.1.0.2")
		relist(t)
		want(t, "10.1.0.1")
		silence.Remove()
		put(t, "web-2", "10.1.0.2")
		want(t, "10.1.0.1 10.1.0.2")
	})

	t.Run("events that come twice and out of order end in the right state", func(t *testing.T) {
		endRules(t)
		proxy.Add(tamper.Rule{Match: slicesOnly, Effect: tamper.Duplicate()})
		proxy.Add(tamper.Rule{Match: tamper.Match{Resource: "endpointslices", Name: "web-1"}, Effect: tamper.Reorder()})
		put(t, "web-1", "10.1.0.11")
		put(t, "web-2", "10.1.0.12")
		want(t, "10.1.0.11 10.1.0.12")
		proxy.Clear()
		put(t, "web-1", "10.1.0.1")
		put(t, "web-2", "10.1.0.2")
		want(t, "10.1.0.1 10.1.0.2")
	})

	t.Run("a peer that cannot be read takes nothing away, waits for nobody, and heals", func(t *testing.T) {
		failing := failingPeers(t, hub, east)
		endpoints := func(ofEast string) error {
			got := hub.mirrored(t, "shop", "web")
			for id := range got {
				slices.Sort(got[id])
			}
			want := map[string][]string{"east": strings.Fields(ofEast)}
			for _, p := range failing {
				want[p.id] = []string{"10.1.0.1", "10.1.0.2"}
			}
			if !maps.EqualFunc(got, want, slices.Equal) {
				return fmt.Errorf("mirrored endpoints are %v, want %v", got, want)
			}
			return nil
		}
		eventually(t, "endpoints of all", func() error { return endpoints("10.1.0.1 10.1.0.2") })
		before := writesOnceQuiet(t, hub, syncdUser)
		for _, p := range failing {
			p.rule = p.proxy.Add(tamper.Rule{Effect: p.effect})
			p.proxy.Add(tamper.Rule{Match: tamper.Match{Verb: tamper.Watch}, Effect: tamper.Expire(), Times: 4}) // all that there are
		}
		for _, p := range failing {
			eventually(t, "tries with peer "+p.id, func() error { return applied(p.rule, 3) })
		}
		if after := writesOnceQuiet(t, hub, syncdUser); len(after) != len(before) {
			t.Errorf("%d writes: %v", len(after)-len(before), after[len(before):])
		}
		put(t, "web-1", "10.1.0.111")
		eventually(t, "the change from the peer that can be read, and from no other", func() error { return endpoints("10.1.0.111 10.1.0.2") })
		for _, p := range failing {
			p.proxy.Clear()
		}
		for _, p := range failing {
			eventually(t, "the change from peer "+p.id, func() error {
				if got := hub.mirrored(t, "shop", "web")[p.id]; len(got) != 2 || !slices.Contains(got, "10.1.0.111") {
					return fmt.Errorf("endpoints are %v", got)
				}
				return syncd.metric(t, fmt.Sprintf("mcs_syncd_peer_state{cluster=%q,state=%q} 1", p.id, "Synced"))
			})
		}
	})

	events, err := hub.AuditEvents()
	must(t, err)
	refused := slices.DeleteFunc(events, func(e kubetest.AuditEvent) bool {
		bad := e.Code == http.StatusBadRequest || e.Code == http.StatusForbidden || e.Code == http.StatusUnprocessableEntity
		return e.User != syncdUser || !bad
	})
	if len(refused) > 0 {
		t.Errorf("the API server refused %d requests that came of the peer's objects, the first: %+v", len(refused), refused[0])
	}
}

// failingPeer is a way to the peer cluster that fails in one way.
type failingPeer struct {
	id     string
	effect tamper.Effect
	proxy  *tamper.Proxy
	rule   *tamper.Added
}

// failingPeers adds a peer for each way to fail. None fails yet.
func failingPeers(t *testing.T, hub, east *member) []*failingPeer {
	t.Helper()
	failing := []*failingPeer{
		{id: "fails", effect: tamper.Refuse(http.StatusInternalServerError, 0)},
		{id: "asks-to-wait", effect: tamper.Refuse(http.StatusTooManyRequests, 1)},
		{id: "forgot-rights", effect: tamper.Refuse(http.StatusForbidden, 0)},
		{id: "forgot-who", effect: tamper.Refuse(http.StatusUnauthorized, 0)},
		{id: "lost-resources", effect: tamper.Refuse(http.StatusNotFound, 0)},
		{id: "forgot-versions", effect: tamper.Refuse(http.StatusGone, 0)},
		{id: "hangs", effect: tamper.Hang()},
		{id: "breaks-off", effect: tamper.Half()},
		{id: "has-no-second-page", effect: tamper.FirstPage()},
	}
	for _, p := range failing {
		p.proxy = tamper.ForTest(t)
		kubeconfig, err := p.proxy.Kubeconfig(east.peerKubeconfig(t))
		must(t, err)
		hub.addPeer(t, p.id, kubeconfig)
	}
	return failing
}

func applied(rule *tamper.Added, times int) error {
	if n := rule.Applied(); n < times {
		return fmt.Errorf("the rule applied %d times, want %d", n, times)
	}
	return nil
}
