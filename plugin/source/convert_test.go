package source

import (
	"net/netip"
	"slices"
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
func wantProblems(t *testing.T, got []problem, words ...string) {
	t.Helper()
	if len(got) != len(words) {
		t.Fatalf("problems %q, want %q", got, words)
	}
	for i, w := range words {
		if !strings.Contains(string(got[i].reason)+": "+got[i].text, w) {
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
			[]string{"port: spec.ports: port \"a\" has the number 0", "port: spec.ports: port \"b\" has the number 65536"},
		},
		"a protocol that is no label of ours": {
			"{type: ClusterSetIP, ports: [{port: 1, name: a, protocol: 'tcp.evil'}, {port: 2, name: b, protocol: udp}, {port: 3, name: c, protocol: SCTP}]}",
			zone.Import{Key: pear, Ports: []zone.Port{{Name: "b", Protocol: "udp", Number: 2}, {Name: "c", Protocol: "sctp", Number: 3}}},
			[]string{`port: spec.ports: port "a" has the protocol "tcp.evil": want TCP, UDP or SCTP`},
		},
		"neither addresses nor ports": {"{type: ClusterSetIP}", zone.Import{Key: pear}, nil},
		"an unknown type is taken for ClusterSetIP": {
			"{type: Mesh, ips: [10.96.7.10]}",
			zone.Import{Key: pear, Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.10")}},
			nil,
		},
		"addresses in odd forms": {
			"{type: ClusterSetIP, ips: ['10.96.7.010', ' 10.96.7.10', '10.96.7.10/32', '10.96.7', 'fe80::1%eth0', 'ff02::1', '0.0.0.0', '255.255.255.255', 'FD00:96:0::10']}",
			zone.Import{Key: pear, Addresses: []netip.Addr{netip.MustParseAddr("fd00:96::10")}},
			[]string{
				"address: spec.ips: \"10.96.7.010\" is not served", "\" 10.96.7.10\"", "/32", "\"10.96.7\"",
				"zone", "multicast", "unspecified", "broadcast",
			},
		},
		"the same address and port twice": {
			"{type: ClusterSetIP, ips: [10.96.7.10, 10.96.7.10], ports: [{port: 80, name: a}, {port: 80, name: a}]}",
			zone.Import{
				Key: pear, Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.10"), netip.MustParseAddr("10.96.7.10")},
				Ports: []zone.Port{{Name: "a", Protocol: "tcp", Number: 80}, {Name: "a", Protocol: "tcp", Number: 80}},
			},
			nil, // the zone takes them once
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
	wantProblems(t, problems, "name: its name is not a DNS label")
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
			[]string{`port: port "all" has the number 0`},
			false,
		},
		"a protocol that is none": {
			labels, `addressType: IPv4
ports: [{name: http, port: 80, protocol: QUIC}, {name: dns, port: 53, protocol: UDP}]
endpoints: [{addresses: [10.22.0.4]}]`,
			zone.Slice{
				Name: "x", Service: fig, Cluster: "basil.west",
				Ports:     []zone.Port{{Name: "dns", Protocol: "udp", Number: 53}},
				Endpoints: []zone.Endpoint{{Address: a4}},
			},
			[]string{`port: port "http" has the protocol "QUIC"`},
			false,
		},
		"no ports, and an endpoint without addresses": {
			labels, "addressType: IPv4\nendpoints: [{addresses: []}, {addresses: [10.22.0.4]}]",
			zone.Slice{Name: "x", Service: fig, Cluster: "basil.west", Endpoints: []zone.Endpoint{{Address: a4}}},
			nil, false,
		},
		"the same endpoint twice": {
			labels, "addressType: IPv4\nendpoints: [{addresses: [10.22.0.4, 10.22.0.4]}, {addresses: [10.22.0.4]}]",
			zone.Slice{Name: "x", Service: fig, Cluster: "basil.west", Endpoints: []zone.Endpoint{{Address: a4}, {Address: a4}, {Address: a4}}},
			nil, false, // the zone takes it once
		},
		"a pod's name is nobody's name without the option": {
			labels, "addressType: IPv4\nendpoints: [{addresses: [10.22.0.4], targetRef: {kind: Pod, name: fig-7d9}}]",
			zone.Slice{Name: "x", Service: fig, Cluster: "basil.west", Endpoints: []zone.Endpoint{{Address: a4}}},
			nil, false,
		},
		"addresses of another trust domain": {
			labels, `addressType: IPv4
endpoints:
- {addresses: [127.0.0.1], hostname: fig-1}
- {addresses: [10.22.0.4], hostname: fig-0}
- {addresses: [169.254.169.254], hostname: fig-2}`,
			zone.Slice{Name: "x", Service: fig, Cluster: "basil.west", Endpoints: []zone.Endpoint{{Address: a4, Host: "fig-0"}}},
			[]string{`address: endpoint address "127.0.0.1"`, "169.254.169.254"},
			false,
		},
		"a host name that is no label": {
			labels, "addressType: IPv4\nendpoints: [{addresses: [10.22.0.4], hostname: 'a.b'}, {addresses: [10.22.0.5], hostname: Fig-0}]",
			zone.Slice{
				Name: "x", Service: fig, Cluster: "basil.west",
				Endpoints: []zone.Endpoint{{Address: a4}, {Address: a5, Host: "fig-0"}},
			},
			[]string{`host: endpoint [10.22.0.4]: host name "a.b"`},
			false,
		},
		"no cluster label": {
			"{multicluster.kubernetes.io/service-name: fig}", "addressType: IPv4", zone.Slice{}, []string{"cluster_id: label multicluster.kubernetes.io/source-cluster"}, true,
		},
		"a cluster label that is no cluster id": {
			"{multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: a.b.c}", "addressType: IPv4",
			zone.Slice{},
			[]string{`cluster_id: label multicluster.kubernetes.io/source-cluster: cluster id "a.b.c" has 3 labels`},
			true,
		},
		"an empty service label": {
			"{multicluster.kubernetes.io/service-name: '', multicluster.kubernetes.io/source-cluster: basil}", "addressType: IPv4",
			zone.Slice{},
			[]string{"service: label multicluster.kubernetes.io/service-name"},
			true,
		},
		"host names for addresses": {
			labels, "addressType: FQDN\nendpoints: [{addresses: [store.example]}]", zone.Slice{}, []string{"address_type: address type FQDN"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := decode[discoveryv1.EndpointSlice](t, "metadata: {name: x, namespace: orchard, labels: "+c.labels+"}\n"+c.rest)
			got, problems, ok := convertSlice(in, false)
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

// names: N49
func TestEndpointsAreNamedByTheirPodsWithTheOption(t *testing.T) {
	in := decode[discoveryv1.EndpointSlice](t, `metadata:
  name: x
  namespace: orchard
  labels: {multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil}
addressType: IPv4
endpoints:
- {addresses: [10.22.0.1], hostname: fig-0, targetRef: {kind: Pod, name: fig-7d9}}
- {addresses: [10.22.0.2], targetRef: {kind: Pod, name: fig-8c1}}
- {addresses: [10.22.0.3], targetRef: {kind: Node, name: n1}}
- {addresses: [10.22.0.4], targetRef: {kind: Pod, name: fig.7d9}}
- {addresses: [10.22.0.5]}
- {addresses: [10.22.0.6], hostname: 'a.b', targetRef: {kind: Pod, name: fig-9e2}}
`)
	got, problems, _ := convertSlice(in, true)
	wantProblems(t, problems, "host: ")
	var hosts []string
	for _, e := range got.Endpoints {
		hosts = append(hosts, e.Host)
	}
	if want := []string{"fig-0", "fig-8c1", "", "", "", "fig-9e2"}; !slices.Equal(hosts, want) {
		t.Errorf("hosts are %q, want %q", hosts, want)
	}
}
