package k8smcs

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/plugin/internal/apitest"
)

// The tests of this file run whole CoreDNS servers in this process and ask them
// over sockets.

const pearObject = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: pear, namespace: orchard}
spec: {type: ClusterSetIP, ips: [10.96.7.10], ports: [{port: 80, name: http}]}`

// figObjects is a headless import with n endpoints.
func figObjects(n int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: fig, namespace: orchard}
spec: {type: Headless, ports: []}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: fig-b
  namespace: orchard
  labels: {multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints:
`)
	for i := range n {
		fmt.Fprintf(&b, "- {addresses: [10.64.%d.%d], hostname: fig-%d}\n", i/250, i%250+1, i)
	}
	return b.String()
}

type server struct {
	instance *caddy.Instance
	udp, tcp string
}

// startServer runs a Corefile until the test ends.
func startServer(t *testing.T, text string) *server {
	t.Helper()
	instance, err := caddy.Start(input(text))
	if err != nil {
		t.Fatalf("start: %v\n%s", err, text)
	}
	s := &server{instance: instance}
	t.Cleanup(func() {
		if err := errors.Join(s.instance.ShutdownCallbacks()...); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		_ = s.instance.Stop() // a failed one has no more servers
	})
	s.findAddresses()
	return s
}

func input(text string) caddy.Input {
	return caddy.CaddyfileInput{Contents: []byte(text), Filepath: "Corefile", ServerTypeName: "dns"}
}

func (s *server) findAddresses() {
	s.udp, s.tcp = s.instance.Servers()[0].LocalAddr().String(), s.instance.Servers()[0].Addr().String()
}

// block is a server on a free port with these lines.
func block(lines ...string) string {
	return ".:0 {\n bind 127.0.0.1\n " + strings.Join(lines, "\n ") + "\n}\n"
}

// ours is the k8s_mcs block, with more lines.
func ours(kubeconfig string, lines ...string) string {
	return "k8s_mcs clusterset.local in-addr.arpa {\n kubeconfig " + kubeconfig + "\n " + strings.Join(lines, "\n ") + "\n }"
}

func (s *server) ask(t *testing.T, name string, qtype uint16) *dns.Msg {
	t.Helper()
	return exchange(t, "udp", s.udp, question(name, qtype))
}

func exchange(t *testing.T, network, addr string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := &dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: dns.MaxMsgSize}
	r, _, err := c.ExchangeContext(t.Context(), m, addr)
	if err != nil {
		t.Fatalf("ask %s over %s: %v", m.Question[0].Name, network, err)
	}
	return r
}

func newAPI(t *testing.T, objects ...string) (*apitest.Server, string) {
	t.Helper()
	api := apitest.New(t)
	for _, o := range objects {
		api.Apply(t, o)
	}
	kubeconfig := api.Kubeconfig(t)
	return api, kubeconfig
}

// names: N22.
func TestAMissWithNothingBehindIsOurNXDOMAIN(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject)
	for name, behind := range map[string][]string{
		"nothing":               nil,
		"cache":                 {"cache 30"},
		"loop":                  {"loop"},
		"cache and loop":        {"errors", "cache 30", "loop", "loadbalance"},
		"hosts that pass it on": {"cache 30", "hosts {\n 192.0.2.1 a.example\n fallthrough\n }"},
		"a forward elsewhere":   {"cache", "forward example.org 192.0.2.1"},
		"header and minimal":    {"header {\n response set ra\n }", "minimal", "cache"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, block(append(behind, ours(kubeconfig, "fallthrough"))...))
			for range 3 { // cache answers the second and third
				r := s.ask(t, "plum.orchard.svc.clusterset.local.", dns.TypeA)
				if r.Rcode != dns.RcodeNameError || len(r.Ns) != 1 || r.Ns[0].Header().Name != "clusterset.local." {
					t.Fatalf("want NXDOMAIN with our SOA, got\n%v", r)
				}
			}
			if r := s.ask(t, "4.0.22.10.in-addr.arpa.", dns.TypePTR); r.Rcode != dns.RcodeNameError || len(r.Ns) != 1 {
				t.Errorf("reverse: want NXDOMAIN with SOA, got\n%v", r)
			}
			if r := s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA); len(r.Answer) != 1 {
				t.Errorf("want one address, got\n%v", r)
			}
			if r := s.ask(t, "elsewhere.example.", dns.TypeA); r.Rcode != dns.RcodeServerFailure {
				t.Errorf("a name of nobody: rcode %d, want what CoreDNS says: SERVFAIL", r.Rcode)
			}
			if r := exchange(t, "tcp", s.tcp, question("clusterset.local.", dns.TypeAXFR)); r.Rcode != dns.RcodeRefused {
				t.Errorf("transfer: rcode %d, want REFUSED", r.Rcode)
			}
		})
	}
}

