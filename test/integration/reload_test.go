package integration

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/corefile"
)

// reload edits the Corefile, tells the process so, and waits until it is done.
func (d *dnsProcess) reload(t *testing.T, old, replacement, done string) {
	t.Helper()
	text, err := os.ReadFile(d.conf)
	must(t, err)
	edited := strings.Replace(string(text), old, replacement, 1)
	if edited == string(text) {
		t.Fatalf("%q is not in the Corefile:\n%s", old, text)
	}
	must(t, os.WriteFile(d.conf, []byte(edited), 0o600)) //nolint:gosec // a file of this test
	before := len(logLines(d.Log(), done))
	must(t, syscall.Kill(d.Pid(), syscall.SIGUSR1))
	eventually(t, "the end of the reload", func() error {
		if len(logLines(d.Log(), done)) == before {
			return fmt.Errorf("no line with %q", done)
		}
		return nil
	})
}

// load is a stream of one question over UDP, each sent once.
type load struct {
	conn                  *net.UDPConn
	sent, answered, wrong atomic.Int64
	stop                  chan struct{}
	wait                  sync.WaitGroup
}

// startLoad asks for the addresses of name so many times a second. Each answer
// has to be one A record with the address.
func (d *dnsProcess) startLoad(t *testing.T, name, address string, perSecond int64) *load {
	t.Helper()
	remote, err := net.ResolveUDPAddr("udp", d.addr)
	must(t, err)
	conn, err := net.DialUDP("udp", nil, remote)
	must(t, err)
	must(t, conn.SetReadBuffer(4<<20))
	l := &load{conn: conn, stop: make(chan struct{})}
	question, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	must(t, err)
	l.wait.Go(func() {
		begin := time.Now()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			for due := time.Since(begin).Milliseconds() * perSecond / 1000; l.sent.Load() < due; {
				id := l.sent.Add(1)
				question[0], question[1] = byte(id>>8), byte(id)
				if _, err := conn.Write(question); err != nil {
					t.Errorf("ask: %v", err)
					return
				}
			}
		}
	})
	go l.receive(address)
	t.Cleanup(func() { _ = conn.Close() })
	return l
}

// receive ends when the connection is closed.
func (l *load) receive(address string) {
	seen := map[uint16]bool{}
	packet := make([]byte, 4096)
	for {
		n, err := l.conn.Read(packet)
		if err != nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(packet[:n]); err != nil || len(m.Answer) != 1 || seen[m.Id] || dns.Field(m.Answer[0], 1) != address {
			l.wrong.Add(1)
		}
		seen[m.Id] = true
		l.answered.Add(1)
	}
}

// next waits until so many more questions are sent.
func (l *load) next(t *testing.T, questions int64) {
	t.Helper()
	sent := l.sent.Load()
	eventually(t, "more questions", func() error {
		if n := l.sent.Load() - sent; n < questions {
			return fmt.Errorf("%d of %d", n, questions)
		}
		return nil
	})
}

// check ends the stream and wants all its answers.
func (l *load) check(t *testing.T, what string) {
	t.Helper()
	close(l.stop)
	l.wait.Wait()
	sent := l.sent.Load()
	if sent >= 1<<16 {
		t.Fatalf("%d questions are more than there are ids: the test took too long", sent)
	}
	for deadline := time.Now().Add(5 * time.Second); l.answered.Load() < sent && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if answered, wrong := l.answered.Load(), l.wrong.Load(); answered != sent || wrong > 0 {
		t.Errorf("%s: of %d questions %d were answered, %d of them wrongly", what, sent, answered, wrong)
	}
	t.Logf("%s: %d questions", what, sent)
}

// asked counts the list and watch requests of mcs-core-dns.
func (m *member) asked(t *testing.T) (n int) {
	t.Helper()
	events, err := m.AuditEvents()
	must(t, err)
	for _, e := range events {
		if e.User == dnsUser && e.Resource != "" {
			n++
		}
	}
	return n
}

func TestReloadsLoseNoQueryAndAskTheAPIServerForNothing(t *testing.T) {
	const perSecond = 1000
	m := clusterset(t, "amber")[0]
	m.namespace(t, "orchard")
	m.apply(t, clusterSetIPImport("pear", "10.96.7.10"))
	d := startDNS(t, m.bed, corefile.MCSCoreDNS, m.dnsKubeconfig(t, nil), "ttl 100")
	eventually(t, "the first answer", func() error { return d.want(t, "A "+pearName, "NOERROR", "10.96.7.10") })

	before := m.asked(t)
	stream := d.startLoad(t, pearName, "10.96.7.10", perSecond)
	for i := range 20 {
		d.reload(t, fmt.Sprintf("ttl %d\n", 100+i), fmt.Sprintf("ttl %d\n", 101+i), "Reloading complete")
		must(t, d.wantTTL(t, uint32(101+i)))
		stream.next(t, 150)
	}
	stream.check(t, "20 reloads with another ttl")
	if n := m.asked(t) - before; n != 0 {
		t.Errorf("mcs-core-dns sent %d requests to the API server", n)
	}
	m.apply(t, clusterSetIPImport("plum", "10.96.7.12"))
	eventually(t, "a change, by the watch of the first start", func() error { return d.want(t, "A "+plumName, "NOERROR", "10.96.7.12") })
	if n := m.asked(t) - before; n != 0 {
		t.Errorf("after a change it was %d requests", n)
	}

	stream = d.startLoad(t, pearName, "10.96.7.10", perSecond)
	stream.next(t, 100)
	d.reload(t, "ttl 120\n", "ttl 120\n        namespaces orchard\n", "Reloading complete")
	must(t, d.wantTTL(t, 120))
	if n := m.asked(t) - before; n < 2 {
		t.Errorf("a block that reads other data sent %d requests, want new watches", n)
	}
	stream.next(t, 100)
	stream.check(t, "a reload with other namespaces")

	before = m.asked(t)
	stream = d.startLoad(t, pearName, "10.96.7.10", perSecond)
	d.reload(t, "ttl 120\n", "ttl 99999\n", "Restart failed")
	d.reload(t, "ttl 99999\n", "ttl 130\n", "Reloading complete")
	must(t, d.wantTTL(t, 130))
	stream.next(t, 100)
	stream.check(t, "a reload with a mistake, and one without")
	if n := m.asked(t) - before; n != 0 {
		t.Errorf("a mistake cost %d requests", n)
	}
}

// wantTTL waits until the process answers by its new Corefile on both sockets;
// one that is stopped before it serves would not be stopped at all.
func (d *dnsProcess) wantTTL(t *testing.T, ttl uint32) error {
	t.Helper()
	for _, network := range []string{"udp", "tcp"} {
		r, err := d.ask(t, network, pearName, "A")
		if err != nil {
			return err
		}
		if len(r.Answer) != 1 || r.Answer[0].Header().Ttl != ttl {
			return fmt.Errorf("over %s, want TTL %d, got\n%v", network, ttl, r)
		}
	}
	return nil
}
