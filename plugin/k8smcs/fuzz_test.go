package k8smcs

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// chooser takes choices out of bytes; when they have run out it chooses the first.
type chooser struct{ bytes []byte }

func (c *chooser) below(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % n
}

func (c *chooser) pick(list ...string) string { return list[c.below(len(list))] }

// label63 is the longest label.
var label63 = strings.Repeat("l", 63)

func (c *chooser) label() string   { return c.pick("a", "b", "fig-0", "10-0-0-1", label63) }
func (c *chooser) cluster() string { return c.pick("b", "a.b", "c", strings.Repeat("c", 63)) }
func (c *chooser) portName() string {
	return c.pick("", "http", "HTTP", label63, "a.b", "_x", "\x00")
}
func (c *chooser) protocol() string { return c.pick("tcp", "udp", "sctp") }

func (c *chooser) address() netip.Addr {
	return netip.MustParseAddr(c.pick("10.0.0.1", "10.0.0.2", "192.0.2.255", "fd00::1", "2001:db8::", "::5:0:0:1"))
}

func (c *chooser) ports() (ports []zone.Port) {
	for range c.below(3) {
		ports = append(ports, zone.Port{Name: c.portName(), Protocol: c.protocol(), Number: uint16(1 + c.below(3)*32767)})
	}
	return ports
}

var fuzzZones = []string{"clusterset.local.", "a.clusterset.local.", "mcs.example."}

// zone builds a zone of a few objects.
func (c *chooser) zone() *zone.Zone {
	b := zone.NewBuilder(zone.Options{
		Origins: fuzzZones, Reverse: true, PreferLocal: c.below(2) == 1, HideEmpty: c.below(2) == 1,
		Local: mcs.ClusterID(c.pick("", "b", "a.b")), Nameservers: []netip.Addr{c.address(), c.address()},
	})
	for range 1 + c.below(5) {
		imp := zone.Import{Key: mcs.ServiceKey{Namespace: c.label(), Name: c.label()}, Headless: c.below(2) == 1, Ports: c.ports()}
		for range c.below(4) {
			imp.Addresses = append(imp.Addresses, c.address())
		}
		b.SetImport(imp)
		for range c.below(4) {
			sl := zone.Slice{Name: c.label(), Service: imp.Key, Cluster: mcs.ClusterID(c.cluster()), Ports: c.ports()}
			for range c.below(5) {
				sl.Endpoints = append(sl.Endpoints, zone.Endpoint{Address: c.address(), Host: c.pick("", "a", "fig-0", label63)})
			}
			b.SetSlice(sl)
		}
	}
	z, _ := b.Publish(testSerial)
	return z
}

// name makes a name that may exist.
func (c *chooser) name() string {
	origin := c.pick(append(fuzzZones, "ClusterSet.LOCAL.")...)
	service := c.label() + "." + c.label() + ".svc." + origin
	switch c.below(9) {
	case 0:
		return c.pick("", "svc.", "dns.", "ns.dns.", "dns-version.") + origin
	case 1:
		return c.label() + ".svc." + origin
	case 2:
		return service
	case 3:
		return "_" + c.portName() + "._" + c.protocol() + "." + service
	case 4:
		return "_" + c.protocol() + "." + service
	case 5:
		return c.cluster() + "." + service
	case 6:
		return c.label() + "." + c.cluster() + "." + service
	case 7:
		return zone.ReverseName(c.address())
	default:
		_, above, _ := strings.Cut(zone.ReverseName(c.address()), ".")
		return above
	}
}

