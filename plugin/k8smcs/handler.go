package k8smcs

import (
	"context"

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
}

// zoneSource gives the newest state, nil while there is none.
type zoneSource interface {
	Zone() *zone.Zone
}

// authority is a zone of the plugin, and what its SOA and NS records say.
type authority struct {
	name    string // absolute, lower case
	origin  int    // index into the origins of package zone; noOrigin for a reverse zone
	ns      string
	mailbox string
	loop    *loopGuard
}

const noOrigin = -1

func newPlugin(cfg *config, src zoneSource) *Plugin {
	p := &Plugin{fall: cfg.fall, ttl: cfg.ttl, source: src}
	for i, name := range cfg.zones {
		p.zones = append(p.zones, newAuthority(name, name, i))
	}
	for _, name := range cfg.reverseZones {
		p.zones = append(p.zones, newAuthority(name, cfg.zones[0], noOrigin))
	}
	for i := range p.zones {
		p.zones[i].loop = newLoopGuard(p.zones[i].name)
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
// its first list.
func (p *Plugin) Ready() bool { return p.source.Zone() != nil }

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
		return write(w, newReply(r, dns.RcodeServerFailure))
	}
	var query zone.Query
	if z.origin != noOrigin || rel == "" {
		query = zone.Parse(rel)
	}
	q := r.Question[0]
	a := data.Lookup(query, zone.Type(q.Qtype), max(z.origin, 0))
	if a.Result == zone.NameError {
		if p.Next != nil && p.fallsThrough(q.Name) && !z.loop.arrived(q.Name) && z.loop.open(ctx, p.Next) {
			return plugin.NextOrFailure(pluginName, p.Next, ctx, w, r)
		}
		return write(w, p.negative(r, z, data.Serial(), dns.RcodeNameError))
	}
	return write(w, p.positive(r, z, data.Serial(), &a))
}

// match finds the most specific zone that holds the name asked for; nil when
// there is none or the message is not an ordinary query.
func (p *Plugin) match(r *dns.Msg) (z *authority, rel string) {
	if r.Opcode != dns.OpcodeQuery || len(r.Question) == 0 || r.Question[0].Qclass != dns.ClassINET {
		return nil, ""
	}
	for i := range p.zones {
		if z != nil && len(p.zones[i].name) <= len(z.name) {
			continue
		}
		if s, ok := zone.Cut(r.Question[0].Name, p.zones[i].name); ok {
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

// write sends a reply. The server is told that there is one, whatever its
// code, so that it does not send a second.
func write(w dns.ResponseWriter, m *dns.Msg) (int, error) {
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(pluginName, err)
	}
	if m.Rcode == dns.RcodeServerFailure {
		return dns.RcodeSuccess, nil
	}
	return m.Rcode, nil
}
