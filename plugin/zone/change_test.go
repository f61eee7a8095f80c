package zone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestNoChangeIsOverlooked replaces objects by others that differ in one thing.
//
// names: N41
func TestNoChangeIsOverlooked(t *testing.T) {
	long := strings.Repeat("l", 63)
	longFig := "import orchard/" + long + " headless\nslice orchard/fig-b " + long + " " + long + " http:tcp:80\nendpoint 10.22.0.5 h\n"
	const fig = "import orchard/fig headless\n"
	for name, c := range map[string]struct{ before, after, question, answer, becomes string }{
		"an address of an import": {
			"import orchard/pear clusterset 10.96.7.10", "import orchard/pear clusterset 10.96.7.11",
			"A pear.orchard.svc", "10.96.7.10", "10.96.7.11",
		},
		"the number of a port without a name": {
			"import orchard/pear clusterset 10.96.7.10 :tcp:80", "import orchard/pear clusterset 10.96.7.10 :tcp:81",
			"SRV pear.orchard.svc", "80 pear.orchard.svc.clusterset.local.", "81 pear.orchard.svc.clusterset.local.",
		},
		"the name of a port": {
			"import orchard/pear clusterset http:tcp:80", "import orchard/pear clusterset hypp:tcp:80",
			"SRV _hypp._tcp.pear.orchard.svc", "NXDOMAIN", "80 pear.orchard.svc.clusterset.local. ()",
		},
		"the protocol of a port": {
			"import orchard/pear clusterset http:tcp:80", "import orchard/pear clusterset http:udp:80",
			"A _udp.pear.orchard.svc", "NXDOMAIN", "NODATA",
		},
		"the type of an import": {
			"import orchard/pear clusterset 10.96.7.10", "import orchard/pear headless 10.96.7.10",
			"A pear.orchard.svc", "10.96.7.10", "NXDOMAIN",
		},
		"an address of a host": {
			fig + "slice orchard/fig-b fig basil\nendpoint 10.22.0.4 h", fig + "slice orchard/fig-b fig basil\nendpoint 10.22.0.5 h",
			"A h.basil.fig.orchard.svc", "10.22.0.4", "10.22.0.5",
		},
		"the name of a host": {
			fig + "slice orchard/fig-b fig basil\nendpoint 10.22.0.4 h", fig + "slice orchard/fig-b fig basil\nendpoint 10.22.0.4 i",
			"A i.basil.fig.orchard.svc", "NXDOMAIN", "10.22.0.4",
		},
		"the cluster of a slice": {
			fig + "slice orchard/fig-b fig basil\nendpoint 10.22.0.4 h", fig + "slice orchard/fig-b fig amber\nendpoint 10.22.0.4 h",
			"A h.amber.fig.orchard.svc", "NXDOMAIN", "10.22.0.4",
		},
		"the number of a slice's port": {
			fig + "slice orchard/fig-b fig basil :tcp:80\nendpoint 10.22.0.4 h", fig + "slice orchard/fig-b fig basil :tcp:81\nendpoint 10.22.0.4 h",
			"SRV fig.orchard.svc", "80 h.basil.fig.orchard.svc.clusterset.local.", "81 h.basil.fig.orchard.svc.clusterset.local.",
		},
		"an address of a host without a name": {
			longFig + "endpoint 10.22.0.4 " + long, longFig + "endpoint 10.22.0.6 " + long,
			"A " + long + ".orchard.svc", "10.22.0.4; 10.22.0.5", "10.22.0.5; 10.22.0.6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The second origin makes the name of a long host too long.
			origins := "origin clusterset.local. " + strings.Repeat("o.", 40) + "\n"
			b := parseObjects(t, origins+c.before)
			z, _ := b.Publish(1)
			if got := ask(t, z, c.question); got != c.answer {
				t.Fatalf("before: %s, want %s", got, c.answer)
			}
			imports, all := parseObjects(t, c.after).Inputs()
			b.ReplaceImports("", imports)
			b.ReplaceSlices("", all)
			after, _ := b.Publish(1)
			if got := ask(t, after, c.question); got != c.becomes {
				t.Errorf("after: %s, want %s", got, c.becomes)
			}
			if after.Serial() != z.Serial()+1 {
				t.Errorf("the serial went from %d to %d", z.Serial(), after.Serial())
			}
		})
	}
}

