package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

func TestNoticesOfAnImport(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ImportInput)
		own    bool // the endpoint is one of this cluster
		zone   string
		want   string // condition/reason
		say    string
	}{
		"all is well": {zone: "zone-a"},
		"an endpoint without a zone turns a traffic distribution off": {
			change: func(in *ImportInput) { in.Import.TrafficDistribution = "PreferSameZone" },
			want:   "ZoneRouting/EndpointWithoutZone", say: "cluster east has no zone",
		},
		"a zone keeps it on": {
			change: func(in *ImportInput) { in.Import.TrafficDistribution = "PreferSameZone" }, zone: "zone-a",
		},
		"without a traffic distribution no zone is missed": {},
		"a headless import distributes nothing": {
			change: func(in *ImportInput) {
				in.Import.Kind, in.Import.TrafficDistribution, in.Import.InternalTrafficPolicy = model.Headless, "PreferSameZone", "Local"
			},
		},
		"a local policy without own endpoints leads nowhere": {
			change: func(in *ImportInput) { in.Import.InternalTrafficPolicy = "Local" },
			want:   "LocalEndpoints/NoLocalEndpoints", say: "leads nowhere here",
		},
		"a local policy with own endpoints is fine": {
			change: func(in *ImportInput) { in.Import.InternalTrafficPolicy = "Local" }, own: true,
		},
		"a primary family that nobody serves any more is told": {
			change: func(in *ImportInput) { in.Import.Families = []model.Family{model.IPv6} },
			want:   "IPFamilies/IPFamilyConflict", say: "no exporter serves IPv4",
		},
		"keys that do not travel are counted": {
			change: func(in *ImportInput) {
				in.Import.Labels = map[string]string{"team": "a", "kubernetes.io/a": "b", "bad key!": "c"}
				in.Import.Annotations = map[string]string{"long": strings.Repeat("x", MaxExported), "k8s-mcs.io/exports": "x", "note": "b"}
			},
			want: "ExportedMetadata/KeysDropped", say: "2 under a reserved domain, 1 invalid, 1 past 16384 bytes",
		},
		"offers too large to be stored are told": {
			change: func(in *ImportInput) {
				big := anExport()
				big.Cluster, big.Annotations = "west", map[string]string{"long": strings.Repeat("x", model.MaxStored)}
				in.Exports = append(in.Exports, big)
			},
			want: "StoredOffers/TooLarge", say: "offers of west",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := anExport()
			e.Slices[0].Endpoints[0].Zone = c.zone
			if c.own {
				e.Cluster = local.Cluster
			}
			in := ImportInput{Import: anImport(), Exports: []model.Export{e}, Service: made(anImport(), "10.96.0.1")}
			in.Slices = []*discoveryv1.EndpointSlice{EndpointSlices(in.Import, model.View{Exports: in.Exports}, nil, local)[0].Object}
			in.Have = ServiceImport(in, local).Object
			if c.change != nil {
				c.change(&in)
			}
			change := ImportStatus(in, local, now)
			conditions := change.Object.Status.Conditions
			if !meta.IsStatusConditionTrue(conditions, "Ready") {
				t.Errorf("conditions are %v: a notice keeps no import from being ready", conditions)
			}
			if c.want == "" {
				if len(conditions) != 1 || len(change.Events) > 0 {
					t.Errorf("conditions are %v, events %v, want Ready alone", conditions, change.Events)
				}
				return
			}
			kind, reason, _ := strings.Cut(c.want, "/")
			got := meta.FindStatusCondition(conditions, kind)
			if len(conditions) != 2 || got == nil || got.Status != metav1.ConditionFalse || got.Reason != reason || !strings.Contains(got.Message, c.say) {
				t.Fatalf("conditions are %v, want %s with %q", conditions, c.want, c.say)
			}
			if len(change.Events) != 1 || !change.Events[0].Warning || change.Events[0].Reason != reason {
				t.Errorf("events are %v, want a Warning %s", change.Events, reason)
			}
			in.Have = change.Object
			if again := ImportStatus(in, local, metav1.NewTime(now.Add(time.Hour))); again.Verb != None {
				t.Error("the passing of time alone is a write")
			}
			in.Import, in.Exports = anImport(), []model.Export{anExport()}
			if mended := ImportStatus(in, local, now); len(mended.Object.Status.Conditions) != 1 {
				t.Errorf("conditions are %v once all is well", mended.Object.Status.Conditions)
			}
		})
	}
}

