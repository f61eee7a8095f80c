package k8smcs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// fixed is a zoneSource that never changes; its zero value is not synced.
type fixed struct {
	z     *zone.Zone
	stale bool
}

func (f fixed) Zone() *zone.Zone { return f.z }
func (f fixed) Stale() bool      { return f.stale }

const testSerial = 1700000000

// testZone holds pear, a ClusterSetIP import, and fig, a headless one with
// endpoints in two clusters.
func testZone(origins ...string) *zone.Zone {
	b := zone.NewBuilder(zone.Options{
		Origins: origins, Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.53")},
		Local: "amber", Reverse: true,
	})
	http := []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}}
	fig := mcs.ServiceKey{Namespace: "orchard", Name: "fig"}
	b.SetImport(zone.Import{
		Key: mcs.ServiceKey{Namespace: "orchard", Name: "pear"}, Ports: http,
		Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.10")},
	})
	b.SetImport(zone.Import{Key: fig, Headless: true})
	b.SetSlice(zone.Slice{Name: "a", Service: fig, Cluster: "amber", Ports: http, Endpoints: []zone.Endpoint{
		{Address: netip.MustParseAddr("10.11.0.4"), Host: "fig-0"},
	}})
	b.SetSlice(zone.Slice{Name: "b", Service: fig, Cluster: "basil", Ports: http, Endpoints: []zone.Endpoint{
		{Address: netip.MustParseAddr("10.22.0.4"), Host: "fig-0"},
		{Address: netip.MustParseAddr("10.22.0.5"), Host: "fig-1"},
		{Address: netip.MustParseAddr("2001:db8:22::4"), Host: "fig-0"},
	}})
	z, _ := b.Publish(testSerial)
	return z
}

func testPlugin() *Plugin {
	cfg := &config{zones: []string{"clusterset.local."}, reverseZones: []string{"in-addr.arpa.", "ip6.arpa."}, ttl: 5}
	return newPlugin(cfg, fixed{z: testZone(cfg.zones...)})
}

func question(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	return m
}

// serve asks the handler and returns its message, nil when it wrote none.
func serve(t *testing.T, h plugin.Handler, r *dns.Msg) (*dns.Msg, int, error) {
	t.Helper()
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	rcode, err := h.ServeDNS(t.Context(), w, r)
	return w.Msg, rcode, err
}

