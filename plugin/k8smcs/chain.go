package k8smcs

import (
	"context"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// chain compiles the plugins that stand behind p, with a handler of our own at
// the end.
//
// A name that fell through and that no plugin behind answers is to be
// NXDOMAIN, with our SOA. CoreDNS reports the end of a chain as an error, "no
// next plugin found", and that cannot be told from outside: cache stores a
// SERVFAIL for it, and answers the next query with that. So the end is ours.
// The plugins are compiled a second time on top of it; CoreDNS does the same
// for each address and key of a server block, and so they all allow it.
func (p *Plugin) chain(behind []plugin.Plugin) plugin.Handler {
	var next plugin.Handler = end{p}
	for _, compile := range slices.Backward(behind) {
		next = compile(next)
	}
	return next
}

// end is the last handler of the chain.
type end struct{ p *Plugin }

// Name is that of the plugin, so that the server's registry holds one entry.
func (e end) Name() string { return pluginName }

func (e end) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	z, _ := e.p.match(r)
	if z == nil {
		return plugin.NextOrFailure(pluginName, nil, ctx, w, r)
	}
	if isTransfer(r) {
		return dns.RcodeRefused, nil // the server writes it
	}
	data := e.p.source.Zone()
	if data == nil {
		return e.p.write(w, r, newReply(r, dns.RcodeServerFailure, false), dns.ExtendedErrorCodeNotReady)
	}
	return e.p.write(w, r, e.p.negative(r, z, data.Serial(), dns.RcodeNameError), e.p.age())
}
