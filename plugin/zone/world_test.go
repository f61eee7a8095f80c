package zone

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// TestARandomWorldKeepsItsPromises makes thousands of changes to a small world
// in which names collide often.
//
// names: N14 N25 N28 N41
func TestARandomWorldKeepsItsPromises(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, opts := range worldOptions {
		w := world{r.IntN}
		w.run(t, opts, func(step int) bool { return step < 400 })
	}
}

// FuzzWorld is the same with changes that the fuzzer chooses.
func FuzzWorld(f *testing.F) {
	for i := range byte(len(worldOptions)) {
		f.Add(append([]byte{i}, "0123456789abcdefghijklmnopqrstuvwxyz"...))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		w := world{func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := choices[0]
			choices = choices[1:]
			return int(c) % n
		}}
		opts := worldOptions[w.intN(len(worldOptions))]
		w.run(t, opts, func(step int) bool { return step < 200 && len(choices) > 0 })
	})
}

var worldOptions = []Options{
	{Origins: []string{testOrigin}},
	{Origins: []string{testOrigin, "mcs.example."}, Nameservers: worldAddresses[2:5], Reverse: true},
	{Origins: []string{testOrigin}, Reverse: true, Local: "b", PreferLocal: true},
	{Origins: []string{"."}, Reverse: true, Local: "a.b", HideEmpty: true},
}

// world chooses names and objects out of few.
type world struct{ intN func(n int) int }

var (
	worldNamespaces = []string{"n", "m"}
	worldServices   = []string{"a", "b", "c"}
	worldClusters   = []string{"b", "a.b", "c"}
	worldHosts      = []string{"", "a", "h"}
	worldPorts      = []string{"", "http", "dns"}
	worldProtocols  = []string{"tcp", "udp"}
	worldAddresses  = []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.1.1"),
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("2001:db8::"),
	}
)

func (w world) pick(list []string) string { return list[w.intN(len(list))] }

func (w world) service() mcs.ServiceKey {
	return mcs.ServiceKey{Namespace: w.pick(worldNamespaces), Name: w.pick(worldServices)}
}

func (w world) address() netip.Addr { return worldAddresses[w.intN(len(worldAddresses))] }

func (w world) port() Port {
	return Port{Name: w.pick(worldPorts), Protocol: w.pick(worldProtocols), Number: uint16(80 + w.intN(2))}
}

func (w world) imp() Import {
	imp := Import{Key: w.service(), Headless: w.intN(2) == 0}
	for range w.intN(3) {
		imp.Addresses = append(imp.Addresses, w.address())
		imp.Ports = append(imp.Ports, w.port())
	}
	return imp
}

func (w world) slice() Slice {
	s := Slice{Name: w.pick([]string{"s1", "s2", "s3", "s4"}), Service: w.service(), Cluster: mcs.ClusterID(w.pick(worldClusters))}
	for range w.intN(3) {
		s.Ports = append(s.Ports, w.port())
	}
	for range w.intN(4) {
		s.Endpoints = append(s.Endpoints, Endpoint{Address: w.address(), Host: w.pick(worldHosts)})
	}
	return s
}

// objects are the inputs as they should be.
type objects struct {
	imports map[mcs.ServiceKey]Import
	slices  map[sliceKey]Slice
}

// change makes one change, to the Builder and to the objects.
func (w world) change(b *Builder, o *objects) {
	switch w.intN(12) {
	case 0, 1:
		imp := w.imp()
		b.SetImport(imp)
		o.imports[imp.Key] = imp
	case 2:
		key := w.service()
		b.DeleteImport(key)
		delete(o.imports, key)
	case 3:
		gone := w.slice()
		b.DeleteSlice(gone.Service.Namespace, gone.Name)
		delete(o.slices, gone.key())
	case 4, 5:
		switch w.intN(8) {
		case 0:
			w.replaceImports(b, o, "")
		case 1:
			w.replaceImports(b, o, w.pick(worldNamespaces))
		case 2:
			w.replaceSlices(b, o, "")
		default:
			w.replaceSlices(b, o, w.pick(worldNamespaces))
		}
	default:
		s := w.slice()
		b.SetSlice(s)
		o.slices[s.key()] = s
	}
}

