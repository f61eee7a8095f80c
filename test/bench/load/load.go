// Package load asks a DNS server over UDP, with many queries under way at once
// from one thread, and checks every reply.
package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
)

const (
	// window is how many queries are under way in a closed loop.
	window = 64
	// slots is how many queries may be under way in any case: as many as there
	// are message ids.
	slots = 1 << 16
	// patience is how long a closed loop waits for a reply before it takes what
	// is under way for lost.
	patience = 5 * time.Second
	// enough replies are waited for beyond the time that was asked for, on a
	// machine that does something else.
	enough = 100
	// tick is how often an open loop looks whether a query is due.
	tick = 200 * time.Microsecond
	// batch is how many messages one system call moves at most.
	batch = 64
	// receiveBuffer holds the replies to a whole window.
	receiveBuffer = 4 << 20
)

// Options of a Run.
type Options struct {
	// Warm is how long to ask before it counts, and For how long it counts.
	Warm, For time.Duration
	// Rate is in queries per second; 0 means that each reply is followed by the
	// next query.
	Rate int
	// AnyAnswer says not to look at replies: the server is a constant.
	AnyAnswer bool
	// Begin and End (optional) are called at both ends of the time that counts.
	Begin, End func()
}

// Result is what was seen in the time that counts.
type Result struct {
	Replies int
	Lost    int
	// Wrong replies, and what was wrong with the first.
	Wrong      int
	FirstWrong string
	Elapsed    time.Duration

	latencies []time.Duration // sorted
}

// Quantile is the latency that the share q of all replies keeps to.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[int(q*float64(len(r.latencies)-1))]
}

// Err says whether what was measured may be believed.
func (r *Result) Err() error {
	switch {
	case r.Replies == 0:
		return errors.New("no reply at all")
	case r.Wrong > 0:
		return fmt.Errorf("%d of %d replies are wrong, the first: %s", r.Wrong, r.Replies, r.FirstWrong)
	case r.Lost*1000 > r.Replies:
		return fmt.Errorf("%d queries were lost, and %d answered", r.Lost, r.Replies)
	}
	return nil
}

type phase int

const (
	warming phase = iota
	counting
	over
)

// generator asks over one socket. The sender and the receiver are one
// goroutine in a closed loop and two in an open one.
type generator struct {
	conn    *net.UDPConn
	packets *ipv4.PacketConn
	queries []packed
	out, in []ipv4.Message
	any     bool // take every reply for right

	mu     sync.Mutex // guards what follows
	phase  phase
	next   int // query
	id     uint16
	flight [slots]flight
	result Result
}

// packed is a query as it is sent.
type packed struct {
	data.Query
	wire []byte
}

// flight is a query under way.
type flight struct {
	sent  time.Time
	query *packed // nil when there is none
}

// Run asks the queries in turn, again and again. An error is about the socket
// or ctx; what is wrong with the server is in the Result.
func Run(ctx context.Context, addr string, queries []data.Query, o Options) (*Result, error) {
	g, err := newGenerator(addr, queries)
	if err != nil {
		return nil, err
	}
	defer g.conn.Close()
	g.any = o.AnyAnswer
	clock := make(chan error, 1)
	go func() { clock <- g.clock(ctx, o) }()
	if o.Rate > 0 {
		go g.sendAtRate(o.Rate)
	} else {
		g.send(window)
	}
	g.receive(o.Rate == 0)
	if err := <-clock; err != nil {
		return nil, err
	}
	slices.Sort(g.result.latencies)
	return &g.result, nil
}

func newGenerator(addr string, queries []data.Query) (*generator, error) {
	g := &generator{out: make([]ipv4.Message, batch), in: make([]ipv4.Message, batch)}
	for _, q := range queries {
		wire, err := Message(q).Pack()
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", q.Name, err)
		}
		g.queries = append(g.queries, packed{q, wire})
	}
	to, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", addr, err)
	}
	if g.conn, err = net.DialUDP("udp4", nil, to); err != nil {
		return nil, fmt.Errorf("ask %s: %w", addr, err)
	}
	if err := g.conn.SetReadBuffer(receiveBuffer); err != nil {
		return nil, fmt.Errorf("ask %s: %w", addr, err)
	}
	g.packets = ipv4.NewPacketConn(g.conn)
	for i := range batch {
		g.out[i].Buffers = [][]byte{nil}
		g.in[i].Buffers = [][]byte{make([]byte, dns.MaxMsgSize)}
	}
	return g, nil
}

// Message is the query as a client sends it.
func Message(q data.Query) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.SetEdns0(q.UDPSize, false)
	return m
}

