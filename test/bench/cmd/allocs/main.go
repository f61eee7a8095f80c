// Command allocs is mcs-core-dns with one more plugin: bench_allocs, which
// counts what the plugin behind it allocates for a query, with the writer of
// the real socket, and prints that on standard output.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/pprof"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/k8smcs"
)

const name = "bench_allocs"

func init() {
	plugin.Register(name, func(c *caddy.Controller) error {
		c.Next() // the directive, which has no arguments
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler { return counter{next} })
		return nil
	})
}

func main() {
	directives, err := k8smcs.Directives(dnsserver.Directives)
	if err == nil {
		at := slices.Index(directives, "k8s_mcs") // before kubernetes, too
		err = dnsserver.SetDirectives(slices.Insert(directives, at, name))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "allocs:", err)
		os.Exit(1)
	}
	coremain.Run()
}

type counter struct{ next plugin.Handler }

// runs is how often a query is answered to count. Every answer goes out.
const runs = 100

func (counter) Name() string { return name }

// ServeDNS counts for a query with the flag CD, which means nothing to the
// plugins here. What sending bytes on the socket allocates is not counted: it
// is the same for every plugin.
func (c counter) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if r.CheckingDisabled {
		all := testing.AllocsPerRun(runs, func() {
			_, _ = c.next.ServeDNS(ctx, w, r) // the last one, below, tells
		})
		bytes, err := r.Pack()
		if err != nil {
			return dns.RcodeServerFailure, plugin.Error(name, err)
		}
		sending := testing.AllocsPerRun(runs, func() { _, _ = w.Write(bytes) })
		fmt.Printf("allocs %s %s %.0f\n", r.Question[0].Name, dns.TypeToString[r.Question[0].Qtype], all-sending)
	}
	return c.next.ServeDNS(ctx, w, r)
}