// text is a section without TTLs, sorted, because answers begin anywhere.
func text(rrs []dns.RR) string {
	var out []string
	for _, rr := range rrs {
		out = append(out, strings.Join(strings.Fields(strings.Replace(rr.String(), fmt.Sprint("\t", rr.Header().Ttl, "\tIN"), "", 1)), " "))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

const (
	inAddrSOA = "in-addr.arpa. SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 1700000000 7200 1800 86400 5"
	reverse6  = "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.2.0.0.8.b.d.0.1.0.0.2.ip6.arpa."
)

const soaText = "clusterset.local. SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 1700000000 7200 1800 86400 5"

func TestServeDNS(t *testing.T) {
	const pear, fig = "pear.orchard.svc.clusterset.local.", "fig.orchard.svc.clusterset.local."
	p := testPlugin()
	for name, c := range map[string]struct {
		name              string
		qtype             uint16
		rcode             int
		answer, ns, extra string
	}{
		"A of a ClusterSetIP import": {name: pear, qtype: dns.TypeA, answer: pear + " A 10.96.7.10"},
		"the owner is the question's name, byte for byte": {
			name: "PeAr.oRcHaRd.SvC.cLuStErSeT.LoCaL.", qtype: dns.TypeA, answer: "PeAr.oRcHaRd.SvC.cLuStErSeT.LoCaL. A 10.96.7.10",
		},
		"AAAA of an IPv4 import is NODATA":        {name: pear, qtype: dns.TypeAAAA, ns: soaText},
		"TXT of an import is NODATA":              {name: pear, qtype: dns.TypeTXT, ns: soaText},
		"HTTPS of an import is NODATA":            {name: pear, qtype: dns.TypeHTTPS, ns: soaText},
		"DS of an import is NODATA":               {name: pear, qtype: dns.TypeDS, ns: soaText},
		"a type that nobody knows is NODATA":      {name: pear, qtype: 65280, ns: soaText},
		"an import that is not there is NXDOMAIN": {name: "plum.orchard.svc.clusterset.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError, ns: soaText},
		"SRV of a port, with the address": {
			name: "_http._tcp." + pear, qtype: dns.TypeSRV,
			answer: "_http._tcp." + pear + " SRV 0 100 80 " + pear, extra: pear + " A 10.96.7.10",
		},
		"SRV of the service": {name: pear, qtype: dns.TypeSRV, answer: pear + " SRV 0 100 80 " + pear},
		"A of a headless import": {
			name: fig, qtype: dns.TypeA,
			answer: fig + " A 10.11.0.4; " + fig + " A 10.22.0.4; " + fig + " A 10.22.0.5",
		},
		"AAAA of a headless import": {name: fig, qtype: dns.TypeAAAA, answer: fig + " AAAA 2001:db8:22::4"},
		"SRV of a headless port, with every address once": {
			name: "_HTTP._tcp." + fig, qtype: dns.TypeSRV,
			answer: "_HTTP._tcp." + fig + " SRV 0 100 80 fig-0.amber." + fig +
				"; _HTTP._tcp." + fig + " SRV 0 100 80 fig-0.basil." + fig +
				"; _HTTP._tcp." + fig + " SRV 0 100 80 fig-1.basil." + fig,
			extra: "fig-0.amber." + fig + " A 10.11.0.4; fig-0.basil." + fig + " A 10.22.0.4; fig-0.basil." + fig +
				" AAAA 2001:db8:22::4; fig-1.basil." + fig + " A 10.22.0.5",
		},
		"A of a host":                        {name: "fig-0.basil." + fig, qtype: dns.TypeA, answer: "fig-0.basil." + fig + " A 10.22.0.4"},
		"a cluster exists and holds nothing": {name: "basil." + fig, qtype: dns.TypeA, ns: soaText},
		"SOA of the apex":                    {name: "clusterset.local.", qtype: dns.TypeSOA, answer: soaText},
		"NS of the apex":                     {name: "clusterset.local.", qtype: dns.TypeNS, answer: "clusterset.local. NS ns.dns.clusterset.local."},
		"A of the apex is NODATA":            {name: "clusterset.local.", qtype: dns.TypeA, ns: soaText},
		"the name server's address":          {name: "ns.dns.clusterset.local.", qtype: dns.TypeA, answer: "ns.dns.clusterset.local. A 10.96.0.53"},
		"the schema version":                 {name: "dns-version.clusterset.local.", qtype: dns.TypeTXT, answer: `dns-version.clusterset.local. TXT "1.0.0"`},
		"ANY of an existing name is small":   {name: fig, qtype: dns.TypeANY, answer: fig + ` HINFO "RFC8482" ""`},
		"ANY of a missing name is NXDOMAIN":  {name: "plum." + fig[4:], qtype: dns.TypeANY, rcode: dns.RcodeNameError, ns: soaText},
		"a wildcard is an ordinary label":    {name: "*.orchard.svc.clusterset.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError, ns: soaText},
		"search path debris":                 {name: pear + "clusterset.local.", qtype: dns.TypeA, rcode: dns.RcodeNameError, ns: soaText},
		"an escaped dot is no dot":           {name: `pear\.orchard.svc.clusterset.local.`, qtype: dns.TypeA, rcode: dns.RcodeNameError, ns: soaText},
		"PTR of an endpoint of another cluster": {
			name: "5.0.22.10.In-Addr.arpa.", qtype: dns.TypePTR,
			answer: "5.0.22.10.In-Addr.arpa. PTR fig-1.basil." + fig,
		},
		"PTR of a clusterset IP": {name: "10.7.96.10.in-addr.arpa.", qtype: dns.TypePTR, answer: "10.7.96.10.in-addr.arpa. PTR " + pear},
		"PTR of an IPv6 endpoint": {
			name: reverse6, qtype: dns.TypePTR, answer: reverse6 + " PTR fig-0.basil." + fig,
		},
		"PTR of an endpoint of the own cluster is somebody else's": {
			name: "4.0.11.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError, ns: inAddrSOA,
		},
		"a network with such addresses is NODATA": {name: "22.10.in-addr.arpa.", qtype: dns.TypePTR, ns: inAddrSOA},
		"A of a reverse name is NODATA":           {name: "5.0.22.10.in-addr.arpa.", qtype: dns.TypeA, ns: inAddrSOA},
		"a reverse name of nobody": {
			name: "6.0.22.10.in-addr.arpa.", qtype: dns.TypePTR, rcode: dns.RcodeNameError,
			ns: inAddrSOA,
		},
		"a service's name under a reverse zone": {
			name: "pear.orchard.svc.ip6.arpa.", qtype: dns.TypeA, rcode: dns.RcodeNameError,
			ns: "ip6.arpa. SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 1700000000 7200 1800 86400 5",
		},
		"NS of a reverse zone": {name: "in-addr.arpa.", qtype: dns.TypeNS, answer: "in-addr.arpa. NS ns.dns.clusterset.local."},
	} {
		t.Run(name, func(t *testing.T) {
			r := question(c.name, c.qtype)
			m, rcode, err := serve(t, p, r)
			if err != nil || rcode != c.rcode || m == nil || m.Rcode != c.rcode {
				t.Fatalf("rcode %d, error %v, message %v, want rcode %d", rcode, err, m, c.rcode)
			}
			if got := text(m.Answer); got != c.answer {
				t.Errorf("answer %s\n  want %s", got, c.answer)
			}
			if got := text(m.Ns); got != c.ns {
				t.Errorf("authority %s\n     want %s", got, c.ns)
			}
			if got := text(m.Extra); got != c.extra {
				t.Errorf("additional %s\n      want %s", got, c.extra)
			}
			if m.Id != r.Id || !m.Response || !m.Authoritative || !m.RecursionDesired || m.Question[0] != r.Question[0] {
				t.Errorf("header %+v, question %v", m.MsgHdr, m.Question)
			}
			for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
				if want := uint32(5); rr.Header().Ttl != want && rr.Header().Rrtype != dns.TypeTXT {
					t.Errorf("%s has TTL %d, want %d", rr, rr.Header().Ttl, want)
				}
			}
		})
	}
	m, _, _ := serve(t, p, question("dns-version.clusterset.local.", dns.TypeTXT))
	if ttl := m.Answer[0].Header().Ttl; ttl != 28800 {
		t.Errorf("the version's TTL is %d, want 28800", ttl)
	}
}

// next is a plugin behind ours that counts and answers with an rcode and error.
type next struct {
	calls int
	rcode int
	err   error
}

func (n *next) Name() string { return "next" }

func (n *next) ServeDNS(_ context.Context, _ dns.ResponseWriter, r *dns.Msg) (int, error) {
	if !strings.HasPrefix(r.Question[0].Name, "loop-probe-") { // see loop.go
		n.calls++
	}
	return n.rcode, n.err
}

func TestWhatGoesToTheNextPlugin(t *testing.T) {
	const pear, plum = "pear.orchard.svc.clusterset.local.", "plum.orchard.svc.clusterset.local."
	chaos := question(pear, dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	update := question("clusterset.local.", dns.TypeSOA)
	update.Opcode = dns.OpcodeNotify
	for name, c := range map[string]struct {
		r    *dns.Msg
		fall []string
		want int
	}{
		"a name of another zone":                          {question("example.org.", dns.TypeA), nil, 1},
		"a zone that only ends like ours":                 {question("xclusterset.local.", dns.TypeA), nil, 1},
		"cluster.local":                                   {question("pear.orchard.svc.cluster.local.", dns.TypeA), nil, 1},
		"another class":                                   {chaos, nil, 1},
		"a notification":                                  {update, nil, 1},
		"a transfer of our zone":                          {question("clusterset.local.", dns.TypeAXFR), nil, 1},
		"an incremental transfer of our zone":             {question("clusterset.local.", dns.TypeIXFR), nil, 1},
		"a name of ours":                                  {question(pear, dns.TypeA), []string{"."}, 0},
		"NODATA, although fallthrough is on":              {question(pear, dns.TypeAAAA), []string{"."}, 0},
		"a cluster's name, although fallthrough is on":    {question("basil.fig.orchard.svc.clusterset.local.", dns.TypeA), []string{"."}, 0},
		"ANY of an existing name":                         {question(pear, dns.TypeANY), []string{"."}, 0},
		"NXDOMAIN without fallthrough":                    {question(plum, dns.TypeA), nil, 0},
		"NXDOMAIN with fallthrough":                       {question(plum, dns.TypeA), []string{"."}, 1},
		"NXDOMAIN with fallthrough of our zone":           {question(strings.ToUpper(plum), dns.TypeA), []string{"clusterset.local."}, 1},
		"NXDOMAIN with fallthrough of another zone":       {question(plum, dns.TypeA), []string{"in-addr.arpa."}, 0},
		"a reverse name with fallthrough of that zone":    {question("6.0.22.10.in-addr.arpa.", dns.TypePTR), []string{"in-addr.arpa."}, 1},
		"a reverse name of ours with fallthrough":         {question("4.0.22.10.in-addr.arpa.", dns.TypePTR), []string{"."}, 0},
		"a network of ours with fallthrough":              {question("22.10.in-addr.arpa.", dns.TypePTR), []string{"."}, 0},
		"a reverse name with fallthrough of another zone": {question("6.0.22.10.in-addr.arpa.", dns.TypePTR), []string{"clusterset.local."}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &next{rcode: dns.RcodeRefused, err: errors.New("from behind")}
			p := testPlugin()
			p.Next, p.fall = n, c.fall
			_, rcode, err := serve(t, p, c.r)
			if n.calls != c.want {
				t.Fatalf("the next plugin was called %d times, want %d", n.calls, c.want)
			}
			if c.want == 1 && (rcode != n.rcode || !errors.Is(err, n.err)) {
				t.Errorf("its result became %d, %v", rcode, err)
			}
		})
	}
}

func TestUnsyncedNamesAreServfailAndStayHere(t *testing.T) {
	n := &next{}
	p := testPlugin()
	p.source, p.Next, p.fall = fixed{}, n, []string{"."}
	if p.Ready() {
		t.Error("ready without data")
	}
	for _, name := range []string{"pear.orchard.svc.clusterset.local.", "clusterset.local.", "nope.clusterset.local.", "4.0.22.10.in-addr.arpa."} {
		m, rcode, err := serve(t, p, question(name, dns.TypeA))
		if m == nil || m.Rcode != dns.RcodeServerFailure {
			t.Fatalf("%s: message %v, want SERVFAIL", name, m)
		}
		if rcode != dns.RcodeSuccess || err != nil {
			t.Errorf("%s: returned %d, %v: the server would reply a second time", name, rcode, err)
		}
		if len(m.Answer)+len(m.Ns)+len(m.Extra) > 0 {
			t.Errorf("%s: records in %v", name, m)
		}
	}
	if n.calls > 0 {
		t.Errorf("the next plugin was asked %d times", n.calls)
	}
	if p.source = (fixed{z: testZone("clusterset.local.")}); !p.Ready() {
		t.Error("not ready with data")
	}
}

func TestNotReadyBeforeTheServerListens(t *testing.T) {
	p := testPlugin()
	p.listening = &atomic.Bool{}
	if p.Ready() {
		t.Error("ready although nobody listens")
	}
	if p.listening.Store(true); !p.Ready() {
		t.Error("not ready although the server listens")
	}
	_, kubeconfig := newAPI(t, pearObject)
	s := startServer(t, block(ours(kubeconfig)))
	if in := instanceIn(s.instance); in == nil || !in.listening.Load() {
		t.Error("a server that was started does not count as listening")
	}
}

func TestExtendedErrorsSayHowTheDataIs(t *testing.T) {
	const pear, plum = "pear.orchard.svc.clusterset.local.", "plum.orchard.svc.clusterset.local."
	z := testZone("clusterset.local.")
	for name, c := range map[string]struct {
		source   fixed
		extended bool
		name     string
		edns     bool
		want     []uint16
	}{
		"no data":                             {fixed{}, true, pear, true, []uint16{dns.ExtendedErrorCodeNotReady}},
		"no data, and a client without EDNS":  {fixed{}, true, pear, false, nil},
		"no data, without the option":         {fixed{}, false, pear, true, nil},
		"fresh data":                          {fixed{z: z}, true, pear, true, nil},
		"old data":                            {fixed{z: z, stale: true}, true, pear, true, []uint16{dns.ExtendedErrorCodeStaleAnswer}},
		"a denial from old data":              {fixed{z: z, stale: true}, true, plum, true, []uint16{dns.ExtendedErrorCodeStaleAnswer}},
		"old data, and a client without EDNS": {fixed{z: z, stale: true}, true, pear, false, nil},
		"old data, without the option":        {fixed{z: z, stale: true}, false, pear, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlugin()
			p.source, p.extended = c.source, c.extended
			udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = p.ServeDNS(t.Context(), w, r) })
			m := question(c.name, dns.TypeA)
			if c.edns {
				m.SetEdns0(1232, true)
			}
			r := exchange(t, "udp", udp, m)
			var got []uint16
			if opt := r.IsEdns0(); opt != nil {
				for _, o := range opt.Option {
					if ede, ok := o.(*dns.EDNS0_EDE); ok {
						got = append(got, ede.InfoCode)
					}
				}
				if opt.UDPSize() != 1232 || !opt.Do() || len(r.Extra) != 1 {
					t.Errorf("OPT is not the client's: %v", r.Extra)
				}
			} else if c.edns {
				t.Error("no OPT for a client with EDNS")
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("errors %v, want %v", got, c.want)
			}
		})
	}
}