// clock walks through the phases; closing the socket at the end ends the receiver.
func (g *generator) clock(ctx context.Context, o Options) error {
	defer g.conn.Close()
	defer g.enter(over)
	if err := sleep(ctx, o.Warm); err != nil {
		return err
	}
	if o.Begin != nil {
		o.Begin()
	}
	begin := time.Now()
	g.enter(counting)
	err := sleep(ctx, o.For)
	for err == nil && g.replies() < enough && time.Since(begin) < 2*patience {
		err = sleep(ctx, tick)
	}
	g.enter(over)
	if o.End != nil {
		o.End()
	}
	g.mu.Lock()
	g.result.Elapsed = time.Since(begin)
	g.mu.Unlock()
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (g *generator) enter(p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.phase = p
}

func (g *generator) now() phase {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase
}

func (g *generator) replies() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.result.Replies
}

// sendAtRate sends what is due. A generator that was kept from running catches
// up with a few queries at most.
func (g *generator) sendAtRate(rate int) {
	begin, sent := time.Now(), 0
	for g.now() != over {
		due := int(time.Since(begin).Seconds()*float64(rate)) - sent
		if due > batch {
			sent += due - batch
			due = batch
		}
		g.send(due)
		sent += due
		pause(tick)
	}
}

// pause keeps the thread; Go's own timers are a millisecond apart on a thread
// that waits for the network.
func pause(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // waking early is no matter
}

// send sends the next n queries.
func (g *generator) send(n int) {
	for n > 0 {
		k := min(n, batch)
		n -= k
		g.mu.Lock()
		now := time.Now()
		for i := range k {
			q := &g.queries[g.next]
			g.next = (g.next + 1) % len(g.queries)
			g.id++
			if g.flight[g.id].query != nil && g.phase == counting {
				g.result.Lost++
			}
			g.flight[g.id] = flight{now, q}
			g.out[i].Buffers[0] = append(g.out[i].Buffers[0][:0], q.wire...)
			binary.BigEndian.PutUint16(g.out[i].Buffers[0], g.id)
		}
		g.mu.Unlock()
		for at := 0; at < k; {
			sent, err := g.packets.WriteBatch(g.out[at:k], 0)
			if err != nil {
				break // counted as lost; the receiver goes on
			}
			at += sent
		}
	}
}

// receive checks replies until the socket is closed.
func (g *generator) receive(closed bool) {
	for {
		_ = g.conn.SetReadDeadline(time.Now().Add(patience)) // fails on a closed socket only
		n, err := g.packets.ReadBatch(g.in, 0)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if closed {
				g.forget()
				g.send(window)
			}
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if g.now() == over {
				return
			}
			pause(tick) // a server that is not there
			continue
		}
		answered := g.check(n)
		if closed {
			g.send(answered)
		}
	}
}

// forget counts all queries under way as lost.
func (g *generator) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.flight {
		if g.flight[i].query != nil && g.phase == counting {
			g.result.Lost++
		}
		g.flight[i].query = nil
	}
}

// check looks at n messages and returns how many are replies to a query under way.
func (g *generator) check(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, answered := time.Now(), 0
	for i := range n {
		reply := g.in[i].Buffers[0][:g.in[i].N]
		if len(reply) < headerSize {
			continue
		}
		f := &g.flight[binary.BigEndian.Uint16(reply)]
		if f.query == nil {
			continue
		}
		answered++
		if g.phase == counting {
			g.result.Replies++
			g.result.latencies = append(g.result.latencies, now.Sub(f.sent))
			if wrong := f.query.wrong(reply); wrong != "" && !g.any {
				if g.result.Wrong == 0 {
					g.result.FirstWrong = wrong
				}
				g.result.Wrong++
			}
		}
		f.query = nil
	}
	return answered
}

const headerSize = 12

// wrong says what is wrong with a reply, by its header and its question.
func (q *packed) wrong(reply []byte) string {
	response, truncated := reply[2]&0x80 != 0, reply[2]&0x02 != 0
	rcode, answers := int(reply[3]&0x0f), int(binary.BigEndian.Uint16(reply[6:]))
	// The question comes back byte for byte, without the EDNS record behind it.
	question := q.wire[headerSize : len(q.wire)-ednsSize]
	if response && q.Fits(rcode, answers, truncated) && bytes.HasPrefix(reply[headerSize:], question) {
		return ""
	}
	return fmt.Sprintf("to %s, a message of %d bytes with %s (response: %t): want %s and the question",
		&q.Query, len(reply), shape(rcode, answers, truncated), response, shape(q.Rcode, q.Answers, q.Truncated))
}

func shape(rcode, answers int, truncated bool) string {
	return fmt.Sprintf("rcode %s, %d answers and TC %t", dns.RcodeToString[rcode], answers, truncated)
}

// ednsSize is an OPT record without options.
const ednsSize = 11
