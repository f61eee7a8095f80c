package k8smcs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/loadbalance"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// manyEndpoints is a plugin with a headless service in each size that matters.
func manyEndpoints() *Plugin {
	cfg := &config{zones: []string{"clusterset.local."}, ttl: 5}
	b := zone.NewBuilder(zone.Options{Origins: cfg.zones})
	for _, n := range []int{1, 2, 3, 28, 250, 5000} {
		key := mcs.ServiceKey{Namespace: "orchard", Name: fmt.Sprint("n", n)}
		b.SetImport(zone.Import{Key: key, Headless: true})
		for _, first := range []string{"10.64.0.1", "2001:db8::1"} {
			addr := netip.MustParseAddr(first)
			sl := zone.Slice{
				Name: key.Name + first, Service: key, Cluster: "basil",
				Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}, {Name: "http", Protocol: "tcp", Number: 81}},
			}
			for range n {
				sl.Endpoints = append(sl.Endpoints, zone.Endpoint{Address: addr})
				addr = addr.Next()
			}
			b.SetSlice(sl)
		}
	}
	z, _ := b.Publish(1)
	return newPlugin(cfg, fixed{z: z})
}

// wrapped is a writer that nobody knows, so that answers go through it as
// messages.
type wrapped struct{ dns.ResponseWriter }

// serving answers on UDP and TCP sockets of this process, as a server of CoreDNS
// does, and returns the addresses. Each query is handed to handle.
func serving(t *testing.T, handle func(w dns.ResponseWriter, r *dns.Msg)) (udp, tcp string) {
	t.Helper()
	packets, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { handle(request.NewScrubWriter(r, w), r) })
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return packets.LocalAddr().String(), streams.Addr().String()
}

// optText is the OPT record of a message, empty without one.
func optText(m *dns.Msg) string {
	if opt := m.IsEdns0(); opt != nil {
		return opt.String()
	}
	return ""
}

func TestBytesAndMessagesSayTheSame(t *testing.T) {
	p := manyEndpoints()
	var asBytes, asMessage [2]string // over UDP and TCP
	asBytes[0], asBytes[1] = serving(t, func(w dns.ResponseWriter, r *dns.Msg) {
		if sinkOf(w).socket == nil {
			t.Error("an answer to a plain socket is not sent as bytes")
		}
		_, _ = p.ServeDNS(t.Context(), w, r)
	})
	asMessage[0], asMessage[1] = serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = p.ServeDNS(t.Context(), wrapped{w}, r) })
	ask := func(network, addr string, m *dns.Msg) *dns.Msg {
		c := &dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: dns.MaxMsgSize}
		r, _, err := c.ExchangeContext(t.Context(), m.Copy(), addr)
		if err != nil {
			t.Fatalf("ask %s over %s: %v", m.Question[0].Name, network, err)
		}
		return r
	}
	for _, service := range []string{"n1", "N2", "n3", "n28", "n250", "n5000", "absent", `odd\.\200name`} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeANY} {
			for _, size := range []uint16{0, 1, 512, 1232, 4096, 32000} {
				if size > 512 && strings.HasSuffix(service, "n5000") {
					continue // takes long and says nothing new
				}
				if qtype == dns.TypeSRV {
					service = "_http._tcp." + strings.TrimPrefix(service, "_http._tcp.")
				}
				m := question(service+".orchard.svc.ClusterSet.local.", qtype)
				m.RecursionDesired, m.CheckingDisabled = size != 512, size == 1232
				if size > 0 {
					m.SetEdns0(size, size == 1232)
				}
				for i, network := range []string{"udp", "tcp"} {
					want, got := ask(network, asMessage[i], m), ask(network, asBytes[i], m)
					what := fmt.Sprintf("%s %s over %s, EDNS size %d", dns.TypeToString[qtype], service, network, size)
					got.Id = want.Id
					if got.MsgHdr != want.MsgHdr || got.Question[0] != want.Question[0] || optText(got) != optText(want) {
						t.Errorf("%s:\n%v\nas a message:\n%v", what, got, want)
					}
					// Names differ in length, so that a cut answer holds some more or fewer.
					if few := len(want.Answer)/10 + 1; want.Truncated && qtype == dns.TypeSRV {
						if d := len(got.Answer) - len(want.Answer); d < -few || d > few {
							t.Errorf("%s: %d records, want about %d", what, len(got.Answer), len(want.Answer))
						}
					} else if len(got.Answer) != len(want.Answer) || len(got.Extra) != len(want.Extra) {
						t.Errorf("%s: %d and %d records, want %d and %d", what, len(got.Answer), len(got.Extra), len(want.Answer), len(want.Extra))
					}
					if text(got.Ns) != text(want.Ns) || !want.Truncated && (text(got.Answer) != text(want.Answer) || text(got.Extra) != text(want.Extra)) {
						t.Errorf("%s: other records", what)
					}
					seen := map[string]bool{}
					for _, rr := range got.Answer {
						if seen[rr.String()] {
							t.Errorf("%s: twice: %v", what, rr)
						}
						seen[rr.String()] = true
					}
				}
			}
		}
	}
}