func TestTheMostSpecificZoneAnswers(t *testing.T) {
	cfg := &config{zones: []string{"local.", "clusterset.local.", "x.clusterset.local."}, ttl: 5}
	p := newPlugin(cfg, fixed{z: testZone(cfg.zones...)})
	for name, want := range map[string]string{
		"pear.orchard.svc.clusterset.local.":   "",
		"nope.clusterset.local.":               "clusterset.local.",
		"nope.x.clusterset.local.":             "x.clusterset.local.",
		"nope.local.":                          "local.",
		"_http._tcp.fig.orchard.svc.local.":    "",
		"nope.orchard.svc.x.clusterset.local.": "x.clusterset.local.",
	} {
		m, _, _ := serve(t, p, question(name, dns.TypeSRV))
		got := ""
		if len(m.Ns) > 0 {
			got = m.Ns[0].Header().Name
		}
		if got != want {
			t.Errorf("%s: SOA of %q, want %q", name, got, want)
		}
	}
	m, _, _ := serve(t, p, question("_http._tcp.pear.orchard.svc.x.clusterset.local.", dns.TypeSRV))
	if got, want := text(m.Answer), "_http._tcp.pear.orchard.svc.x.clusterset.local. SRV 0 100 80 pear.orchard.svc.x.clusterset.local."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnswersBeginAnywhere(t *testing.T) {
	p := testPlugin()
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		first := map[string]bool{}
		for range 200 {
			m, _, _ := serve(t, p, question("fig.orchard.svc.clusterset.local.", qtype))
			first[m.Answer[0].String()] = true
		}
		if len(first) != 3 {
			t.Errorf("type %d: %d of 3 records came first in 200 answers", qtype, len(first))
		}
	}
}

