package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestLeader runs two replicas of syncd and ends the one that writes in both ways.
func TestLeader(t *testing.T) {
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	for _, m := range set {
		m.namespace(t, "shop")
	}
	hub.addPeer(t, "east", east.peerKubeconfig(t))
	for i := range 10 {
		east.put(t, "shop", fmt.Sprintf("s%d", i), fmt.Sprintf("10.1.0.1%d", i))
	}
	const lease = 6 * time.Second
	flags := []string{"--lease-duration=" + lease.String(), "--probe-interval=1s"}
	leads := func(p *syncdProcess, want int) error { return p.metric(t, fmt.Sprintf("mcs_syncd_leader %d", want)) }
	first := hub.syncd(t, flags...)
	eventually(t, "a leader", func() error { return leads(first, 1) })
	second := hub.syncd(t, flags...)
	ready := func(p *syncdProcess) {
		t.Helper()
		eventually(t, "a replica that is ready and has read its peer", func() error {
			if status, body := p.get(t, "/readyz"); status != 200 {
				return fmt.Errorf("/readyz is %d %s", status, body)
			}
			return p.metric(t, state("east", "Synced"))
		})
	}
	ready(second)
	eventually(t, "all imports", func() error {
		list, err := hub.mcs.MulticlusterV1beta1().ServiceImports("shop").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 10 {
			return fmt.Errorf("%d imports", len(list.Items))
		}
		return nil
	})
	must(t, leads(second, 0))
	writes := writesOnceQuiet(t, hub, syncdUser)
	for _, w := range writes {
		if w.Code >= 400 {
			t.Errorf("a write failed, as if two wrote: %+v", w)
		}
	}

	// takeOver has one replica end and the other write what changes meanwhile.
	takeOver := func(t *testing.T, end func(), heir *syncdProcess, address string, within time.Duration) {
		t.Helper()
		before := len(writesOnceQuiet(t, hub, syncdUser))
		hubEvents, eastEvents := requests(t, hub), requests(t, east)
		start := time.Now()
		end()
		east.apply(t, slice("shop", "s0", "s0-1", webPorts, address))
		eventually(t, "the change", func() error { return hub.wantMirrored(t, "shop", "s0", map[string]string{"east": address}) })
		if took := time.Since(start); took > within {
			t.Errorf("the next write came after %s, want it within %s", took, within)
		}
		must(t, leads(heir, 1))
		if after := writesOnceQuiet(t, hub, syncdUser); len(after) != before+1 {
			t.Errorf("%d writes for one change: %v", len(after)-before, after[before:])
		}
		for _, events := range [][]kubetest.AuditEvent{requests(t, hub)[len(hubEvents):], requests(t, east)[len(eastEvents):]} {
			for _, e := range events {
				if e.Verb == "list" && !strings.Contains(e.Path, "limit=1&resourceVersion=0") || strings.Contains(e.Path, "sendInitialEvents=true") {
					t.Errorf("the standby reads anew: %s %s", e.Verb, e.Path)
				}
			}
		}
	}

	t.Run("when the leader is killed, the standby writes within the lease", func(t *testing.T) {
		// A renewal may be just done, and the standby looks every 2/15 of the lease.
		takeOver(t, func() { must(t, first.Kill()) }, second, "10.1.0.77", lease*3/2)
	})
	t.Run("one that ends in order gives the lease up", func(t *testing.T) {
		third := hub.syncd(t, flags...)
		ready(third)
		takeOver(t, func() { must(t, second.Stop(t.Context())) }, third, "10.1.0.78", lease/2)
		if code := second.ExitCode(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
	})
}

// requests are all requests of syncd so far.
func requests(t *testing.T, m *member) []kubetest.AuditEvent {
	t.Helper()
	events, err := m.AuditEvents()
	must(t, err)
	var found []kubetest.AuditEvent
	for _, e := range events {
		if e.User == syncdUser || e.User == peerUser {
			found = append(found, e)
		}
	}
	return found
}