// names: N42
func TestRecordsComeInAnyOrder(t *testing.T) {
	p := manyEndpoints()
	udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = p.ServeDNS(t.Context(), w, r) })
	asMessage, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = p.ServeDNS(t.Context(), wrapped{w}, r) })
	for _, addr := range []string{udp, asMessage} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
			// Six orders of three records: that one of them does not come in 200
			// answers happens once in 10^15 runs.
			orders := map[string]bool{}
			for range 200 {
				r := exchange(t, "udp", addr, question("n3.orchard.svc.clusterset.local.", qtype))
				var order []string
				for _, rr := range r.Answer[:3] {
					order = append(order, rr.String())
				}
				orders[strings.Join(order, "\n")] = true
			}
			if len(orders) < 6 {
				t.Errorf("%s: %d orders in 200 answers, want at least 6", dns.TypeToString[qtype], len(orders))
			}
		}
	}
}

func TestAClientThatTakesTheLongestDatagramGetsOne(t *testing.T) {
	p := manyEndpoints()
	udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = p.ServeDNS(t.Context(), w, r) })
	m := question("n5000.orchard.svc.clusterset.local.", dns.TypeA)
	m.SetEdns0(dns.MaxMsgSize, false)
	if r := exchange(t, "udp", udp, m); !r.Truncated || len(r.Answer) < 4000 {
		t.Errorf("%d records, truncated %t", len(r.Answer), r.Truncated)
	}
}

// after is a handler of a name that calls the next one as CoreDNS's plugins do.
func after(name string, next plugin.Handler) plugin.Handler {
	return plugin.HandlerFunc(func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return plugin.NextOrFailure(name, next, ctx, w, r)
	})
}

func TestTheRecorderOfPrometheusHearsTheSame(t *testing.T) {
	p := manyEndpoints()
	recorded := make(chan metrics.Recorder, 1)
	udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) {
		rec := metrics.NewRecorder(w)
		_, _ = after("prometheus", p).ServeDNS(t.Context(), rec, r)
		recorded <- *rec
	})
	for _, service := range []string{"n1", "n28", "n250", "_http._tcp.n1", "_http._tcp.n28", "absent", `odd\.\200name`} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT} {
			m := question(service+".orchard.svc.clusterset.local.", qtype)
			exchange(t, "udp", udp, m)
			got := <-recorded
			m.SetEdns0(4096, false)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EXPIRE{Code: dns.EDNS0EXPIRE, Expire: 7}} // makes it a message
			exchange(t, "udp", udp, m)
			want := <-recorded
			if got.Msg != nil || want.Msg == nil {
				t.Fatalf("%s: want bytes first and a message then", service)
			}
			if got.Len != want.Len || got.Rcode != want.Rcode || got.Plugin != want.Plugin || got.Plugin == "" {
				t.Errorf("%s %d: length %d, code %d, plugin %q; want %d, %d, %q", service, qtype, got.Len, got.Rcode, got.Plugin, want.Len, want.Rcode, want.Plugin)
			}
		}
	}
}

