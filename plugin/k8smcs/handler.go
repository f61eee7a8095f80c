package k8smcs

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Plugin answers the names of its zones. It does not change while it serves.
type Plugin struct {
	Next plugin.Handler

	zones  []authority
	fall   []string // zones whose missing names go to Next
	ttl    uint32
	source zoneSource
	// extended adds Extended DNS Errors (RFC 8914) to answers without fresh data.
	extended bool
	// listening is false until the server listens; nil means that it does.
	listening *atomic.Bool
}

// zoneSource gives the newest state, nil while there is none, and tells whether
// it may be out of date.
type zoneSource interface {
	Zone() *zone.Zone
	Stale() bool
}

// authority is a zone of the plugin, and what its SOA and NS records say.
type authority struct {
	name    string // absolute, lower case
	origin  int    // index into the origins of package zone; noOrigin for a reverse zone
	ns      string
	mailbox string
	loop    *loopGuard
	// soa is the SOA record as bytes, with the serial 0; nil when it has none.
	soa []byte
}

const noOrigin = -1

func newPlugin(cfg *config, src zoneSource) *Plugin {
	p := &Plugin{fall: cfg.fall, ttl: cfg.ttl, source: src, extended: cfg.extendedErrors}
	for i, name := range cfg.zones {
		p.zones = append(p.zones, newAuthority(name, name, i))
	}
	for _, name := range cfg.reverseZones {
		p.zones = append(p.zones, newAuthority(name, cfg.zones[0], noOrigin))
	}
	for i := range p.zones {
		p.zones[i].loop = newLoopGuard(p.zones[i].name)
		p.zones[i].soa = packed(p.soa(&p.zones[i], p.zones[i].name, 0))
	}
	return p
}

// newAuthority makes a zone whose name server is named under the origin home.
func newAuthority(name, home string, origin int) authority {
	if home == "." {
		home = ""
	}
	return authority{name: name, origin: origin, ns: "ns.dns." + home, mailbox: "hostmaster." + home}
}

// Name implements plugin.Handler.
func (p *Plugin) Name() string { return pluginName }

// Ready implements the interface of the ready plugin: every watch has delivered
// its first list, or a snapshot is served, and the server listens.
func (p *Plugin) Ready() bool {
	// In this order: before listening is set, source may still be replaced.
	return (p.listening == nil || p.listening.Load()) && p.source.Zone() != nil
}

// ServeDNS implements plugin.Handler. It takes no lock and, until the message is
// built, allocates nothing. It is kept flat, because CoreDNS runs each query on
// a new and small stack.
func (p *Plugin) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	z, rel := p.match(r)
	if z == nil || isTransfer(r) {
		return plugin.NextOrFailure(pluginName, p.Next, ctx, w, r)
	}
	data := p.source.Zone()
	if data == nil {
		// Also when the name would fall through: a denial, ours or that of the
		// next plugin, would be cached by clients and outlive the start.
		return p.write(w, r, newReply(r, dns.RcodeServerFailure, false), dns.ExtendedErrorCodeNotReady)
	}
	q := &r.Question[0]
	var a zone.Answer
	lookup(&a, data, z, rel, q)
	if a.Result == zone.NameError {
		if p.Next != nil && p.fallsThrough(q.Name) && !z.loop.arrived(q.Name) && z.loop.open(ctx, p.Next) {
			return plugin.NextOrFailure(pluginName, p.Next, ctx, w, r)
		}
	}
	age := p.age()
	to := sinkOf(w)
	if to.socket != nil && age == fresh {
		if sent, rcode, err := p.sendBytes(&to, r, z, &a, data.Serial()); sent || err != nil {
			return written(rcode, err)
		}
	}
	if a.Result == zone.NameError {
		return p.write(w, r, p.negative(r, z, data.Serial(), dns.RcodeNameError), age)
	}
	m := p.positive(r, z, data.Serial(), &a, to.reuse)
	rcode, err := p.write(w, r, m, age)
	m.release()
	return rcode, err
}

// lookup answers a question for a name in a zone.
func lookup(a *zone.Answer, data *zone.Zone, z *authority, rel string, q *dns.Question) {
	if z.origin != noOrigin || rel == "" {
		parsed := zone.Parse(rel)
		data.LookupInto(a, &parsed, zone.Type(q.Qtype), max(z.origin, 0))
	} else {
		lookupReverse(a, data, q)
	}
}

// lookupReverse is not part of lookup, whose stack it would make larger.
//
//go:noinline
func lookupReverse(a *zone.Answer, data *zone.Zone, q *dns.Question) {
	if prefix, ok := zone.ParseReverse(q.Name); ok {
		*a = data.Reverse(prefix, zone.Type(q.Qtype))
	}
}

// match finds the zone that holds the name asked for; nil when there is none or
// the message is not an ordinary query.
func (p *Plugin) match(r *dns.Msg) (z *authority, rel string) {
	if r.Opcode != dns.OpcodeQuery || len(r.Question) == 0 || r.Question[0].Qclass != dns.ClassINET {
		return nil, ""
	}
	return p.nearest(r.Question[0].Name)
}

// nearest is the most specific zone that holds a name, and what stands before
// it; nil when there is none.
func (p *Plugin) nearest(name string) (z *authority, rel string) {
	for i := range p.zones {
		if z != nil && len(p.zones[i].name) <= len(z.name) {
			continue
		}
		if s, ok := zone.Cut(name, p.zones[i].name); ok {
			z, rel = &p.zones[i], s
		}
	}
	return z, rel
}

// isTransfer reports a question that the transfer plugin answers.
func isTransfer(r *dns.Msg) bool {
	return r.Question[0].Qtype == dns.TypeAXFR || r.Question[0].Qtype == dns.TypeIXFR
}

func (p *Plugin) fallsThrough(name string) bool {
	for _, z := range p.fall {
		if _, ok := zone.Cut(name, z); ok {
			return true
		}
	}
	return false
}

// fresh is in place of an Extended DNS Error when there is none.
const fresh = math.MaxUint16

// age is the Extended DNS Error for an answer from the newest state.
func (p *Plugin) age() uint16 {
	if p.extended && p.source.Stale() {
		return dns.ExtendedErrorCodeStaleAnswer
	}
	return fresh
}

// write sends a reply, with an Extended DNS Error if the plugin gives them and
// the client understands them (RFC 8914 3).
func (p *Plugin) write(w dns.ResponseWriter, r *dns.Msg, m *reply, extended uint16) (int, error) {
	if extended != fresh && p.extended && r.IsEdns0() != nil {
		// The server fills in the rest of the record.
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: extended}}
		m.msg.Extra = append(m.msg.Extra, opt)
	}
	return written(m.msg.Rcode, w.WriteMsg(&m.msg))
}

// written is what the server is told after a reply: that there is one, whatever
// its code, so that it does not send a second.
func written(rcode int, err error) (int, error) {
	switch {
	case err != nil:
		return dns.RcodeServerFailure, plugin.Error(pluginName, err)
	case rcode == dns.RcodeServerFailure:
		return dns.RcodeSuccess, nil
	}
	return rcode, nil
}
