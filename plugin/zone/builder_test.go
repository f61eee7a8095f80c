package zone

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var orchardPear = mcs.ServiceKey{Namespace: "orchard", Name: "pear"}

func newTestBuilder() *Builder { return NewBuilder(Options{Origins: []string{testOrigin}}) }

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func publish(t *testing.T, b *Builder, now int64) *Zone {
	t.Helper()
	z, problems := b.Publish(now)
	if len(problems) > 0 {
		t.Fatalf("unexpected problems: %v", problems)
	}
	return z
}

func TestSerialMovesOnVisibleChangesOnly(t *testing.T) {
	b := newTestBuilder()
	serial := func(now int64) uint32 { return publish(t, b, now).Serial() }
	imp := Import{Key: orchardPear, Headless: true}
	sl := Slice{Name: "pear-b", Service: orchardPear, Cluster: "basil", Endpoints: []Endpoint{{addrs("10.22.0.4")[0], "pear-0"}}}

	for _, step := range []struct {
		what   string
		change func()
		now    int64
		want   uint32
	}{
		{"the empty zone has the time", func() {}, 1000, 1000},
		{"nothing changed", func() {}, 2000, 1000},
		{"a slice without an import shows nowhere", func() { b.SetSlice(sl) }, 2000, 1000},
		{"an import", func() { b.SetImport(imp) }, 2000, 2000},
		{"the same import", func() { b.SetImport(imp) }, 3000, 2000},
		{"the same slice", func() { b.SetSlice(sl) }, 3000, 2000},
		{"a second slice with the same endpoint", func() { s := sl; s.Name = "pear-c"; b.SetSlice(s) }, 3000, 2000},
		{"the first slice goes, the endpoint stays", func() { b.DeleteSlice("orchard", "pear-b") }, 3000, 2000},
		{"two changes within a second", func() { b.DeleteSlice("orchard", "pear-c") }, 2000, 2001},
		{"a clock that went back", func() { b.SetSlice(sl) }, 5, 2002},
		{"an unknown import is deleted", func() { b.DeleteImport(mcs.ServiceKey{Namespace: "x", Name: "y"}) }, 9000, 2002},
		{"the import is deleted", func() { b.DeleteImport(orchardPear) }, 9000, 9000},
	} {
		step.change()
		if got := serial(step.now); got != step.want {
			t.Fatalf("%s: serial is %d, want %d", step.what, got, step.want)
		}
	}
}

func TestAPublishedZoneNeverChanges(t *testing.T) {
	b := newTestBuilder()
	b.SetImport(Import{Key: orchardPear, Addresses: addrs("10.96.7.10")})
	before := publish(t, b, 1)
	b.SetImport(Import{Key: orchardPear, Addresses: addrs("10.96.7.11")})
	b.SetImport(Import{Key: mcs.ServiceKey{Namespace: "meadow", Name: "hay"}})
	after := publish(t, b, 2)
	for _, c := range []struct {
		z              *Zone
		question, want string
	}{
		{before, "A pear.orchard.svc", "10.96.7.10"},
		{before, "A meadow.svc", "NXDOMAIN"},
		{after, "A pear.orchard.svc", "10.96.7.11"},
		{after, "A meadow.svc", "NODATA"},
	} {
		if got := ask(t, c.z, c.question); got != c.want {
			t.Errorf("serial %d, %s: %s, want %s", c.z.Serial(), c.question, got, c.want)
		}
	}
}

func TestAChangeSharesEveryOtherService(t *testing.T) {
	b := newTestBuilder()
	const n = 2000
	for i := range n {
		b.SetImport(Import{Key: mcs.ServiceKey{Namespace: "orchard", Name: fmt.Sprint("s", i)}, Addresses: addrs("10.96.7.10")})
	}
	before := publish(t, b, 1)
	b.SetImport(Import{Key: mcs.ServiceKey{Namespace: "orchard", Name: "s0"}, Addresses: addrs("10.96.7.11")})
	after := publish(t, b, 2)
	shards := 0
	for i := range before.shards {
		if before.shards[i] != after.shards[i] {
			shards++
		}
	}
	if shards != 1 {
		t.Errorf("%d shards were copied for one change, want 1", shards)
	}
	for i := range n {
		key := fmt.Sprintf("s%d.orchard", i)
		if (before.service(key) == after.service(key)) != (i != 0) {
			t.Errorf("service %s: built again is %v", key, before.service(key) != after.service(key))
		}
	}
}

