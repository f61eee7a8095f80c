package zone

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// benchBuilder holds services named s0.., every second one headless, each with
// the same number of endpoints.
func benchBuilder(services, endpoints int) *Builder {
	b := newTestBuilder()
	ip := netip.MustParseAddr("10.0.0.1")
	for i := range services {
		key := mcs.ServiceKey{Namespace: fmt.Sprint("n", i%20), Name: fmt.Sprint("s", i)}
		b.SetImport(Import{
			Key: key, Headless: i%2 == 1, Addresses: addrs("10.96.7.10"),
			Ports: []Port{{"http", "tcp", 80}},
		})
		sl := Slice{Name: key.Name, Service: key, Cluster: "basil", Ports: []Port{{"http", "tcp", 80}}}
		for e := range endpoints {
			ip = ip.Next()
			sl.Endpoints = append(sl.Endpoints, Endpoint{ip, fmt.Sprint("h", e)})
		}
		b.SetSlice(sl)
	}
	return b
}

var benchQuestions = map[string]struct {
	name string
	typ  Type
}{
	"clustersetip A":   {"s0.n0.svc.clusterset.local.", TypeA},
	"clustersetip SRV": {"_http._tcp.s0.n0.svc.clusterset.local.", TypeSRV},
	"nodata":           {"s0.n0.svc.clusterset.local.", TypeAAAA},
	"nxdomain":         {"nope.n0.svc.clusterset.local.", TypeA},
	"headless A":       {"s1.n1.svc.clusterset.local.", TypeA},
	"host A":           {"h7.basil.s1.n1.svc.clusterset.local.", TypeA},
}

func lookup(z *Zone, name string, typ Type) Answer {
	rel, _ := Cut(name, testOrigin)
	return z.Lookup(Parse(rel), typ, 0)
}

func BenchmarkLookup(b *testing.B) {
	for _, services := range []int{100, 5000} {
		z, _ := benchBuilder(services, 20).Publish(1)
		for what, q := range benchQuestions {
			b.Run(fmt.Sprintf("%d services/%s", services, what), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					lookup(z, q.name, q.typ)
				}
			})
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	z, _ := benchBuilder(100, 20).Publish(1)
	for what, q := range benchQuestions {
		if n := testing.AllocsPerRun(100, func() { lookup(z, q.name, q.typ) }); n > 0 {
			t.Errorf("%s: %v allocations, want none", what, n)
		}
	}
}

func BenchmarkPublishOneChange(b *testing.B) {
	for _, services := range []int{100, 5000} {
		b.Run(fmt.Sprintf("%d services", services), func(b *testing.B) {
			builder := benchBuilder(services, 20)
			builder.Publish(1)
			key := mcs.ServiceKey{Namespace: "n0", Name: "s0"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				builder.SetImport(Import{Key: key, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 7, byte(i)})}})
				builder.Publish(1)
			}
		})
	}
}
