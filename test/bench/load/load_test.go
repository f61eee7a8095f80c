package load

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
)

var (
	pear = data.Query{Name: "pear.test.", Type: dns.TypeA, UDPSize: 1232, Answers: 2}
	plum = data.Query{Name: "plum.test.", Type: dns.TypeA, UDPSize: 1232, Rcode: dns.RcodeNameError}
	figs = data.Query{Name: "figs.test.", Type: dns.TypeA, UDPSize: 512, Answers: 100, Truncated: true}
)

// right answers the three queries as it should be.
func right(r *dns.Msg, udp bool) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(r)
	switch r.Question[0].Name {
	case pear.Name:
		m.Answer = addresses(pear.Name, 0, 2)
	case figs.Name:
		m.Answer = addresses(figs.Name, 0, 100)
		if udp {
			m.Answer, m.Truncated = m.Answer[:10], true
		}
	default:
		m.Rcode = dns.RcodeNameError
	}
	return m
}

func addresses(name string, from, n int) []dns.RR {
	var list []dns.RR
	for i := range n {
		list = append(list, &dns.A{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
			A:   net.IPv4(10, 0, 0, byte(from+i)),
		})
	}
	return list
}

// serve runs a server, UDP and TCP, whose right answers are spoiled.
func serve(t *testing.T, spoil func(m *dns.Msg)) (addr string, asked *atomic.Int64) {
	t.Helper()
	conn, listener := listen(t)
	asked = new(atomic.Int64)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		asked.Add(1)
		m := right(r, w.LocalAddr().Network() == "udp")
		if spoil != nil {
			spoil(m)
		}
		_ = w.WriteMsg(m)
	})
	for _, s := range []*dns.Server{{PacketConn: conn, Handler: handler}, {Listener: listener, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return conn.LocalAddr().String(), asked
}

// listen opens a port for UDP and TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", conn.LocalAddr().String())
		if err == nil {
			return conn, listener
		}
		_ = conn.Close() // somebody else has this port for TCP
	}
}

var short = Options{Warm: 10 * time.Millisecond, For: 50 * time.Millisecond}

func TestEveryReplyIsChecked(t *testing.T) {
	var count atomic.Int64
	for name, c := range map[string]struct {
		spoil func(m *dns.Msg)
		want  string // part of the error
	}{
		"right answers": {},
		"another rcode": {func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure }, "rcode SERVFAIL"},
		"one record less": {func(m *dns.Msg) {
			if m.Question[0].Name == pear.Name {
				m.Answer = m.Answer[1:]
			}
		}, "to pear.test. A, a message"},
		"not truncated":    {func(m *dns.Msg) { m.Truncated = false }, "to figs.test. A"},
		"truncated":        {func(m *dns.Msg) { m.Truncated = true }, "TC true"},
		"another question": {func(m *dns.Msg) { m.Question[0].Name = "pears.test." }, "the question"},
		"no response":      {func(m *dns.Msg) { m.Response = false }, "response: false"},
		"one reply in fifty": {func(m *dns.Msg) {
			if count.Add(1)%50 == 0 {
				m.Rcode = dns.RcodeRefused
			}
		}, "rcode REFUSED"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, asked := serve(t, c.spoil)
			result, err := Run(t.Context(), addr, []data.Query{pear, plum, figs}, short)
			if err != nil {
				t.Fatal(err)
			}
			if err := result.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if n := int64(result.Replies); n < enough || n > asked.Load() {
				t.Errorf("%d replies to %d queries, want at least %d", n, asked.Load(), enough)
			}
			if result.Quantile(0.5) <= 0 || result.Quantile(0.99) < result.Quantile(0.5) {
				t.Errorf("latencies are %v and %v", result.Quantile(0.5), result.Quantile(0.99))
			}
		})
	}
}

func TestAConstantServerIsNotChecked(t *testing.T) {
	addr, _ := serve(t, func(m *dns.Msg) { m.Rcode = dns.RcodeRefused })
	o := short
	o.AnyAnswer = true
	result, err := Run(t.Context(), addr, []data.Query{pear}, o)
	if err != nil || result.Err() != nil {
		t.Errorf("errors %v and %v", err, result.Err())
	}
}