func TestSinkLooksThroughWhatItKnows(t *testing.T) {
	for name, c := range map[string]struct {
		wrap                    func(w dns.ResponseWriter) dns.ResponseWriter
		socket, recorder, reuse bool
	}{
		"a socket of the server": {func(w dns.ResponseWriter) dns.ResponseWriter { return w }, true, false, true},
		"prometheus":             {func(w dns.ResponseWriter) dns.ResponseWriter { return metrics.NewRecorder(w) }, true, true, true},
		"prometheus twice": {func(w dns.ResponseWriter) dns.ResponseWriter {
			return metrics.NewRecorder(metrics.NewRecorder(w))
		}, false, false, false},
		"a load balancer in an unknown order": {func(w dns.ResponseWriter) dns.ResponseWriter {
			return &loadbalance.LoadBalanceResponseWriter{ResponseWriter: metrics.NewRecorder(w)}
		}, false, true, true},
		"log, which looks at the message afterwards": {func(w dns.ResponseWriter) dns.ResponseWriter { return dnstest.NewRecorder(w) }, false, false, false},
		"a writer that nobody knows":                 {func(w dns.ResponseWriter) dns.ResponseWriter { return wrapped{w} }, false, false, false},
		"a plugin that asks by itself, behind a socket": {func(w dns.ResponseWriter) dns.ResponseWriter {
			return request.NewScrubWriter(new(dns.Msg), wrapped{w})
		}, false, false, false},
		"a socket that fits nothing to its client": {func(w dns.ResponseWriter) dns.ResponseWriter {
			return w.(*request.ScrubWriter).ResponseWriter //nolint:errcheck,forcetypeassert // see serving
		}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan sink, 1)
			look := plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				got <- sinkOf(w)
				return 0, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError))
			})
			udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) {
				_, _ = after("errors", after("other", look)).ServeDNS(t.Context(), c.wrap(w), r)
			})
			exchange(t, "udp", udp, question("example.org.", dns.TypeA))
			s := <-got
			if (s.socket != nil) != c.socket || (s.recorder != nil) != c.recorder || s.reuse != c.reuse {
				t.Errorf("socket %t, recorder %t, reuse %t; want %t, %t, %t", s.socket != nil, s.recorder != nil, s.reuse, c.socket, c.recorder, c.reuse)
			}
		})
	}
}

func TestSinkLooksThroughALoadBalancerInRandomOrder(t *testing.T) {
	weights := writeFile(t, "weights", "pear.orchard.svc.clusterset.local.\n10.96.7.10 3\n")
	for name, c := range map[string]struct {
		config string
		socket bool
	}{
		"by default":                    {"loadbalance", true},
		"by name":                       {"loadbalance round_robin", true},
		"but not one with weights":      {"loadbalance weighted " + weights, false},
		"but not one that prefers nets": {"loadbalance round_robin {\n prefer 10.0.0.0/8\n }", false},
	} {
		t.Run(name, func(t *testing.T) {
			controller := caddy.NewTestController("dns", c.config)
			setup, err := caddy.DirectiveAction("dns", "loadbalance")
			if err == nil {
				err = setup(controller)
			}
			if err != nil {
				t.Fatal(err)
			}
			sinks := make(chan sink, 1)
			balancer := dnsserver.GetConfig(controller).Plugin[0](plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				sinks <- sinkOf(w)
				return 0, w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError))
			}))
			udp, _ := serving(t, func(w dns.ResponseWriter, r *dns.Msg) { _, _ = balancer.ServeDNS(t.Context(), w, r) })
			for range 2 { // the second one knows from the first
				exchange(t, "udp", udp, question("example.org.", dns.TypeA))
				got := <-sinks
				if (got.socket != nil) != c.socket || !got.reuse {
					t.Errorf("socket %t, reuse %t; want %t, true", got.socket != nil, got.reuse, c.socket)
				}
			}
		})
	}
}
