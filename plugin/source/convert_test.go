package source

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

var compareAddresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// wantProblems compares problems by the words that an operator needs.
func wantProblems(t *testing.T, got []string, words ...string) {
	t.Helper()
	if len(got) != len(words) {
		t.Fatalf("problems %q, want %d", got, len(words))
	}
	for i, w := range words {
		if !strings.Contains(got[i], w) {
			t.Errorf("problem %q does not say %q", got[i], w)
		}
	}
}

func TestConvertImport(t *testing.T) {
	pear := mcs.ServiceKey{Namespace: "orchard", Name: "pear"}
	for name, c := range map[string]struct {
		spec     string
		want     zone.Import
		problems []string
	}{
		"addresses and ports": {
			"{type: ClusterSetIP, ips: [10.96.7.10, 'fd00:96::10'], ports: [{port: 80, name: http, protocol: TCP}, {port: 53, protocol: UDP}, {port: 9}]}",
			zone.Import{
				Key: pear, Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.10"), netip.MustParseAddr("fd00:96::10")},
				Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Protocol: "udp", Number: 53}, {Protocol: "tcp", Number: 9}},
			},
			nil,
		},
		"unusable addresses are left out and the good one stays": {
			"{type: ClusterSetIP, ips: [127.0.0.1, 10.96.7.30, '', store.example, 169.254.169.254, '::ffff:10.0.0.1'], ports: []}",
			zone.Import{Key: pear, Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.30")}},
			[]string{"127.0.0.1", `""`, "store.example", "169.254.169.254", "::ffff:10.0.0.1"},
		},
		"a headless import has neither addresses nor ports of its own": {
			"{type: Headless, ips: [None], ports: [{port: 80, name: http}]}",
			zone.Import{Key: pear, Headless: true},
			nil,
		},
		"a port that is none": {
			"{type: ClusterSetIP, ports: [{port: 0, name: a}, {port: 65536, name: b}, {port: 65535, name: c}]}",
			zone.Import{Key: pear, Ports: []zone.Port{{Name: "c", Protocol: "tcp", Number: 65535}}},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := decode[api.ServiceImport](t, "metadata: {name: pear, namespace: orchard}\nspec: "+c.spec)
			got, problems, ok := convertImport(in)
			wantProblems(t, problems, c.problems...)
			if diff := cmp.Diff(c.want, got, compareAddresses); diff != "" || !ok {
				t.Errorf("ok %v, differs (-want +got):\n%s", ok, diff)
			}
		})
	}
	_, problems, ok := convertImport(decode[api.ServiceImport](t, "{metadata: {name: a.b, namespace: orchard}, spec: {type: ClusterSetIP, ports: []}}"))
	if ok {
		t.Error("an import whose name is no label was taken")
	}
	wantProblems(t, problems, "not a DNS label")
}

func TestConvertSlice(t *testing.T) {
	const labels = "{multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil.west}"
	fig := mcs.ServiceKey{Namespace: "orchard", Name: "fig"}
	a4, a5 := netip.MustParseAddr("10.22.0.4"), netip.MustParseAddr("10.22.0.5")
	for name, c := range map[string]struct {
		labels, rest string
		want         zone.Slice
		problems     []string
		refused      bool
	}{
		"ready, unready and without the condition": {
			labels, `addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}, {port: 53, protocol: UDP}, {name: all}]
endpoints:
- {addresses: [10.22.0.4], hostname: fig-0, conditions: {ready: true}}
- {addresses: [10.22.0.9], hostname: fig-1, conditions: {ready: false, serving: true}}
- {addresses: [10.22.0.5]}`,
			zone.Slice{
				Name: "x", Service: fig, Cluster: "basil.west",
				Ports:     []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Protocol: "udp", Number: 53}},
				Endpoints: []zone.Endpoint{{Address: a4, Host: "fig-0"}, {Address: a5}},
			},
			nil, false,
		},
		"addresses of another trust domain": {
			labels, `addressType: IPv4
endpoints:
- {addresses: [127.0.0.1], hostname: fig-1}
- {addresses: [10.22.0.4], hostname: fig-0}
- {addresses: [169.254.169.254], hostname: fig-2}`,
			zone.Slice{Name: "x", Service: fig, Cluster: "basil.west", Endpoints: []zone.Endpoint{{Address: a4, Host: "fig-0"}}},
			[]string{"127.0.0.1", "169.254.169.254"},
			false,
		},
		"a host name that is no label": {
			labels, "addressType: IPv4\nendpoints: [{addresses: [10.22.0.4], hostname: 'a.b'}, {addresses: [10.22.0.5], hostname: Fig-0}]",
			zone.Slice{
				Name: "x", Service: fig, Cluster: "basil.west",
				Endpoints: []zone.Endpoint{{Address: a4}, {Address: a5, Host: "fig-0"}},
			},
			[]string{`"a.b"`},
			false,
		},
		"no cluster label": {
			"{multicluster.kubernetes.io/service-name: fig}", "addressType: IPv4", zone.Slice{}, []string{"source-cluster"}, true,
		},
		"a cluster label that is no cluster id": {
			"{multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: a.b.c}", "addressType: IPv4",
			zone.Slice{},
			[]string{"3 labels"},
			true,
		},
		"an empty service label": {
			"{multicluster.kubernetes.io/service-name: '', multicluster.kubernetes.io/source-cluster: basil}", "addressType: IPv4",
			zone.Slice{},
			[]string{"service-name"},
			true,
		},
		"host names for addresses": {
			labels, "addressType: FQDN\nendpoints: [{addresses: [store.example]}]", zone.Slice{}, []string{"FQDN"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := decode[discoveryv1.EndpointSlice](t, "metadata: {name: x, namespace: orchard, labels: "+c.labels+"}\n"+c.rest)
			got, problems, ok := convertSlice(in)
			wantProblems(t, problems, c.problems...)
			if ok == c.refused {
				t.Fatalf("ok = %v", ok)
			}
			if diff := cmp.Diff(c.want, got, compareAddresses); diff != "" && ok {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}
