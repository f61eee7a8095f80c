package k8smcs

import (
	"math/rand/v2"
	"sync"

	"github.com/miekg/dns"
)

// reply is a message with the room for what most answers hold. All that a
// query allocates is in it.
type reply struct {
	msg      dns.Msg
	question [1]dns.Question
	answer   []dns.RR
	a        []recordA
	aaaa     []recordAAAA
	pooled   bool
}

// recordA is an A record with its address.
type recordA struct {
	rr dns.A
	ip [4]byte
}

// recordAAAA is an AAAA record with its address.
type recordAAAA struct {
	rr dns.AAAA
	ip [16]byte
}

// replies are used again after they were sent, but only where nothing keeps
// what it is handed; see [sink].
var replies = sync.Pool{New: func() any { return &reply{pooled: true} }}

// maxPooled is the number of records of a reply that is worth keeping.
const maxPooled = 1024

func newReply(r *dns.Msg, rcode int, reuse bool) *reply {
	m := &reply{}
	if reuse {
		m = replies.Get().(*reply) //nolint:errcheck,forcetypeassert // it holds nothing else
	}
	m.question[0] = r.Question[0]
	m.msg = dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id:               r.Id,
			Response:         true,
			Opcode:           r.Opcode,
			Authoritative:    true,
			RecursionDesired: r.RecursionDesired,
			CheckingDisabled: r.CheckingDisabled,
			Rcode:            rcode,
		},
		Question: m.question[:],
	}
	return m
}

// release gives a reply back after it was sent.
func (m *reply) release() {
	if m.pooled && cap(m.answer) <= maxPooled {
		m.msg = dns.Msg{}
		replies.Put(m)
	}
}

// room makes place for n answers.
func (m *reply) room(n int) []dns.RR {
	if cap(m.answer) < n {
		m.answer = make([]dns.RR, 0, n)
	}
	return m.answer[:0]
}

// addA answers with an A record per address, in random order.
func (m *reply) addA(owner string, ttl uint32, addrs [][4]byte) {
	if cap(m.a) < len(addrs) {
		m.a = make([]recordA, len(addrs))
	}
	m.answer = appendA(m.room(len(addrs)), m.a[:len(addrs)], owner, ttl, addrs)
	m.msg.Answer = shuffled(m.answer)
}

// addAAAA is addA for IPv6.
func (m *reply) addAAAA(owner string, ttl uint32, addrs [][16]byte) {
	if cap(m.aaaa) < len(addrs) {
		m.aaaa = make([]recordAAAA, len(addrs))
	}
	m.answer = appendAAAA(m.room(len(addrs)), m.aaaa[:len(addrs)], owner, ttl, addrs)
	m.msg.Answer = shuffled(m.answer)
}

// appendA appends an A record per address; the records are made in slab.
func appendA(to []dns.RR, slab []recordA, owner string, ttl uint32, addrs [][4]byte) []dns.RR {
	for i := range addrs {
		rec := &slab[i]
		rec.ip = addrs[i]
		rec.rr = dns.A{Hdr: header(owner, dns.TypeA, ttl), A: rec.ip[:]}
		to = append(to, &rec.rr)
	}
	return to
}

// appendAAAA is appendA for IPv6.
func appendAAAA(to []dns.RR, slab []recordAAAA, owner string, ttl uint32, addrs [][16]byte) []dns.RR {
	for i := range addrs {
		rec := &slab[i]
		rec.ip = addrs[i]
		rec.rr = dns.AAAA{Hdr: header(owner, dns.TypeAAAA, ttl), AAAA: rec.ip[:]}
		to = append(to, &rec.rr)
	}
	return to
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// dice are random numbers for the order of answers: they spread load and guard
// nothing. One query takes one seed from the runtime, which has a generator for
// each thread and no lock.
type dice uint64

func newDice() dice { return dice(rand.Uint64() | 1) } //nolint:gosec // see above

// below is a number from 0 to n-1.
func (d *dice) below(n int) int {
	*d ^= *d << 13
	*d ^= *d >> 7
	*d ^= *d << 17
	return int((uint64(*d) >> 32) * uint64(n) >> 32) //nolint:gosec // n is the length of a list
}

// shuffled puts a list into random order (Fisher and Yates), so that clients
// which take the first spread over all, and a cut answer is any part of it.
func shuffled[T any](list []T) []T {
	if len(list) < 2 {
		return list
	}
	d := newDice()
	for i := len(list) - 1; i > 0; i-- {
		j := d.below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
	return list
}
