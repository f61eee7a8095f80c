package merge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

func reasons(conflicts []model.Conflict) string {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.Reason)
	}
	return strings.Join(all, ",")
}

func TestConflictsOfTwoExports(t *testing.T) {
	for name, c := range map[string]struct {
		older, younger func(*model.Export)
		want           string
	}{
		"equal exports agree": {},
		"another type": {
			younger: func(e *model.Export) { e.Kind = model.Headless }, want: "TypeConflict",
		},
		"an affinity that only one has": {
			older: func(e *model.Export) { e.SessionAffinity, e.AffinityTimeout = "ClientIP", 60 }, want: "SessionAffinityConflict",
		},
		"no affinity and the word for it are the same": {
			older: func(e *model.Export) { e.SessionAffinity = "None" },
		},
		"another time-out of the affinity": {
			older:   func(e *model.Export) { e.SessionAffinity, e.AffinityTimeout = "ClientIP", 60 },
			younger: func(e *model.Export) { e.SessionAffinity, e.AffinityTimeout = "ClientIP", 90 },
			want:    "SessionAffinityConfigConflict",
		},
		"the default time-out written out is the same": {
			older:   func(e *model.Export) { e.SessionAffinity, e.AffinityTimeout = "ClientIP", 10800 },
			younger: func(e *model.Export) { e.SessionAffinity = "ClientIP" },
		},
		"a time-out without an affinity says nothing": {
			younger: func(e *model.Export) { e.AffinityTimeout = 90 },
		},
		"another internal traffic policy": {
			younger: func(e *model.Export) { e.InternalTrafficPolicy = "Local" }, want: "InternalTrafficPolicyConflict",
		},
		"the default internal traffic policy written out is the same": {
			younger: func(e *model.Export) { e.InternalTrafficPolicy = "Cluster" },
		},
		"another traffic distribution": {
			older: func(e *model.Export) { e.TrafficDistribution = "PreferSameZone" }, want: "TrafficDistributionConflict",
		},
		"another label": {
			younger: func(e *model.Export) { e.Labels = map[string]string{"team": "b"} }, want: "LabelsConflict",
		},
		"another annotation": {
			younger: func(e *model.Export) { e.Annotations = map[string]string{"team": "b"} }, want: "AnnotationsConflict",
		},
		"an empty set of labels is none": {
			younger: func(e *model.Export) { e.Labels = map[string]string{} },
		},
		"a port that only one has": {
			younger: func(e *model.Export) { e.Ports = append(e.Ports, port("metrics:9090")) }, want: "PortConflict",
		},
		"another number under one name": {
			younger: func(e *model.Export) { e.Ports = []model.Port{port("http:81")} }, want: "PortConflict",
		},
		"another application protocol": {
			younger: func(e *model.Export) {
				e.Ports = []model.Port{{Name: "http", Protocol: "TCP", Number: 80, AppProtocol: "h2c"}}
			}, want: "PortConflict",
		},
		"the order of ports is no conflict": {
			older:   func(e *model.Export) { e.Ports = []model.Port{port("dns:53"), port("dns-udp:53/UDP")} },
			younger: func(e *model.Export) { e.Ports = []model.Port{port("dns-udp:53/UDP"), port("dns:53")} },
		},
		"a family that only one has": {
			younger: func(e *model.Export) { e.Families = []model.Family{model.IPv4, model.IPv6} }, want: "IPFamilyConflict",
		},
		"no family in common": {
			younger: func(e *model.Export) { e.Families = []model.Family{model.IPv6} }, want: "IPFamilyConflict",
		},
		"the order of families is no conflict": {
			older:   func(e *model.Export) { e.Families = []model.Family{model.IPv6, model.IPv4} },
			younger: func(e *model.Export) { e.Families = []model.Family{model.IPv4, model.IPv6} },
		},
		"the families of a headless Service say nothing": {
			older:   func(e *model.Export) { e.Kind = model.Headless },
			younger: func(e *model.Export) { e.Kind, e.Families = model.Headless, []model.Family{model.IPv4, model.IPv6} },
		},
		"several conflicts come in the order of the MCS API": {
			younger: func(e *model.Export) {
				e.TrafficDistribution, e.Kind, e.Ports = "PreferClose", model.Headless, nil
				e.Labels, e.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
			},
			want: "PortConflict,TypeConflict,AnnotationsConflict,LabelsConflict,TrafficDistributionConflict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			older, younger := offer("z", 2, "http:80"), offer("a", 1, "http:80")
			older.Families, younger.Families = []model.Family{model.IPv4}, []model.Family{model.IPv4}
			if c.older != nil {
				c.older(&older)
			}
			if c.younger != nil {
				c.younger(&younger)
			}
			if got := reasons(Conflicts([]model.Export{younger, older})); got != c.want {
				t.Errorf("reasons are %q, want %q", got, c.want)
			}
		})
	}
}

func TestAConflictNamesTheWinnerAndHowManyDisagree(t *testing.T) {
	exports := []model.Export{offer("c", 1, "http:81"), offer("a", 1, "http:80"), offer("b", 2, "http:80", ":53/UDP"), offer("d", 3, "http:80", ":53/UDP")}
	want := []model.Conflict{{Reason: "PortConflict", Property: "ports", Winner: "d", Value: "http:80/TCP, 53/UDP", Disagree: 2, Of: 4}}
	got := Conflicts(exports)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const message = "ports: 2 of 4 clusters differ from d, whose export is the oldest and which has http:80/TCP, 53/UDP"
	if len(got) == 1 && got[0].Message() != message {
		t.Errorf("message is %q, want %q", got[0].Message(), message)
	}
}

func TestOneExportHasNoConflict(t *testing.T) {
	if got := Conflicts([]model.Export{offer("a", 1, "http:80")}); len(got) > 0 {
		t.Errorf("conflicts are %v", got)
	}
}

func TestALongValueIsCutInAMessage(t *testing.T) {
	older, younger := offer("a", 2), offer("b", 1)
	older.Labels = map[string]string{}
	for _, r := range strings.Repeat("x", 100) {
		older.Labels[strings.Repeat(string(r), len(older.Labels)+1)] = "v"
	}
	conflicts := Conflicts([]model.Export{older, younger})
	if len(conflicts) != 1 || len(conflicts[0].Value) > maxShown+len("...") || !strings.HasSuffix(conflicts[0].Value, "...") {
		t.Errorf("conflicts are %v", conflicts)
	}
}

// The rules settle every field that exporters may differ in.
func TestEveryFieldOfTheImportComesFromTheOffers(t *testing.T) {
	e := offer("a", 1, "http:80")
	e.Traffic = model.Traffic{SessionAffinity: "ClientIP", AffinityTimeout: 60, InternalTrafficPolicy: "Local", TrafficDistribution: "PreferClose"}
	e.Labels, e.Annotations, e.Families = map[string]string{"a": "b"}, map[string]string{"c": "d"}, []model.Family{model.IPv4}
	got, _ := Merge([]model.Export{e}, nil)
	want := model.Import{
		Key: key, Kind: e.Kind, Ports: e.Ports, Traffic: e.Traffic, Families: e.Families,
		Labels: e.Labels, Annotations: e.Annotations, Clusters: []mcs.ClusterID{"a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