func TestZoneHintsFollowTheTrafficDistribution(t *testing.T) {
	hints := func(s *discoveryv1.EndpointSlice) string {
		var all []string
		for _, e := range s.Endpoints {
			text := "-"
			if e.Hints != nil {
				text = ""
				for _, z := range e.Hints.ForZones {
					text += "zone " + z.Name
				}
				for _, n := range e.Hints.ForNodes {
					text += " node " + n.Name
				}
			}
			all = append(all, text)
		}
		return strings.Join(all, ", ")
	}
	for name, c := range map[string]struct {
		distribution string
		cluster      mcs.ClusterID
		kind         model.Kind
		zone         string
		notReady     bool
		want         string
	}{
		"none without one":                          {want: "-", zone: "zone-a"},
		"the endpoint's zone":                       {distribution: "PreferSameZone", zone: "zone-a", want: "zone zone-a"},
		"the endpoint's zone, by the older word":    {distribution: "PreferClose", zone: "zone-a", want: "zone zone-a"},
		"a node of our own":                         {distribution: "PreferSameNode", zone: "zone-a", cluster: local.Cluster, want: "zone zone-a node node-1"},
		"never a node of a peer":                    {distribution: "PreferSameNode", zone: "zone-a", want: "zone zone-a"},
		"none for an endpoint without a zone":       {distribution: "PreferSameZone", want: "-"},
		"none for an endpoint that is not ready":    {distribution: "PreferSameZone", zone: "zone-a", notReady: true, want: "-"},
		"none for a headless import":                {distribution: "PreferSameZone", zone: "zone-a", kind: model.Headless, want: "-"},
		"none for a distribution that is not known": {distribution: "example.com/odd", zone: "zone-a", want: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			imp, e := anImport(), anExport()
			imp.TrafficDistribution = c.distribution
			if c.kind != "" {
				imp.Kind = c.kind
			}
			if c.cluster != "" {
				e.Cluster = c.cluster
			}
			e.Slices[0].Endpoints[0].Zone, e.Slices[0].Endpoints[0].Ready = c.zone, !c.notReady
			view := model.View{Key: key, Exports: []model.Export{e}}
			made := EndpointSlices(imp, view, nil, local)[0].Object
			if got := hints(made); got != c.want {
				t.Errorf("hints are %q, want %q", got, c.want)
			}
			if again := EndpointSlices(imp, view, []*discoveryv1.EndpointSlice{made}, local); len(again) > 0 {
				t.Errorf("the plan carried out wants %s: %s", again[0].Verb, again[0].Why)
			}

			// The slice of a peer that cannot be read follows the import all the same.
			before := made.DeepCopy()
			imp.TrafficDistribution, imp.Kind = "PreferSameZone", model.ClusterSetIP
			unknown := model.View{Key: key, Unknown: []mcs.ClusterID{e.Cluster}}
			for _, change := range EndpointSlices(imp, unknown, []*discoveryv1.EndpointSlice{made}, local) {
				if change.Verb != Update {
					t.Errorf("%s: %s", change.Verb, change.Why)
				}
				if got := hints(change.Object); c.zone != "" && !c.notReady && got != "zone zone-a" {
					t.Errorf("hints of a kept slice are %q", got)
				}
			}
			if hints(before) != hints(made) {
				t.Error("what exists was changed")
			}
		})
	}
}

func TestObjectsOfAnotherPrefixAreStrays(t *testing.T) {
	other := local
	other.Prefix = "mcs-"
	e := anExport()
	ours, theirs := made(anImport(), "10.96.0.1"), Service(anImport(), nil, other).Object
	view := model.View{Key: key, Exports: []model.Export{e}}
	ourSlice := EndpointSlices(anImport(), view, nil, local)[0].Object
	theirSlice := EndpointSlices(anImport(), view, nil, other)[0].Object

	d := DerivedOf(view, []*corev1.Service{theirs, ours}, []*discoveryv1.EndpointSlice{theirSlice, ourSlice}, local)
	if d.Service != ours || len(d.StrayServices) != 1 || d.StrayServices[0].Object != theirs || d.StrayServices[0].Verb != Delete {
		t.Errorf("Service is %v, strays are %v", d.Service, d.StrayServices)
	}
	if len(d.Slices) != 1 || d.Slices[0] != ourSlice || len(d.StraySlices) != 1 || d.StraySlices[0].Object != theirSlice {
		t.Errorf("slices are %v, strays are %v", d.Slices, d.StraySlices)
	}
	view.Unknown = []mcs.ClusterID{"east"}
	if d := DerivedOf(view, nil, []*discoveryv1.EndpointSlice{theirSlice}, local); len(d.StraySlices) > 0 {
		t.Errorf("the slice of a cluster that cannot be told is to go: %v", d.StraySlices)
	}
}