// TestNobodyCanChangeTheNextAnswer spoils every byte of a message that it was
// given and asks again.
func TestNobodyCanChangeTheNextAnswer(t *testing.T) {
	p := testPlugin()
	for _, q := range []*dns.Msg{
		question("pear.orchard.svc.clusterset.local.", dns.TypeA),
		question("fig.orchard.svc.clusterset.local.", dns.TypeA),
		question("fig.orchard.svc.clusterset.local.", dns.TypeAAAA),
		question("_http._tcp.fig.orchard.svc.clusterset.local.", dns.TypeSRV),
		question("plum.orchard.svc.clusterset.local.", dns.TypeA),
		question("clusterset.local.", dns.TypeNS),
		question("dns-version.clusterset.local.", dns.TypeTXT),
	} {
		before, _, _ := serve(t, p, q.Copy())
		want := text(slices.Concat(before.Answer, before.Ns, before.Extra))
		for _, rr := range slices.Concat(before.Answer, before.Ns, before.Extra) {
			*rr.Header() = dns.RR_Header{Name: "spoiled.", Ttl: 1}
			switch rr := rr.(type) {
			case *dns.A:
				copy(rr.A, []byte{6, 6, 6, 6})
			case *dns.AAAA:
				clear(rr.AAAA)
			case *dns.SRV:
				rr.Target, rr.Port = "spoiled.", 666
			case *dns.SOA:
				rr.Ns, rr.Serial = "spoiled.", 666
			case *dns.NS:
				rr.Ns = "spoiled."
			case *dns.TXT:
				rr.Txt[0] = "spoiled"
			}
		}
		before.Question[0].Name = "spoiled."
		_ = append(before.Answer[:0:cap(before.Answer)], &dns.A{})
		after, _, _ := serve(t, p, q)
		if got := text(slices.Concat(after.Answer, after.Ns, after.Extra)); got != want {
			t.Errorf("%s\n  was %s\n  is  %s", q.Question[0].Name, want, got)
		}
	}
}

