package data

import (
	"slices"
	"testing"

	"github.com/miekg/dns"
)

func TestEachSizeContainsTheOneBefore(t *testing.T) {
	want := map[Size][2]int{S: {100, 975}, M: {1000, 18860}, L: {5000, 98140}}
	var before *Set
	for _, size := range Sizes {
		set := Build(size)
		if got := [2]int{len(set.Services), set.Endpoints()}; got != want[size] {
			t.Errorf("size %s has %d services and %d endpoints, want %v", size, got[0], got[1], want[size])
		}
		if before != nil {
			for i, s := range before.Services {
				if o := set.Services[i]; o.FQDN() != s.FQDN() || o.Endpoints() != s.Endpoints() || o.Slices[0].Endpoints[0] != s.Slices[0].Endpoints[0] {
					t.Fatalf("service %d is %s in %s and %s in %s", i, s.FQDN(), before.Size, o.FQDN(), size)
				}
			}
			for _, s := range set.Services[len(before.Services):] {
				if slices.Contains(before.Namespaces, s.Namespace) {
					t.Fatalf("%s is in a namespace of size %s, which has to be whole by itself", s.FQDN(), before.Size)
				}
			}
		}
		before = set
	}
}

func TestNoAddressAndNoNameIsThereTwice(t *testing.T) {
	seen := map[string]bool{}
	note := func(s string) {
		if seen[s] {
			t.Fatalf("%s is there twice", s)
		}
		seen[s] = true
	}
	for _, s := range Build(L).Services {
		note(s.Namespace + "/" + s.Name)
		if s.Kind == ClusterSetIP {
			note(s.IP)
		}
		for _, sl := range s.Slices {
			note("slice " + s.Namespace + "/" + sl.Name)
			for _, e := range sl.Endpoints {
				note(e.Address)
			}
		}
	}
}

func TestEveryMixOfEverySizeHasQueriesThatCanBeSent(t *testing.T) {
	mixes := []Mix{CIPA, HostA, SRV, NXDOMAIN, NODATA, HL3A, HL50A, HL250A, HL250ATC, HL250SRV, Small, Mixed}
	for _, size := range Sizes {
		set := Build(size)
		for _, mix := range mixes {
			for _, q := range set.Queries(mix) {
				if _, ok := dns.IsDomainName(q.Name); !ok || q.UDPSize < dns.MinMsgSize {
					t.Fatalf("mix %s of %s has %+v", mix, size, q)
				}
			}
		}
		kinds := map[int]bool{}
		for _, q := range set.Sample() {
			kinds[q.Answers] = true
		}
		for _, n := range []int{0, 1, 3, 50, 250} {
			if !kinds[n] {
				t.Errorf("the sample of %s has no query with %d answers", size, n)
			}
		}
	}
}