func (w world) replaceImports(b *Builder, o *objects, namespace string) {
	maps.DeleteFunc(o.imports, func(key mcs.ServiceKey, _ Import) bool { return namespace == "" || key.Namespace == namespace })
	var list []Import
	for range w.intN(4) {
		imp := w.imp()
		if _, twice := o.imports[imp.Key]; !twice && (namespace == "" || imp.Key.Namespace == namespace) {
			list = append(list, imp)
			o.imports[imp.Key] = imp
		}
	}
	b.ReplaceImports(namespace, list)
}

func (w world) replaceSlices(b *Builder, o *objects, namespace string) {
	maps.DeleteFunc(o.slices, func(key sliceKey, _ Slice) bool { return namespace == "" || key.namespace == namespace })
	var list []Slice
	for range w.intN(4) {
		s := w.slice()
		if _, twice := o.slices[s.key()]; !twice && (namespace == "" || s.Service.Namespace == namespace) {
			list = append(list, s)
			o.slices[s.key()] = s
		}
	}
	b.ReplaceSlices(namespace, list)
}

// run changes the world while more says so, and looks at it every few changes.
func (w world) run(t *testing.T, opts Options, more func(step int) bool) {
	t.Helper()
	b := NewBuilder(opts)
	o := &objects{map[mcs.ServiceKey]Import{}, map[sliceKey]Slice{}}
	var before *Zone
	for step := 0; more(step); step++ {
		w.change(b, o)
		if w.intN(3) > 0 {
			continue
		}
		z, problems := b.Publish(int64(step))
		if len(problems) > 0 {
			t.Fatalf("step %d: problems %v", step, problems)
		}
		sameAsRebuilt(t, b, o, z)
		namesAboveExist(t, z)
		reverseAgrees(t, z, &opts)
		walkAgrees(t, z, &opts)
		if before != nil && (z == before) != (z.Serial() == before.Serial()) {
			t.Fatalf("step %d: serial %d after %d, and another zone is %v", step, z.Serial(), before.Serial(), z != before)
		}
		before = z
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
}

// sameAsRebuilt compares a zone that was kept up to date with one that is built
// from nothing.
func sameAsRebuilt(t *testing.T, b *Builder, o *objects, z *Zone) {
	t.Helper()
	fresh := NewBuilder(b.opts)
	for _, imp := range o.imports {
		fresh.SetImport(imp)
	}
	for _, s := range o.slices {
		fresh.SetSlice(s)
	}
	want, _ := fresh.Publish(1)
	if b.Pending() {
		t.Error("there is something to publish right after it was")
	}
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(flat(want), flat(z), everything); diff != "" {
		t.Errorf("differs from the rebuilt zone (-rebuilt +kept):\n%s", diff)
	}
	if b.Imports() != fresh.Imports() || b.Endpoints() != fresh.Endpoints() {
		t.Errorf("counts %d and %d, want %d and %d", b.Imports(), b.Endpoints(), fresh.Imports(), fresh.Endpoints())
	}
}

// flat is a zone without shards and chunks.
func flat(z *Zone) any {
	services := map[string]*service{}
	for _, sh := range z.shards {
		maps.Copy(services, sh.services)
		for name := range sh.namespaces {
			services["namespace "+name] = nil
		}
	}
	return struct {
		services map[string]*service
		reverse  []pointer
	}{services, slices.Concat(z.reverse...)}
}

// worldNames are the names below N.svc.Z that may exist.
func worldNames() (names []string) {
	lefts := []string{""}
	for _, cluster := range worldClusters {
		for _, host := range append([]string{"a", "h"}, addressHosts()...) {
			lefts = append(lefts, host+"."+cluster+".")
		}
	}
	for _, port := range worldPorts[1:] {
		for _, protocol := range worldProtocols {
			lefts = append(lefts, "_"+port+"._"+protocol+".")
		}
	}
	for _, namespace := range worldNamespaces {
		for _, name := range worldServices {
			for _, left := range lefts {
				names = append(names, left+name+"."+namespace+".svc")
			}
		}
	}
	return names
}

func addressHosts() (hosts []string) {
	for _, a := range worldAddresses {
		hosts = append(hosts, string(appendAddressHost(nil, a)))
	}
	return hosts
}

// namesAboveExist looks at every name that exists: those above it have to.
func namesAboveExist(t *testing.T, z *Zone) {
	t.Helper()
	for _, name := range worldNames() {
		if a := z.Lookup(Parse(name), TypeANY, 0); a.Result == NameError {
			continue
		}
		for above := name; above != ""; _, above, _ = strings.Cut(above, ".") {
			if a := z.Lookup(Parse(above), TypeANY, 0); a.Result == NameError {
				t.Errorf("%s exists, and %s above it is NXDOMAIN", name, above)
			}
		}
	}
}

// reverseAgrees compares reverse answers with what the forward ones say.
func reverseAgrees(t *testing.T, z *Zone, opts *Options) {
	t.Helper()
	want := map[netip.Addr][]string{}
	if opts.Reverse {
		for _, name := range worldNames() {
			q := Parse(name)
			local := q.Form == FormEndpoint && strings.HasSuffix(q.Left, "."+string(opts.Local)) && strings.Count(q.Left, ".") == 1+strings.Count(string(opts.Local), ".")
			if headless, _ := z.Kind(q.Service); local || (headless && q.Form == FormService) {
				continue
			}
			a, aaaa := z.Lookup(q, TypeA, 0), z.Lookup(q, TypeAAAA, 0)
			owner := name + "." + strings.TrimPrefix(opts.Origins[0], ".")
			for _, addr := range slices.Concat(answerAddresses(&a), answerAddresses(&aaaa)) {
				want[addr] = append(want[addr], owner)
			}
		}
	}
	for _, addr := range worldAddresses {
		prefix, ok := ParseReverse(ReverseName(addr))
		if !ok || prefix.Addr() != addr || !prefix.IsSingleIP() {
			t.Fatalf("the reverse name of %s is read as %v", addr, prefix)
		}
		a := z.Reverse(prefix, TypePTR)
		got := slices.Sorted(a.PTR())
		slices.Sort(want[addr])
		if !slices.Equal(got, want[addr]) || (a.Result == Records) != (len(got) > 0) {
			t.Errorf("%s leads to %q (result %d), want %q", addr, got, a.Result, want[addr])
		}
		for bits := range addr.BitLen() {
			above := netip.PrefixFrom(addr, bits).Masked()
			below := slices.ContainsFunc(worldAddresses, func(a netip.Addr) bool { return above.Contains(a) && len(want[a]) > 0 })
			if a := z.Reverse(above, TypePTR); (a.Result == NoData) != below || (a.Result == NameError) == below {
				t.Errorf("%s has result %d, and an address in it leads somewhere: %v", above, a.Result, below)
			}
		}
	}
}

// walkAgrees compares what a transfer sends with what look-ups answer, under the
// last origin.
func walkAgrees(t *testing.T, z *Zone, opts *Options) {
	t.Helper()
	last := len(opts.Origins) - 1
	sent := map[string]string{}
	for owner, a := range z.Walk(last) {
		typ := TypeTXT
		switch {
		case len(a.V4) > 0:
			typ = TypeA
		case len(a.V6) > 0:
			typ = TypeAAAA
		case len(a.SRV) > 0:
			typ = TypeSRV
		}
		rel, ok := Cut(owner, opts.Origins[last])
		question := fmt.Sprint(typ, " ", strings.TrimSuffix(rel, "."))
		if _, twice := sent[question]; twice || !ok {
			t.Errorf("walk sends %s %q twice, or outside the zone", question, owner)
		}
		sent[question] = a.text()
	}
	want := map[string]string{}
	for _, name := range append(worldNames(), "dns-version", "ns.dns", "svc", "dns", "n.svc") {
		for _, typ := range []Type{TypeA, TypeAAAA, TypeSRV, TypeTXT} {
			a := z.Lookup(Parse(name), typ, last)
			a.Additional = false
			if a.Result == Records || a.Result == VersionTXT {
				want[fmt.Sprint(typ, " ", name)] = a.text()
			}
		}
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("a transfer differs from look-ups (-look-up +transfer):\n%s", diff)
	}
	for _, above := range []string{"0.0.0.0/0", "::/0", "10.0.0.0/24", "10.0.1.0/24", "fd00::/16", "2001:db8::/128", "192.0.2.0/24"} {
		prefix := netip.MustParsePrefix(above)
		var want []netip.Addr
		for _, addr := range worldAddresses {
			if a := z.Reverse(netip.PrefixFrom(addr, addr.BitLen()), TypePTR); prefix.Contains(addr) && a.Result == Records {
				want = append(want, addr)
			}
		}
		slices.SortFunc(want, netip.Addr.Compare)
		if got := slices.Collect(z.WalkReverse(prefix)); !slices.Equal(got, want) {
			t.Errorf("a transfer of %s has %v, want %v", prefix, got, want)
		}
	}
}

func answerAddresses(a *Answer) (addrs []netip.Addr) {
	for _, v4 := range a.V4 {
		addrs = append(addrs, netip.AddrFrom4(v4))
	}
	for _, v6 := range a.V6 {
		addrs = append(addrs, netip.AddrFrom16(v6))
	}
	return addrs
}

func TestInputsAreWhatWasGiven(t *testing.T) {
	b := newTestBuilder()
	imp := Import{Key: orchardPear, Headless: true}
	sl := Slice{Name: "pear-b", Service: orchardPear, Cluster: "basil", Endpoints: []Endpoint{{addrs("10.22.0.4")[0], "pear-0"}}}
	b.SetImport(imp)
	b.SetSlice(sl)
	b.SetSlice(Slice{Name: "gone", Service: orchardPear})
	b.DeleteSlice("orchard", "gone")
	imports, all := b.Inputs()
	if len(imports) != 1 || !imports[0].equal(imp) || len(all) != 1 || !all[0].equal(sl) {
		t.Errorf("inputs %v and %v", imports, all)
	}
}

// TestAResumedSerialIsAboveTheOldOne is about a zone that was seen before a restart.
//
// names: N41
func TestAResumedSerialIsAboveTheOldOne(t *testing.T) {
	for _, c := range []struct {
		resumed uint32
		now     int64
		want    uint32
	}{{1000, 5, 1001}, {1000, 5000, 5000}, {0, 0, 1}} {
		b := newTestBuilder()
		b.Resume(c.resumed)
		if got := publish(t, b, c.now).Serial(); got != c.want {
			t.Errorf("resumed at %d, the time is %d: serial %d, want %d", c.resumed, c.now, got, c.want)
		}
		b.SetImport(Import{Key: orchardPear})
		if got := publish(t, b, c.now).Serial(); got != c.want+1 {
			t.Errorf("the serial after a change is %d, want %d", got, c.want+1)
		}
	}
}

func TestKindTellsWhatAnImportIs(t *testing.T) {
	z, _ := parseObjects(t, "import n/c clusterset 10.96.7.10\nimport n/h headless\nslice n/h h basil\nendpoint 10.22.0.4\nimport n/e headless\n").Publish(1)
	for service, want := range map[string]string{"c.n": "false true", "h.n": "true true", "e.n": "false false", "x.n": "false false"} {
		if headless, exists := z.Kind(service); fmt.Sprint(headless, " ", exists) != want {
			t.Errorf("%s: headless %v, exists %v, want %s", service, headless, exists, want)
		}
	}
}
