package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

var key = mcs.ServiceKey{Namespace: "shop", Name: "web"}

// offer is an export of a cluster that is so many seconds old at an arbitrary
// moment: the more, the older. Ports are like "http:80", ":53/UDP".
func offer(cluster mcs.ClusterID, age int, ports ...string) model.Export {
	e := model.Export{
		Cluster: cluster, Key: key, Kind: model.ClusterSetIP,
		Created: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Second),
	}
	for _, p := range ports {
		e.Ports = append(e.Ports, port(p))
	}
	return e
}

func port(s string) model.Port {
	p := model.Port{Protocol: "TCP"}
	name, rest, _ := strings.Cut(s, ":")
	number, protocol, ok := strings.Cut(rest, "/")
	if ok {
		p.Protocol = protocol
	}
	p.Name = name
	if _, err := fmt.Sscan(number, &p.Number); err != nil {
		panic(err)
	}
	return p
}

func show(ports []model.Port) string {
	var out []string
	for _, p := range ports {
		s := fmt.Sprintf("%s:%d", p.Name, p.Number)
		if p.Protocol != "TCP" {
			s += "/" + p.Protocol
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestPortsAreAUnion(t *testing.T) {
	for name, c := range map[string]struct {
		exports []model.Export
		before  string // ports of the import as it stands
		want    string
	}{
		"equal ports of two clusters are one": {
			exports: []model.Export{offer("a", 2, "http:80"), offer("b", 1, "http:80")},
			want:    "http:80",
		},
		"a port of the younger cluster comes after those of the older": {
			exports: []model.Export{offer("a", 1, "metrics:9090"), offer("b", 2, "http:80")},
			want:    "http:80 metrics:9090",
		},
		"a name with another number is left out": {
			exports: []model.Export{offer("a", 2, "http:80"), offer("b", 1, "http:8080")},
			want:    "http:80",
		},
		"a name with another protocol is left out": {
			exports: []model.Export{offer("a", 2, "dns:53"), offer("b", 1, "dns:53/UDP")},
			want:    "dns:53",
		},
		"the same number under another name goes under the older name": {
			exports: []model.Export{offer("a", 2, "http:80"), offer("b", 1, "web:80")},
			want:    "http:80",
		},
		"one number over two protocols is two ports": {
			exports: []model.Export{offer("a", 1, "dns:53", "dns-udp:53/UDP")},
			want:    "dns:53 dns-udp:53/UDP",
		},
		"a single port keeps having no name": {
			exports: []model.Export{offer("a", 2, ":80"), offer("b", 1, ":80")},
			want:    ":80",
		},
		"an unnamed port among others gets a name": {
			exports: []model.Export{offer("a", 2, ":80"), offer("b", 1, "metrics:9090")},
			want:    "port-80:80 metrics:9090",
		},
		"the name of an unnamed UDP port tells the protocol": {
			exports: []model.Export{offer("a", 2, ":53/UDP"), offer("b", 1, "dns:53")},
			want:    "port-53-udp:53/UDP dns:53",
		},
		"a second unnamed port with another number is left out": {
			exports: []model.Export{offer("a", 2, ":80"), offer("b", 1, ":81")},
			want:    ":80",
		},
		"an unnamed port that is alone again keeps the name it was given": {
			exports: []model.Export{offer("a", 2, ":80")},
			before:  "port-80:80 metrics:9090",
			want:    "port-80:80",
		},
		"a given name gives way to a port of an older export that is really called so": {
			exports: []model.Export{offer("a", 1, ":80"), offer("b", 2, "port-80:9090")},
			want:    "port-80:9090 port-80-x:80",
		},
		"a port of a younger export does not take a given name": {
			exports: []model.Export{offer("a", 3, ":80"), offer("b", 2, "port-80:9090"), offer("c", 1, "metrics:9090")},
			want:    "port-80:80 metrics:9090",
		},
		"a port that the younger export calls as given is the same port": {
			exports: []model.Export{offer("a", 2, ":80"), offer("b", 1, "port-80:80", "metrics:9090")},
			want:    "port-80:80 metrics:9090",
		},
		"an unnamed port of the younger cluster goes under the older one's name": {
			exports: []model.Export{offer("a", 2, "http:80"), offer("b", 1, ":80")},
			want:    "http:80",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before []model.Port
			for p := range strings.FieldsSeq(c.before) {
				before = append(before, port(p))
			}
			imp, ok := Merge(c.exports, before)
			if got := show(imp.Ports); !ok || got != c.want {
				t.Errorf("ports are %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheOldestExportWins(t *testing.T) {
	older, younger := offer("z", 2, "http:80"), offer("a", 1, "http:80")
	older.SessionAffinity, older.AffinityTimeout = "ClientIP", 60
	older.TrafficDistribution, older.InternalTrafficPolicy = "PreferClose", "Local"
	older.Labels, older.Annotations = map[string]string{"team": "z"}, map[string]string{"note": "z"}
	older.Families = []model.Family{model.IPv6}
	younger.SessionAffinity, younger.Labels = "None", map[string]string{"team": "a"}
	younger.Families = []model.Family{model.IPv4, model.IPv6}

	got, _ := Merge([]model.Export{younger, older}, nil)
	want := model.Import{
		Key: key, Kind: model.ClusterSetIP, Ports: older.Ports,
		Traffic:  older.Traffic,
		Families: []model.Family{model.IPv6, model.IPv4},
		Labels:   older.Labels, Annotations: older.Annotations,
		Clusters: []mcs.ClusterID{"z", "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExportsOfOneSecondAreOrderedByClusterID(t *testing.T) {
	imp, _ := Merge([]model.Export{offer("c", 1, "http:1"), offer("a", 1, "http:2"), offer("b", 1, "http:3")}, nil)
	if !slices.Equal(imp.Clusters, []mcs.ClusterID{"a", "b", "c"}) || show(imp.Ports) != "http:2" {
		t.Errorf("clusters are %v and ports %s", imp.Clusters, show(imp.Ports))
	}
}

func TestWithoutOffersThereIsNoImport(t *testing.T) {
	if imp, ok := Merge(nil, []model.Port{port("http:80")}); ok {
		t.Errorf("import %v", imp)
	}
}
