package k8smcs

import (
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// This file says what an answer holds. Every message has records of its own, in
// a few allocations for any number of them: the writers of other plugins (cache,
// rewrite, loadbalance, dnssec) may change the message and its records, and what
// the zone holds is shared by all queries.

const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400

	srvPriority = 0
	srvWeight   = 100
)

// negative is NXDOMAIN, or NODATA with RcodeSuccess. It may be cached for the
// TTL of the plugin (RFC 2308 5).
func (p *Plugin) negative(r *dns.Msg, z *authority, serial uint32, rcode int) *reply {
	m := newReply(r, rcode, false)
	m.msg.Ns = []dns.RR{p.soa(z, z.name, serial)}
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

// positive answers for a name that exists. The owner of the records is the
// question's name, byte for byte: resolvers check the case they chose (0x20).
func (p *Plugin) positive(r *dns.Msg, z *authority, serial uint32, a *zone.Answer, reuse bool) *reply {
	owner := r.Question[0].Name
	if r.Question[0].Qtype == dns.TypeANY {
		return p.anyAnswer(r)
	}
	switch a.Result {
	case zone.NoData, zone.NameError:
		return p.negative(r, z, serial, dns.RcodeSuccess)
	case zone.Records, zone.ApexSOA, zone.ApexNS, zone.VersionTXT:
	}
	m := newReply(r, dns.RcodeSuccess, reuse)
	switch {
	case a.V4 != nil:
		m.addA(owner, p.ttl, a.V4)
	case a.V6 != nil:
		m.addAAAA(owner, p.ttl, a.V6)
	case a.SRV != nil:
		m.msg.Answer = shuffled(p.srv(owner, a))
		if a.Additional {
			p.addAdditional(&m.msg, a)
		}
	default:
		m.msg.Answer = p.records(z, owner, serial, a)
	}
	return m
}

// records are those of an answer, in the order of the zone.
func (p *Plugin) records(z *authority, owner string, serial uint32, a *zone.Answer) []dns.RR {
	switch a.Result {
	case zone.ApexSOA:
		return []dns.RR{p.soa(z, owner, serial)}
	case zone.ApexNS:
		return []dns.RR{&dns.NS{Hdr: header(owner, dns.TypeNS, p.ttl), Ns: z.ns}}
	case zone.VersionTXT:
		return []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, zone.VersionTTL), Txt: []string{zone.Version}}}
	case zone.Records:
	case zone.NoData, zone.NameError:
		return nil
	}
	var rrs []dns.RR
	switch {
	case a.V4 != nil:
		return appendA(rrs, make([]recordA, len(a.V4)), owner, p.ttl, a.V4)
	case a.V6 != nil:
		return appendAAAA(rrs, make([]recordAAAA, len(a.V6)), owner, p.ttl, a.V6)
	case a.SRV != nil:
		return p.srv(owner, a)
	}
	for target := range a.PTR() {
		rrs = append(rrs, &dns.PTR{Hdr: header(owner, dns.TypePTR, p.ttl), Ptr: target})
	}
	return rrs
}

// anyAnswer is the small answer of RFC 8482, section 4.2.
func (p *Plugin) anyAnswer(r *dns.Msg) *reply {
	m := newReply(r, dns.RcodeSuccess, false)
	m.msg.Answer = []dns.RR{&dns.HINFO{Hdr: header(r.Question[0].Name, dns.TypeHINFO, p.ttl), Cpu: "RFC8482"}}
	return m
}

// srv are the SRV records of an answer.
func (p *Plugin) srv(owner string, a *zone.Answer) []dns.RR {
	rrs, slab := make([]dns.RR, len(a.SRV)), make([]dns.SRV, len(a.SRV))
	for i, srv := range a.SRV {
		slab[i] = dns.SRV{
			Hdr: header(owner, dns.TypeSRV, p.ttl), Priority: srvPriority, Weight: srvWeight,
			Port: srv.Port, Target: a.Target(srv),
		}
		rrs[i] = &slab[i]
	}
	return rrs
}

// addAdditional adds the addresses of all targets.
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