// TestTheLongestNames is about names of 255 octets, which is 253 characters and
// a dot, and of one more.
//
// names: N44
func TestTheLongestNames(t *testing.T) {
	long := strings.Repeat("l", 63)
	origin := func(n int) string { return strings.Repeat("o.", n/2-1) + strings.Repeat("o", 1+n%2) + "." }
	headless := func(host string) string {
		return "import " + long + "/" + long + " headless\nslice " + long + "/x " + long + " c http:tcp:80\nendpoint 10.22.0.4 " + host + "\n"
	}
	clusterset := "import " + long + "/" + long + " clusterset 10.96.7.10 http:tcp:80\n"
	for name, c := range map[string]struct {
		objects, origins string
		fits             bool
	}{
		"an import's of 255 octets":                     {clusterset, origin(122), true},
		"an import's of 256 octets":                     {clusterset, origin(123), false},
		"a host's of 255 octets":                        {headless("h"), origin(118), true},
		"a host's of 256 octets":                        {headless("hh"), origin(118), false},
		"an import's that fits in the first zone alone": {clusterset, "z. " + origin(123), false},
		"a host's that fits in the first zone alone":    {headless("h"), "z. " + origin(119), false},
		"a host's that fits in the second zone alone":   {headless("h"), origin(119) + " z.", false},
	} {
		t.Run(name, func(t *testing.T) {
			z, problems := parseObjects(t, "origin "+c.origins+"\n"+c.objects).Publish(1)
			srv := z.Lookup(Parse(long+"."+long+".svc"), TypeSRV, 0)
			if (len(problems) == 0) != c.fits || (srv.Result == Records) != c.fits {
				t.Errorf("problems %v, SRV result %d, want that it fits: %v", problems, srv.Result, c.fits)
			}
			if a := z.Lookup(Parse(long+"."+long+".svc"), TypeA, 0); len(a.V4) != 1 {
				t.Errorf("the address is not there: %v", a.V4)
			}
			if c.fits && strings.Contains(c.objects, "headless") {
				if got := len(srv.Target(srv.SRV[0])); got != maxName {
					t.Errorf("this tests a name of %d characters, want %d", got, maxName)
				}
			}
		})
	}
}

// TestManyAddressesHaveTheirReverseNames changes services with more addresses
// than one chunk of the list holds.
//
// names: N14
func TestManyAddressesHaveTheirReverseNames(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	b := NewBuilder(Options{Origins: []string{testOrigin}, Reverse: true})
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}) }
	has := map[string][]netip.Addr{}
	for step := range 60 {
		key := orchardPear
		key.Name = fmt.Sprint("s", r.IntN(6))
		imp := Import{Key: key}
		for range r.IntN(5) * 300 {
			imp.Addresses = append(imp.Addresses, address(r.IntN(4000)))
		}
		has[key.Name] = imp.Addresses
		b.SetImport(imp)
		z := publish(t, b, int64(step))

		want := map[netip.Addr][]string{}
		for name, addrs := range has {
			slices.SortFunc(addrs, netip.Addr.Compare)
			for _, a := range slices.Compact(addrs) {
				want[a] = append(want[a], name+".orchard.svc.clusterset.local.")
			}
		}
		for i := range 4000 {
			a := z.Reverse(netip.PrefixFrom(address(i), 32), TypePTR)
			slices.Sort(want[address(i)])
			if got := slices.Sorted(a.PTR()); !slices.Equal(got, want[address(i)]) {
				t.Fatalf("step %d, %s leads to %q, want %q", step, address(i), got, want[address(i)])
			}
		}
		for _, chunk := range z.reverse {
			if len(chunk) == 0 || len(chunk) > maxChunk {
				t.Fatalf("step %d: a chunk of %d addresses", step, len(chunk))
			}
		}
	}
}

// TestATransferIsInOrder is about services, by name.
//
// names: N25
func TestATransferIsInOrder(t *testing.T) {
	z := publish(t, benchBuilder(100, 1), 1)
	var owners []string
	for owner, a := range z.Walk(0) {
		if owner[0] == 's' && len(a.V4) > 0 {
			owners = append(owners, owner)
		}
	}
	if len(owners) != 100 || !slices.IsSorted(owners) {
		t.Errorf("%d services, in the order %q", len(owners), owners)
	}
	for range z.Walk(0) {
		break // it may be left early
	}
}
