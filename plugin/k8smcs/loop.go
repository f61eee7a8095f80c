package k8smcs

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

const (
	// A verdict is good for loopEvery; then the next name that falls through
	// starts another probe, and does not wait for it.
	loopEvery = 30 * time.Second
	// The first name of a zone that falls through waits for the verdict, and no
	// longer than loopWait: a resolver that is slow or dead is no circle.
	loopWait = time.Second
	// loopProbe bounds a probe.
	loopProbe = 2 * time.Second
)

// loopGuard notices when names that fall through come back: the resolver behind
// sends our zone to us again, as the cluster's DNS with our stub domain does.
// Such a question would go round without end. CoreDNS's loop plugin does not see
// it, because it asks for names outside the zone.
//
// A probe is a name that nobody else would ask for, sent to the plugins behind.
// If it arrives here while it is on its way, there is a circle, and names of the
// zone are answered instead of passed on until a later probe does not come back.
type loopGuard struct {
	zone string
	now  func() time.Time

	verdict atomic.Int32           // one of the constants below
	until   atomic.Int64           // when it wants another probe, nanoseconds since 1970
	probe   atomic.Pointer[string] // the name on its way, nil when there is none

	mu      sync.Mutex    // guards decided, and the order of verdicts
	decided chan struct{} // closed when the probe on its way is decided; nil without one
}

const (
	loopUnknown int32 = iota
	loopOpen          // names go out and do not come back
	loopClosed        // they come back
)

func newLoopGuard(zone string) *loopGuard { return &loopGuard{zone: zone, now: time.Now} }

// arrived reports whether a question is our probe; then there is a circle.
func (g *loopGuard) arrived(name string) bool {
	probe := g.probe.Load()
	if probe == nil || !strings.EqualFold(*probe, name) {
		return false
	}
	g.decide(*probe, loopClosed)
	return true
}

// open reports whether a name of the zone may go to next.
func (g *loopGuard) open(ctx context.Context, next plugin.Handler) bool {
	if g.now().UnixNano() < g.until.Load() {
		return g.verdict.Load() != loopClosed
	}
	g.mu.Lock()
	decided := g.decided
	if decided == nil && g.now().UnixNano() >= g.until.Load() {
		decided = make(chan struct{})
		g.decided = decided
		go g.send(context.WithoutCancel(ctx), next)
	}
	g.mu.Unlock()
	if g.verdict.Load() == loopUnknown && decided != nil {
		timer := time.NewTimer(loopWait)
		defer timer.Stop()
		select {
		case <-decided:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return g.verdict.Load() != loopClosed
}

// send asks the plugins behind for a new name and sees whether it comes back.
func (g *loopGuard) send(ctx context.Context, next plugin.Handler) {
	ctx, cancel := context.WithTimeout(ctx, loopProbe)
	defer cancel()
	var random [12]byte
	for i := range random {
		random[i] = byte(rand.Uint32()) //nolint:gosec // unlikely to be asked by chance, no more
	}
	name := "loop-probe-" + hex.EncodeToString(random[:]) + "." + g.zone
	g.probe.Store(&name)
	question := new(dns.Msg).SetQuestion(name, dns.TypeHINFO)
	_, _ = next.ServeDNS(ctx, silentWriter{}, question) // what it answers is no matter
	g.decide(name, loopOpen)
}

// decide takes in how a probe ended; only the first word about one counts.
func (g *loopGuard) decide(name string, verdict int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe := g.probe.Load(); probe == nil || *probe != name {
		return
	}
	g.probe.Store(nil)
	before := g.verdict.Swap(verdict)
	g.until.Store(g.now().Add(loopEvery).UnixNano())
	close(g.decided)
	g.decided = nil
	switch {
	case verdict == loopClosed && before != loopClosed:
		log.Errorf("Names of %s that fall through come back here, so they are answered with NXDOMAIN: let forward go to a resolver that does not send %s to this server, or take fallthrough away", g.zone, g.zone)
	case verdict == loopOpen && before == loopClosed:
		log.Infof("Names of %s that fall through do not come back any more", g.zone)
	}
}

// silentWriter is for an answer that nobody waits for.
type silentWriter struct{}

func (silentWriter) LocalAddr() net.Addr { return &net.UDPAddr{IP: net.IPv6loopback, Port: 53} }

func (silentWriter) RemoteAddr() net.Addr        { return &net.UDPAddr{IP: net.IPv6loopback, Port: 53} }
func (silentWriter) WriteMsg(*dns.Msg) error     { return nil }
func (silentWriter) Write(b []byte) (int, error) { return len(b), nil }
func (silentWriter) Close() error                { return nil }
func (silentWriter) TsigStatus() error           { return nil }
func (silentWriter) TsigTimersOnly(bool)         {}
func (silentWriter) Hijack()                     {}
