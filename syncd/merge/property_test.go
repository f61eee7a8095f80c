package merge

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

const rounds = 2000

// generator makes offers of one service. Each property is drawn on its own from
// few values, so that clusters differ in it often, and agree often.
type generator struct{ *rand.Rand }

func newGenerator() generator { return generator{rand.New(rand.NewPCG(1, 2))} }

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// exports are offers of two to four clusters, some of the same second.
func (g generator) exports() []model.Export {
	exports := make([]model.Export, 0, 4)
	for _, id := range []mcs.ClusterID{"a", "b.x", "c", "d"}[:2+g.IntN(3)] {
		exports = append(exports, g.export(id))
	}
	return exports
}

func (g generator) export(id mcs.ClusterID) model.Export {
	e := offer(id, g.IntN(2))
	e.Kind = pick(g, model.ClusterSetIP, model.ClusterSetIP, model.ClusterSetIP, model.Headless)
	e.SessionAffinity = pick(g, "ClientIP", "ClientIP", "ClientIP", "None")
	if e.SessionAffinity == "ClientIP" {
		e.AffinityTimeout = pick(g, int32(60), 600, 10800, 0)
	}
	e.InternalTrafficPolicy = pick(g, "", "Cluster", "Local")
	e.TrafficDistribution = pick(g, "", "PreferClose", "PreferSameNode")
	e.Labels = pick(g, nil, map[string]string{"team": "a"}, map[string]string{"team": "b"})
	e.Annotations = pick(g, nil, map[string]string{"note": "a"}, map[string]string{"note": "b", "more": "c"})
	e.Families = pick(g, []model.Family{model.IPv4}, []model.Family{model.IPv6}, []model.Family{model.IPv4, model.IPv6}, []model.Family{model.IPv6, model.IPv4})
	for range 1 + g.IntN(3) {
		p := model.Port{
			Name: pick(g, "", "http", "dns", "port-80"), Number: pick(g, int32(53), 80, 8080), Protocol: pick(g, "TCP", "UDP"),
		}
		if model.FindPort(e.Ports, p) < 0 && !hasName(e.Ports, p.Name) {
			e.Ports = append(e.Ports, p)
		}
	}
	return e
}

// A property that seldom conflicts is a property that is not tested.
func TestTheGeneratorMakesConflictsOfEveryRule(t *testing.T) {
	g, seen := newGenerator(), map[string]int{}
	for range rounds {
		for _, c := range Conflicts(g.exports()) {
			seen[c.Reason]++
		}
	}
	for _, r := range rules {
		if n := seen[string(r.reason)]; n < rounds*3/10 || n == rounds {
			t.Errorf("%d of %d rounds have a %s, want at least 30 %%, and not all", n, rounds, r.reason)
		}
	}
}

// All clusters must compute the same, and they hear of offers in any order.
func TestTheOrderOfOffersDoesNotMatter(t *testing.T) {
	g := newGenerator()
	for range rounds {
		exports := g.exports()
		want, _ := Merge(exports, nil)
		conflicts := Conflicts(exports)
		g.Shuffle(len(exports), func(i, j int) { exports[i], exports[j] = exports[j], exports[i] })
		got, _ := Merge(exports, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order matters:\n%s", diff)
		}
		if diff := cmp.Diff(conflicts, Conflicts(exports)); diff != "" {
			t.Fatalf("order matters for conflicts:\n%s", diff)
		}
	}
}

func TestAYoungerExportNeverChangesASettledField(t *testing.T) {
	g := newGenerator()
	for range rounds {
		exports := g.exports()
		before, _ := Merge(exports, nil)
		younger := g.export("e")
		younger.Created = younger.Created.AddDate(1, 0, 0)
		after, _ := Merge(append(exports, younger), before.Ports)

		if len(after.Ports) < len(before.Ports) || len(after.Families) < len(before.Families) {
			t.Fatalf("ports or families were lost: %v, before %v", after, before)
		}
		for i, p := range before.Ports {
			now := after.Ports[i]
			if p.Name == "" { // may have to get a name, beside another port
				p.Name = now.Name
			}
			if now != p {
				t.Fatalf("port %v became %v", p, now)
			}
		}
		if n := len(before.Families); !slices.Equal(before.Families, after.Families[:n]) {
			t.Fatalf("families became %v, were %v", after.Families, before.Families)
		}
		after.Ports, after.Families = before.Ports, before.Families
		after.Clusters = after.Clusters[:len(before.Clusters)]
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("a younger export changed:\n%s", diff)
		}
	}
}

// One cluster reads an offer from its own API server, another rebuilds it from
// what its import stores.
func TestOneClustersViewEqualsAnothers(t *testing.T) {
	g := newGenerator()
	for range rounds {
		exports := g.exports()
		text, omitted := model.EncodeExports(Order(exports))
		elsewhere, err := model.DecodeExports(key, text)
		if err != nil || len(omitted) > 0 {
			t.Fatal(err, omitted)
		}
		here, _ := Merge(exports, nil)
		there, _ := Merge(elsewhere, nil)
		if diff := cmp.Diff(here, there); diff != "" {
			t.Fatalf("views differ:\n%s", diff)
		}
		if diff := cmp.Diff(Conflicts(exports), Conflicts(elsewhere)); diff != "" {
			t.Fatalf("conflicts differ:\n%s", diff)
		}
	}
}

func TestTheMergedPortsAreThoseAServiceTakes(t *testing.T) {
	g := newGenerator()
	for range rounds {
		got, _ := Merge(g.exports(), nil)
		seen := map[string]bool{}
		for i, p := range got.Ports {
			number := strings.TrimPrefix(show([]model.Port{{Protocol: p.Protocol, Number: p.Number}}), ":")
			if seen[p.Name] || seen[number] || p.Name == "" && len(got.Ports) > 1 {
				t.Fatalf("a Service would refuse the ports %s: look at number %d", show(got.Ports), i)
			}
			seen[p.Name], seen[number] = true, true
		}
	}
}