func TestASliceMayMoveToAnotherService(t *testing.T) {
	b := newTestBuilder()
	plum := mcs.ServiceKey{Namespace: "orchard", Name: "plum"}
	b.SetImport(Import{Key: orchardPear, Headless: true})
	b.SetImport(Import{Key: plum, Headless: true})
	sl := Slice{Name: "x", Service: orchardPear, Cluster: "basil", Endpoints: []Endpoint{{addrs("10.22.0.4")[0], "h"}}}
	b.SetSlice(sl)
	publish(t, b, 1)
	sl.Service = plum
	b.SetSlice(sl)
	z := publish(t, b, 2)
	for question, want := range map[string]string{
		"A pear.orchard.svc": "NXDOMAIN", "A h.basil.pear.orchard.svc": "NXDOMAIN",
		"A plum.orchard.svc": "10.22.0.4", "A h.basil.plum.orchard.svc": "10.22.0.4",
	} {
		if got := ask(t, z, question); got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
	if b.Endpoints() != 1 || b.Imports() != 2 {
		t.Errorf("%d imports and %d endpoints are counted, want 2 and 1", b.Imports(), b.Endpoints())
	}
}

func TestSecondOriginHasItsOwnTargets(t *testing.T) {
	b := NewBuilder(Options{Origins: []string{"clusterset.local.", "mcs.example."}})
	b.SetImport(Import{Key: orchardPear, Headless: true})
	b.SetSlice(Slice{
		Name: "x", Service: orchardPear, Cluster: "basil", Ports: []Port{{"http", "tcp", 80}},
		Endpoints: []Endpoint{{addrs("10.22.0.4")[0], "h"}},
	})
	z := publish(t, b, 1)
	for origin, want := range []string{"h.basil.pear.orchard.svc.clusterset.local.", "h.basil.pear.orchard.svc.mcs.example."} {
		a := z.Lookup(Parse("_http._tcp.pear.orchard.svc"), TypeSRV, origin)
		if len(a.SRV) != 1 || a.Target(a.SRV[0]) != want {
			t.Errorf("origin %d: %s, want target %s", origin, a.text(), want)
		}
	}
}

func TestOnlySlicesThatAnswersDependOnArePublished(t *testing.T) {
	pear, fig := mcs.ServiceKey{Namespace: "n", Name: "pear"}, mcs.ServiceKey{Namespace: "n", Name: "fig"}
	slice := func(service mcs.ServiceKey) Slice {
		return Slice{Name: service.Name, Service: service, Cluster: "basil", Endpoints: []Endpoint{{Address: netip.MustParseAddr("10.22.0.4")}}}
	}
	for name, c := range map[string]struct {
		hideEmpty bool
		of        mcs.ServiceKey
		want      bool
	}{
		"of a headless import":                           {false, fig, true},
		"of a ClusterSetIP import":                       {false, pear, false},
		"of a ClusterSetIP import that hides when empty": {true, pear, true},
		"of an import that is not there":                 {false, mcs.ServiceKey{Namespace: "n", Name: "plum"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(Options{Origins: []string{testOrigin}, HideEmpty: c.hideEmpty})
			b.SetImport(Import{Key: pear})
			b.SetImport(Import{Key: fig, Headless: true})
			b.Publish(1)
			if b.SetSlice(slice(c.of)); b.Pending() != c.want || b.Endpoints() != 1 {
				t.Errorf("added: pending %v with %d endpoints, want %v with 1", b.Pending(), b.Endpoints(), c.want)
			}
			b.Publish(2)
			if b.DeleteSlice("n", c.of.Name); b.Pending() != c.want || b.Endpoints() != 0 {
				t.Errorf("deleted: pending %v with %d endpoints, want %v with none", b.Pending(), b.Endpoints(), c.want)
			}
		})
	}
}