// upstream is a DNS server behind a forward that knows one name.
func upstream(t *testing.T) (addr string, asked *atomic.Int32) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int32)
	ready := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		if r.Question[0].Qtype != dns.TypeHINFO { // the loop plugin's probe
			asked.Add(1)
		}
		if strings.EqualFold(r.Question[0].Name, "plum.orchard.svc.clusterset.local.") {
			rr, _ := dns.NewRR(r.Question[0].Name + " 60 IN A 192.0.2.77")
			m.Answer = []dns.RR{rr}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() { _ = srv.Shutdown() })
	return pc.LocalAddr().String(), asked
}

// names: N23 N24 N30.
func TestOnlyAMissFallsThrough(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(0))
	up, asked := upstream(t)
	s := startServer(t, block("forward . "+up, "cache 30", "errors", ours(kubeconfig, "fallthrough clusterset.local")))
	for _, q := range []struct {
		name   string
		qtype  uint16
		rcode  int
		answer string
	}{
		{"pear.orchard.svc.clusterset.local.", dns.TypeAAAA, dns.RcodeSuccess, ""},
		{"orchard.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, ""},
		{"1.2.3.10.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, ""},
	} {
		if r := s.ask(t, q.name, q.qtype); r.Rcode != q.rcode || len(r.Answer) > 0 || len(r.Ns) != 1 {
			t.Errorf("%s: got\n%v", q.name, r)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the upstream was asked %d times for names that are ours", n)
	}
	if r := s.ask(t, "plum.orchard.svc.clusterset.local.", dns.TypeA); text(r.Answer) != "plum.orchard.svc.clusterset.local. A 192.0.2.77" {
		t.Errorf("a miss: got\n%v", r)
	}
	if r := s.ask(t, "medlar.orchard.svc.clusterset.local.", dns.TypeA); r.Rcode != dns.RcodeNameError || len(r.Ns) != 0 {
		t.Errorf("a miss that the upstream denies: want its answer untouched, got\n%v", r)
	}
	if r := s.ask(t, "fig.orchard.svc.clusterset.local.", dns.TypeA); r.Rcode != dns.RcodeNameError || len(r.Ns) != 0 {
		t.Errorf("a headless name without endpoints: want the upstream's answer, got\n%v", r)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the upstream was asked %d times, want 3", n)
	}
}

// names: N23.
func TestADeadUpstreamStaysServfailAndOurNamesStayRight(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject)
	s := startServer(t, block("forward . 127.0.0.1:1", "cache 30", ours(kubeconfig, "fallthrough clusterset.local")))
	for range 2 {
		if r := s.ask(t, "plum.orchard.svc.clusterset.local.", dns.TypeA); r.Rcode != dns.RcodeServerFailure {
			t.Errorf("a miss: rcode %d, want SERVFAIL", r.Rcode)
		}
	}
	if r := s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("our name: got\n%v", r)
	}
}