// FuzzAnswers asks a handler with a few random objects for a name: one that the
// fuzzer wrote, or one made of the same parts as the objects.
//
// names: N27 N29 N40 N43 N44 N45
func FuzzAnswers(f *testing.F) {
	types := []uint16{
		dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeSOA, dns.TypeNS, dns.TypeTXT, dns.TypeANY, dns.TypeHTTPS,
		dns.TypeAXFR, dns.TypeIXFR, 0, 65535,
	}
	for i, name := range []string{
		"", "pear.orchard.svc.clusterset.local.", `a\.b.svc.clusterset.local.`, `\000.svc.CLUSTERSET.local.`, "_._._.a.b.svc.clusterset.local.",
		"1.0.0.10.in-addr.arpa.", "example.org.", ".",
	} {
		f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x01\x01\x01\x01\x01\x02\x01\x03\x01\x01\x00\x02\x03\x01\x02\x06\x01\x01\x00\x00"), name, types[i])
	}
	f.Fuzz(func(t *testing.T, choices []byte, name string, qtype uint16) {
		c := &chooser{choices}
		passed := false
		p := newPlugin(&config{zones: fuzzZones, reverseZones: []string{"in-addr.arpa.", "ip6.arpa."}, ttl: 5}, fixed{z: c.zone()})
		p.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
			passed = true
			return dns.RcodeRefused, nil
		})
		if name == "" {
			name = c.name()
		}
		if int(qtype) < len(types) {
			qtype = types[qtype]
		}
		r := new(dns.Msg)
		r.SetQuestion(name, qtype)
		packed, err := r.Pack()
		if err != nil || r.Unpack(packed) != nil {
			return // no message can hold it
		}
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		rcode, err := p.ServeDNS(t.Context(), w, r)
		if err != nil {
			t.Fatalf("%s %s: %v", dns.TypeToString[qtype], name, err)
		}
		z, _ := p.match(r)
		if wantPassed := z == nil || isTransfer(r); passed != wantPassed {
			t.Fatalf("%s %s: passed on is %v, want %v", dns.TypeToString[qtype], name, passed, wantPassed)
		}
		if !passed {
			soundAnswer(t, z, r, w.Msg, rcode)
			soundPacket(t, p, r, w.Msg)
		}
	})
}

// soundAnswer checks what has to hold of every answer.
func soundAnswer(t *testing.T, z *authority, r, m *dns.Msg, rcode int) {
	t.Helper()
	if m == nil || m.Rcode != rcode || (rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError) || m.Id != r.Id || !m.Response || !m.Authoritative {
		t.Fatalf("%v: rcode %d, got\n%v", r.Question, rcode, m)
	}
	if len(m.Question) != 1 || m.Question[0] != r.Question[0] {
		t.Errorf("the question %v became %v", r.Question, m.Question)
	}
	packed, err := m.Pack()
	if err != nil || new(dns.Msg).Unpack(packed) != nil {
		t.Fatalf("this cannot be packed: %v\n%v", err, m)
	}
	for _, rr := range m.Answer {
		if rr.Header().Name != r.Question[0].Name {
			t.Errorf("the owner of %v is not what was asked", rr)
		}
		switch rr := rr.(type) {
		case *dns.SRV:
			if _, ok := zone.Cut(rr.Target, "svc."+z.name); !ok {
				t.Errorf("%v points outside of %s", rr, z.name)
			}
		case *dns.PTR:
			if _, ok := zone.Cut(rr.Ptr, "svc."+fuzzZones[0]); !ok {
				t.Errorf("%v points outside of %s", rr, fuzzZones[0])
			}
		}
	}
	for _, rr := range m.Extra {
		if _, ok := zone.Cut(rr.Header().Name, "svc."+z.name); !ok {
			t.Errorf("%v is outside of %s", rr, z.name)
		}
	}
	soa := false
	if len(m.Ns) == 1 {
		record, ok := m.Ns[0].(*dns.SOA)
		soa = ok && record.Hdr.Name == z.name && record.Minttl == record.Hdr.Ttl
	}
	if negative := len(m.Answer) == 0; soa != negative || len(m.Ns) > 1 || (rcode == dns.RcodeNameError && !negative) {
		t.Errorf("want an answer or the SOA of %s, got\n%v", z.name, m)
	}
	records := slices.Concat(m.Answer, m.Ns, m.Extra)
	if r.Question[0].Qtype == dns.TypeANY && len(records) > 1 {
		t.Errorf("this is not small:\n%v", m)
	}
	for i, rr := range records {
		if slices.ContainsFunc(records[:i], func(other dns.RR) bool { return dns.IsDuplicate(rr, other) }) {
			t.Errorf("%v is there twice", rr)
		}
		if rr.Header().Ttl != 5 && rr.Header().Rrtype != dns.TypeTXT {
			t.Errorf("%v does not have the plugin's TTL", rr)
		}
	}
}

