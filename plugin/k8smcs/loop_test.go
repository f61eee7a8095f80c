package k8smcs

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// nextThat is a next plugin made of a function.
func nextThat(f func(question string)) plugin.Handler {
	return plugin.HandlerFunc(func(_ context.Context, _ dns.ResponseWriter, r *dns.Msg) (int, error) {
		f(r.Question[0].Name)
		return dns.RcodeNameError, nil
	})
}

func TestLoopGuard(t *testing.T) {
	const plum = "plum.orchard.svc.clusterset.local."
	t.Run("names that do not come back go out, and a verdict lasts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, probes := newLoopGuard("clusterset.local."), 0
			out := nextThat(func(string) { probes++ })
			for range 3 {
				if g.arrived(plum) || !g.open(t.Context(), out) {
					t.Error("a name was held back")
				}
			}
			synctest.Wait()
			if probes != 1 {
				t.Errorf("%d probes for three names, want 1", probes)
			}
			time.Sleep(loopEvery)
			g.open(t.Context(), out)
			synctest.Wait()
			if probes != 2 {
				t.Errorf("%d probes after the verdict ran out, want 2", probes)
			}
		})
	})
	t.Run("names that come back are held back until they do not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, circle := newLoopGuard("clusterset.local."), true
			out := nextThat(func(question string) {
				if circle && !g.arrived(strings.ToUpper(question)) {
					t.Errorf("the guard does not know its probe %s", question)
				}
			})
			for range 2 {
				if g.open(t.Context(), out) {
					t.Error("a name went round")
				}
			}
			circle = false
			time.Sleep(loopEvery)
			g.open(t.Context(), out) // starts the probe that finds out
			synctest.Wait()
			if !g.open(t.Context(), out) {
				t.Error("a name is held back after the circle is gone")
			}
		})
	})
	t.Run("a resolver that does not answer holds the first name for a moment and no other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newLoopGuard("clusterset.local.")
			dead := plugin.HandlerFunc(func(ctx context.Context, _ dns.ResponseWriter, _ *dns.Msg) (int, error) {
				<-ctx.Done()
				return dns.RcodeServerFailure, ctx.Err()
			})
			begin := time.Now()
			if !g.open(t.Context(), dead) || time.Since(begin) != loopWait {
				t.Errorf("the first name waited %s", time.Since(begin))
			}
			time.Sleep(loopProbe)
			begin = time.Now()
			if !g.open(t.Context(), dead) || time.Since(begin) != 0 {
				t.Errorf("another name waited %s", time.Since(begin))
			}
		})
	})
}

// TestStubDomainAndForwardDoNotChaseEachOther closes the circle over sockets:
// what we forward to sends every question back to us.
func TestStubDomainAndForwardDoNotChaseEachOther(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject)
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, block("forward . "+socket.LocalAddr().String(), "errors", ours(kubeconfig, "fallthrough")))
	var asked atomic.Int32
	ready := make(chan struct{})
	resolver := &dns.Server{PacketConn: socket, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if strings.HasPrefix(r.Question[0].Name, "plum.") {
			asked.Add(1)
		}
		question := r.Copy()
		question.Id = dns.Id()
		c := &dns.Client{Timeout: 5 * time.Second}
		if m, _, err := c.ExchangeContext(t.Context(), question, s.udp); err == nil {
			m.Id = r.Id
			_ = w.WriteMsg(m)
		}
	})}
	go func() { _ = resolver.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() { _ = resolver.Shutdown() })

	for range 3 {
		m := s.ask(t, "plum.orchard.svc.clusterset.local.", dns.TypeA)
		if m.Rcode != dns.RcodeNameError || len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA {
			t.Errorf("got\n%v", m)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the resolver behind was asked %d times", n)
	}
	if m := s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA); len(m.Answer) != 1 {
		t.Errorf("a name of ours: got\n%v", m)
	}
}