// names: N26 N31 N33 N55.
func TestUnsyncedServerAnswersServfailOnceAndHandsNothingOn(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	api.Fail("endpointslices", http.StatusServiceUnavailable)
	up, asked := upstream(t)
	before := time.Now()
	s := startServer(t, block("forward . "+up, "errors", ours(kubeconfig, "fallthrough", "startup_timeout 300ms")))
	if took := time.Since(before); took < 300*time.Millisecond || took > 4*time.Second {
		t.Errorf("the start took %v, want the startup_timeout", took)
	}
	for _, name := range []string{"pear.orchard.svc.clusterset.local.", "plum.orchard.svc.clusterset.local.", "clusterset.local."} {
		m := question(name, dns.TypeA)
		if r := exchange(t, "udp", s.udp, m); r.Rcode != dns.RcodeServerFailure || r.IsEdns0() != nil {
			t.Errorf("%s: want a bare SERVFAIL, got\n%v", name, r)
		}
		m.SetEdns0(1232, false)
		if r := exchange(t, "udp", s.udp, m); r.Rcode != dns.RcodeServerFailure || r.IsEdns0() == nil {
			t.Errorf("%s with EDNS: want SERVFAIL with OPT, got\n%v", name, r)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d queries were handed on", n)
	}
	// One question gets one packet, no second.
	conn, err := new(net.Dialer).DialContext(t.Context(), "udp", s.udp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	packed, err := question("pear.orchard.svc.clusterset.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(packed); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(buf); err != nil {
		t.Fatalf("no reply: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := conn.Read(buf); err == nil {
		t.Errorf("a second reply of %d octets", n)
	}
	api.Fail("endpointslices", 0)
	eventually(t, "the right answer", func() bool {
		return len(s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA).Answer) == 1
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// names: N37.
func TestLargeAnswersAreCutOverUDPAndWholeOverTCP(t *testing.T) {
	const n = 1000
	_, kubeconfig := newAPI(t, figObjects(n))
	s := startServer(t, block(ours(kubeconfig)))
	const fig = "fig.orchard.svc.clusterset.local."
	m := question(fig, dns.TypeA)
	if r := exchange(t, "udp", s.udp, m); !r.Truncated || size(r) > 512 || r.IsEdns0() != nil {
		t.Errorf("plain UDP: TC %v, %d octets, OPT %v", r.Truncated, size(r), r.IsEdns0())
	}
	m.SetEdns0(1232, false)
	if r := exchange(t, "udp", s.udp, m); !r.Truncated || size(r) > 1232 || len(r.Answer) < 50 {
		t.Errorf("UDP with 1232: TC %v, %d octets, %d answers", r.Truncated, size(r), len(r.Answer))
	}
	r := exchange(t, "tcp", s.tcp, question(fig, dns.TypeA))
	distinct := map[string]bool{}
	for _, rr := range r.Answer {
		distinct[rr.String()] = true
	}
	if r.Truncated || len(distinct) != n || len(r.Answer) != n {
		t.Errorf("TCP: TC %v, %d answers, %d distinct, want %d", r.Truncated, len(r.Answer), len(distinct), n)
	}
	if r := exchange(t, "tcp", s.tcp, question("_http._tcp."+fig, dns.TypeSRV)); len(r.Answer) < 500 || size(r) > 65535 {
		t.Errorf("SRV over TCP: %d answers, %d octets", len(r.Answer), size(r))
	}
}

// size is the length of a reply on the wire.
func size(r *dns.Msg) int {
	r.Compress = true
	return r.Len()
}

// TestOtherPluginsMayChangeTheirMessages runs our plugin among plugins that
// change what they are handed, in our order and in one in which the cache
// stands before us, and asks from several goroutines while the zone changes.
// It means something with -race only.
//
// names: N38.
func TestOtherPluginsMayChangeTheirMessages(t *testing.T) {
	oursFirst := dnsserver.Directives
	var cacheFirst []string
	for _, d := range oursFirst {
		switch d {
		case pluginName:
		case "minimal":
			cacheFirst = append(cacheFirst, d, pluginName)
		default:
			cacheFirst = append(cacheFirst, d)
		}
	}
	for name, directives := range map[string][]string{"our order": oursFirst, "cache, header, dnssec and minimal before us": cacheFirst} {
		t.Run(name, func(t *testing.T) {
			api, kubeconfig := newAPI(t, pearObject, figObjects(20))
			if err := dnsserver.SetDirectives(directives); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { dnsserver.Directives = oursFirst })
			s := startServer(t, block(
				"errors", "loadbalance", "cache 1", "minimal", "header {\n response set ra\n }",
				"rewrite continue ttl regex (.*) 77",
				"rewrite name suffix .mcs.example .clusterset.local answer auto",
				ours(kubeconfig, "fallthrough"),
			))
			want := map[string]int{
				"A pear.orchard.svc.clusterset.local.": 1, "A fig.orchard.svc.clusterset.local.": 20,
				"A pear.orchard.svc.mcs.example.": 1, "A FIG.orchard.svc.clusterset.local.": 20,
				"SRV _http._tcp.fig.orchard.svc.clusterset.local.": 20, "A plum.orchard.svc.clusterset.local.": 0,
				"SRV _http._tcp.pear.orchard.svc.mcs.example.": 1, "SOA clusterset.local.": 1,
			}
			exact := name == "our order"
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					c := &dns.Client{Net: "tcp", Timeout: 5 * time.Second}
					for range 50 {
						for q, n := range want {
							qtype, name, _ := strings.Cut(q, " ")
							r, _, err := c.ExchangeContext(t.Context(), question(name, dns.StringToType[qtype]), s.tcp)
							if err != nil || len(r.Answer) != n {
								t.Errorf("%s: %v, want %d answers, got\n%v", name, err, n, r)
								return
							}
							for _, rr := range r.Answer {
								// A cache before us answers with the case that it was first asked with.
								if owner := rr.Header().Name; owner != name && (exact || !strings.EqualFold(owner, name)) {
									t.Errorf("%s: owner %s", name, owner)
								}
							}
						}
					}
				})
			}
			for i := range 50 {
				api.Apply(t, strings.Replace(pearObject, "10.96.7.10", fmt.Sprint("10.96.7.", i+1), 1))
			}
			wg.Wait()
		})
	}
}

// names: N56.
func TestThePublishedGKECorefileLoadsAsItIs(t *testing.T) {
	inPod(t)
	oneLine := strings.NewReplacer("ip6.arpa {\n        fallthrough", "ip6.arpa { fallthrough", "disablelegacysync\n    }", "disablelegacysync }").Replace(corefile.GKE)
	if oneLine == corefile.GKE {
		t.Fatal("the file has changed: adapt this test")
	}
	for name, text := range map[string]string{"GKE": corefile.GKE, "GKE with braces as published": oneLine, "our own": corefile.MCSCoreDNS} {
		if err := caddy.ValidateAndExecuteDirectives(input(text), nil, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// names: N56.
func TestTheGKECorefileAnswers(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(3))
	up, asked := upstream(t)
	text, err := corefile.Local{
		DNS: "127.0.0.1:0", Kubeconfig: kubeconfig, Forward: up,
		Health: "127.0.0.1:0", Ready: "127.0.0.1:0", Metrics: "127.0.0.1:0",
	}.Adapt(corefile.GKE)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, strings.Replace(text, "        lameduck 5s\n", "", 1))
	if r := s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA); onlyAnswer(r) != "10.96.7.10" {
		t.Errorf("pear: got\n%v", r)
	}
	if r := s.ask(t, "fig-1.basil.fig.orchard.svc.clusterset.local.", dns.TypeA); onlyAnswer(r) != "10.64.0.2" {
		t.Errorf("fig-1: got\n%v", r)
	}
	if r := s.ask(t, "plum.orchard.svc.clusterset.local.", dns.TypeA); onlyAnswer(r) != "192.0.2.77" {
		t.Errorf("plum, which falls through: got\n%v", r)
	}
	n := asked.Load()
	if r := s.ask(t, "1.2.3.10.in-addr.arpa.", dns.TypePTR); r.Rcode != dns.RcodeNameError || asked.Load() != n {
		t.Errorf("a reverse name, which does not fall through: got\n%v", r)
	}
}

// onlyAnswer is the data of the only answer.
func onlyAnswer(r *dns.Msg) string {
	if len(r.Answer) != 1 {
		return fmt.Sprint(len(r.Answer), " answers")
	}
	return dns.Field(r.Answer[0], 1)
}