// soundPacket compares the bytes that a plain socket gets with the message.
func soundPacket(t *testing.T, p *Plugin, r, m *dns.Msg) {
	t.Helper()
	z, rel := p.match(r)
	var a zone.Answer
	lookup(&a, p.source.Zone(), z, rel, &r.Question[0])
	var pk packet
	for _, limit := range []int{dns.MinMsgSize, 700, 1232, dns.MaxMsgSize} {
		for _, opt := range []*dns.OPT{nil, {Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: 1232}}} {
			size, rcode, err := p.packet(&pk, r, opt, z, &a, p.source.Zone().Serial(), limit)
			if err != nil {
				t.Fatal(err)
			}
			if size == 0 {
				continue // to be made as a message
			}
			if size != m.Len() || rcode != m.Rcode {
				t.Errorf("size %d and code %d, want %d and %d of\n%v", size, rcode, m.Len(), m.Rcode, m)
			}
			got := new(dns.Msg)
			if err := got.Unpack(pk.bytes); err != nil || len(pk.bytes) > limit {
				t.Fatalf("%d octets, at most %d were asked for: %v", len(pk.bytes), limit, err)
			}
			if (got.IsEdns0() != nil) != (opt != nil) {
				t.Errorf("OPT is %v, asked with %v", got.IsEdns0(), opt)
			}
			got.Extra = slices.DeleteFunc(got.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
			cut := len(got.Answer) < len(m.Answer) || len(got.Extra) < len(m.Extra)
			if got.Truncated != cut || got.Rcode != m.Rcode || text(got.Ns) != text(m.Ns) || !cut && (text(got.Answer) != text(m.Answer) || text(got.Extra) != text(m.Extra)) {
				t.Errorf("limit %d: the bytes are\n%v\nand the message\n%v", limit, got, m)
			}
			for _, rr := range slices.Concat(got.Answer, got.Extra) {
				if !slices.ContainsFunc(slices.Concat(m.Answer, m.Extra), func(other dns.RR) bool { return dns.IsDuplicate(rr, other) }) {
					t.Errorf("limit %d: %v is in the bytes only", limit, rr)
				}
			}
		}
	}
}

var position = regexp.MustCompile(`^Testfile:[1-9]\d* - Error during parsing: .`)

// FuzzCorefile reads blocks of every kind: none panics, and what is refused is
// refused with its place.
func FuzzCorefile(f *testing.F) {
	inCluster = func() (*rest.Config, error) { return &rest.Config{Host: "https://10.96.0.1"}, nil }
	f.Cleanup(func() { inCluster = rest.InClusterConfig })
	f.Add("clusterset.local in-addr.arpa ip6.arpa { fallthrough clusterset.local\n disablelegacysync }")
	f.Add("clusterset.local 10.0.0.0/8 fd00::/8 {\n ttl 30\n nameserver 10.96.0.53 fd00::53\n namespaces a b\n}")
	f.Add("{\n local_cluster a.b\n prefer local\n ignore empty_service\n endpoint_pod_names\n extended_errors\n startup_timeout 3s\n}")
	f.Add("{\n prefer local\n}")
	f.Add("a..b")
	f.Add("{\n ttl {\n}\n}")
	f.Add("{\n ttl \"5\n\"")
	f.Add("{ }\nk8s_mcs")
	f.Add("{$HOME} {\n}")
	f.Fuzz(func(t *testing.T, block string) {
		for _, file := range []string{"kubeconfig", "snapshot"} {
			if strings.Contains(block, file) {
				return // files of this machine are no matter of the fuzzer
			}
		}
		cfg, err := parse(caddy.NewTestController("dns", "k8s_mcs "+block))
		if err != nil {
			if !position.MatchString(err.Error()) {
				t.Errorf("%q: the error has no place: %v", block, err)
			}
			return
		}
		if len(cfg.zones) == 0 || cfg.ttl > maxTTL || cfg.startupTimeout < 0 || cfg.startupTimeout > maxStartup || cfg.kube == nil {
			t.Errorf("%q was taken as %+v", block, cfg)
		}
		for _, name := range slices.Concat(cfg.zones, cfg.reverseZones, cfg.fall) {
			if !dns.IsFqdn(name) || name != strings.ToLower(name) {
				t.Errorf("%q: zone %q", block, name)
			}
		}
		newPlugin(cfg, fixed{})
		_ = cfg.uselessFallthrough()
	})
}