func TestAFixedRateIsNoMoreThanThat(t *testing.T) {
	addr, asked := serve(t, nil)
	o := Options{Warm: time.Millisecond, For: 300 * time.Millisecond, Rate: 1000}
	begin := time.Now()
	result, err := Run(t.Context(), addr, []data.Query{pear, plum}, o)
	if err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	if most := time.Since(begin).Seconds()*1000 + 1; float64(asked.Load()) > most {
		t.Errorf("%d queries, want at most %.0f", asked.Load(), most)
	}
}

func TestWhatIsLostIsNoAnswer(t *testing.T) {
	for want, result := range map[string]Result{
		"":                                       {Replies: 1000, Lost: 1},
		"no reply at all":                        {Lost: 64},
		"2 queries were lost, and 1000 answered": {Replies: 1000, Lost: 2},
	} {
		if err := result.Err(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%+v: error %v, want %q", result, err, want)
		}
	}
}

func TestCompareFindsEveryDifference(t *testing.T) {
	of := func(q data.Query, spoil func(m *dns.Msg)) func(m *dns.Msg) {
		return func(m *dns.Msg) {
			if m.Question[0].Name == q.Name {
				spoil(m)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(m *dns.Msg)
		want  string // part of the error
	}{
		"none": {},
		"another order and another TTL": {spoil: of(pear, func(m *dns.Msg) {
			m.Answer[0], m.Answer[1] = m.Answer[1], m.Answer[0]
			m.Answer[0].Header().Ttl = 1
		})},
		"another part of a truncated answer": {spoil: of(figs, func(m *dns.Msg) {
			if m.Truncated {
				m.Answer = addresses(figs.Name, 50, 10)
			}
		})},
		"another address":   {of(pear, func(m *dns.Msg) { m.Answer = addresses(pear.Name, 1, 2) }), "pear.test. A: ours answers"},
		"a record twice":    {of(pear, func(m *dns.Msg) { m.Answer[1] = m.Answer[0] }), "pear.test. A: ours answers"},
		"a record too many": {of(pear, func(m *dns.Msg) { m.Answer = addresses(pear.Name, 0, 3) }), "pear.test. A: ours has rcode NOERROR, 3 answers"},
		"another rcode":     {of(plum, func(m *dns.Msg) { m.Rcode = dns.RcodeSuccess }), "plum.test. A: ours has rcode NOERROR"},
		"not truncated":     {of(figs, func(m *dns.Msg) { m.Truncated = false }), "figs.test. A: ours has rcode NOERROR, 10 answers and TC false"},
		"a stranger in a truncated answer": {of(figs, func(m *dns.Msg) {
			m.Answer = addresses(figs.Name, 95, 10)
		}), "is in a truncated answer and not in the whole one"},
		"an empty truncated answer": {of(figs, func(m *dns.Msg) { m.Answer = nil }), "figs.test. A: ours has rcode NOERROR, 0 answers and TC true"},
	} {
		t.Run(name, func(t *testing.T) {
			stock, _ := serve(t, nil)
			ours, _ := serve(t, c.spoil)
			err := Compare(t.Context(), ours, stock, []data.Query{pear, plum, figs, pear})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestCompareNamesTheServerThatIsSilent(t *testing.T) {
	there, _ := serve(t, nil)
	gone := "127.0.0.1:1"
	if err := Compare(t.Context(), there, gone, []data.Query{pear}); err == nil || !strings.HasPrefix(err.Error(), "stock: ask for pear.test. A over udp") {
		t.Errorf("error %v", err)
	}
	if err := Compare(t.Context(), gone, there, []data.Query{pear}); err == nil || !strings.HasPrefix(err.Error(), "ours: ") {
		t.Errorf("error %v", err)
	}
}

func TestAwaitReturnsWhenTheAddressIsThere(t *testing.T) {
	var late atomic.Int64
	addr, _ := serve(t, func(m *dns.Msg) {
		if late.Add(1) > 20 {
			m.Answer = addresses(pear.Name, 77, 2)
		}
	})
	begin := time.Now()
	at, err := Await(t.Context(), addr, pear.Name, pear.Type, "10.0.0.78")
	if err != nil || at.Before(begin) || late.Load() != 21 {
		t.Errorf("seen at %v with error %v after %d queries, want 21", at, err, late.Load())
	}
}
