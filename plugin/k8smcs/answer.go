package k8smcs

import (
	"math/rand/v2"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// This file builds the messages. Every message has records of its own, in a
// few allocations for any number of them: the writers of other plugins (cache,
// rewrite, loadbalance, dnssec) may change the message and its records, and
// what the zone holds is shared by all queries.

const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400

	srvPriority = 0
	srvWeight   = 100
)

// reply is a message together with the question it repeats.
type reply struct {
	msg      dns.Msg
	question [1]dns.Question
}

func newReply(r *dns.Msg, rcode int) *dns.Msg {
	m := &reply{}
	m.question[0] = r.Question[0]
	m.msg.MsgHdr = dns.MsgHdr{
		Id:               r.Id,
		Response:         true,
		Opcode:           r.Opcode,
		Authoritative:    true,
		RecursionDesired: r.RecursionDesired,
		CheckingDisabled: r.CheckingDisabled,
		Rcode:            rcode,
	}
	m.msg.Question = m.question[:]
	return &m.msg
}

// negative is NXDOMAIN, or NODATA with RcodeSuccess. It may be cached for the
// TTL of the plugin (RFC 2308 5).
func (p *Plugin) negative(r *dns.Msg, z *authority, serial uint32, rcode int) *dns.Msg {
	m := newReply(r, rcode)
	m.Ns = []dns.RR{p.soa(z, z.name, serial)}
	return m
}

func (p *Plugin) soa(z *authority, owner string, serial uint32) *dns.SOA {
	return &dns.SOA{
		Hdr:     header(owner, dns.TypeSOA, p.ttl),
		Ns:      z.ns,
		Mbox:    z.mailbox,
		Serial:  serial,
		Refresh: soaRefresh,
		Retry:   soaRetry,
		Expire:  soaExpire,
		Minttl:  p.ttl,
	}
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// positive answers for a name that exists. The owner of the records is the
// question's name, byte for byte: resolvers check the case they chose (0x20).
func (p *Plugin) positive(r *dns.Msg, z *authority, serial uint32, a *zone.Answer) *dns.Msg {
	owner := r.Question[0].Name
	if r.Question[0].Qtype == dns.TypeANY {
		return p.anyAnswer(r)
	}
	switch a.Result {
	case zone.Records:
		m := newReply(r, dns.RcodeSuccess)
		switch {
		case a.SRV != nil:
			p.addSRV(m, owner, a)
		case a.V4 != nil:
			m.Answer = appendA(make([]dns.RR, 0, len(a.V4)), make([]recordA, len(a.V4)), owner, p.ttl, a.V4)
		default:
			m.Answer = appendAAAA(make([]dns.RR, 0, len(a.V6)), make([]recordAAAA, len(a.V6)), owner, p.ttl, a.V6)
		}
		return m
	case zone.ApexSOA:
		m := newReply(r, dns.RcodeSuccess)
		m.Answer = []dns.RR{p.soa(z, owner, serial)}
		return m
	case zone.ApexNS:
		m := newReply(r, dns.RcodeSuccess)
		m.Answer = []dns.RR{&dns.NS{Hdr: header(owner, dns.TypeNS, p.ttl), Ns: z.ns}}
		return m
	case zone.VersionTXT:
		m := newReply(r, dns.RcodeSuccess)
		m.Answer = []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, zone.VersionTTL), Txt: []string{zone.Version}}}
		return m
	case zone.NoData, zone.NameError:
	}
	return p.negative(r, z, serial, dns.RcodeSuccess)
}

// anyAnswer is the small answer of RFC 8482, section 4.2.
func (p *Plugin) anyAnswer(r *dns.Msg) *dns.Msg {
	m := newReply(r, dns.RcodeSuccess)
	m.Answer = []dns.RR{&dns.HINFO{Hdr: header(r.Question[0].Name, dns.TypeHINFO, p.ttl), Cpu: "RFC8482"}}
	return m
}

// recordA is an A record with its address.
type recordA struct {
	rr dns.A
	ip [4]byte
}

// recordAAAA is an AAAA record with its address.
type recordAAAA struct {
	rr dns.AAAA
	ip [16]byte
}

// appendA appends an A record per address, from a random one on, so that
// clients which take the first spread over all. The records are made in slab.
func appendA(to []dns.RR, slab []recordA, owner string, ttl uint32, addrs [][4]byte) []dns.RR {
	at := start(len(addrs))
	for i := range addrs {
		rec := &slab[i]
		rec.ip = addrs[at]
		rec.rr = dns.A{Hdr: header(owner, dns.TypeA, ttl), A: rec.ip[:]}
		to = append(to, &rec.rr)
		if at++; at == len(addrs) {
			at = 0
		}
	}
	return to
}

// appendAAAA is appendA for IPv6.
func appendAAAA(to []dns.RR, slab []recordAAAA, owner string, ttl uint32, addrs [][16]byte) []dns.RR {
	at := start(len(addrs))
	for i := range addrs {
		rec := &slab[i]
		rec.ip = addrs[at]
		rec.rr = dns.AAAA{Hdr: header(owner, dns.TypeAAAA, ttl), AAAA: rec.ip[:]}
		to = append(to, &rec.rr)
		if at++; at == len(addrs) {
			at = 0
		}
	}
	return to
}

// addSRV adds the SRV records, and the addresses of their targets where they
// belong to the answer.
func (p *Plugin) addSRV(m *dns.Msg, owner string, a *zone.Answer) {
	m.Answer = make([]dns.RR, 0, len(a.SRV))
	slab := make([]dns.SRV, len(a.SRV))
	at := start(len(a.SRV))
	for i := range a.SRV {
		srv := a.SRV[at]
		slab[i] = dns.SRV{
			Hdr: header(owner, dns.TypeSRV, p.ttl), Priority: srvPriority, Weight: srvWeight,
			Port: srv.Port, Target: a.Target(srv),
		}
		m.Answer = append(m.Answer, &slab[i])
		if at++; at == len(a.SRV) {
			at = 0
		}
	}
	if a.Additional {
		p.addAdditional(m, a)
	}
}

func (p *Plugin) addAdditional(m *dns.Msg, a *zone.Answer) {
	n4, n6 := 0, 0
	for i := range a.SRV {
		if v4, v6, again := a.TargetAddresses(i); !again {
			n4 += len(v4)
			n6 += len(v6)
		}
	}
	// One more place for the OPT record that the server adds.
	m.Extra = make([]dns.RR, 0, n4+n6+1)
	slab4, slab6 := make([]recordA, n4), make([]recordAAAA, n6)
	for i, srv := range a.SRV {
		v4, v6, again := a.TargetAddresses(i)
		if again {
			continue
		}
		m.Extra = appendA(m.Extra, slab4, a.Target(srv), p.ttl, v4)
		m.Extra = appendAAAA(m.Extra, slab6, a.Target(srv), p.ttl, v6)
		slab4, slab6 = slab4[len(v4):], slab6[len(v6):]
	}
}

// start is where to begin in a list of n: anywhere. The generator is the
// runtime's, one per thread, without a lock.
func start(n int) int {
	if n < 2 {
		return 0
	}
	return rand.IntN(n) //nolint:gosec // spreads load, guards nothing
}