// discard is the cheapest ResponseWriter.
type discard struct{ test.ResponseWriter }

func (*discard) WriteMsg(*dns.Msg) error { return nil }

var costs = map[string]*dns.Msg{
	"clustersetip A":   question("pear.orchard.svc.clusterset.local.", dns.TypeA),
	"clustersetip SRV": question("_http._tcp.pear.orchard.svc.clusterset.local.", dns.TypeSRV),
	"headless A":       question("fig.orchard.svc.clusterset.local.", dns.TypeA),
	"headless SRV":     question("_http._tcp.fig.orchard.svc.clusterset.local.", dns.TypeSRV),
	"host A":           question("fig-0.basil.fig.orchard.svc.clusterset.local.", dns.TypeA),
	"nodata":           question("pear.orchard.svc.clusterset.local.", dns.TypeAAAA),
	"nxdomain":         question("plum.orchard.svc.clusterset.local.", dns.TypeA),
	"mixed case A":     question("PeAr.oRcHaRd.SvC.cLuStErSeT.LoCaL.", dns.TypeA),
}

// maxAllocs is the goal for any answer size and number of services.
const maxAllocs = 6

func TestServeDNSAllocatesLittle(t *testing.T) {
	p, w := testPlugin(), &discard{}
	for what, r := range costs {
		n := testing.AllocsPerRun(100, func() { _, _ = p.ServeDNS(t.Context(), w, r) })
		t.Logf("%s: %v", what, n)
		if n > maxAllocs {
			t.Errorf("%s: %v allocations, want at most %d", what, n, maxAllocs)
		}
	}
}

func BenchmarkServeDNS(b *testing.B) {
	p, w := testPlugin(), &discard{}
	for what, r := range costs {
		b.Run(what, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.ServeDNS(ctx, w, r)
			}
		})
	}
}
