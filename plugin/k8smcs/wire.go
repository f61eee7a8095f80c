package k8smcs

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/coredns/coredns/plugin/pkg/edns"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// This file sends records as bytes: what WriteMsg would send, without records in
// between. With hundreds of endpoints, making, measuring and packing records is
// nearly all that a query costs.

// packet is the room for one answer.
type packet struct {
	bytes []byte
	limit int // of bytes, without what the OPT record needs
	v4    [][4]byte
	v6    [][16]byte
	order []int // of SRV records
	at    []int // where the target of each SRV record begins
	owner []byte
}

var packets = sync.Pool{New: func() any { return &packet{} }}

const (
	sizeHeader = 12
	sizeFixed  = 10 // of a record, without its owner and its data
	sizeSRV    = 6  // of the data of an SRV record, without the target
	sizeOPT    = 11
	sizeSerial = 20 // of the end of an SOA record: the serial and four numbers more

	// maxDatagram is what UDP over IPv4 carries: 64 KiB without the headers.
	maxDatagram = 65535 - 20 - 8
	// maxPointer is the last place that a pointer to a name reaches (RFC 1035 4.1.4).
	maxPointer = 1<<14 - 1
)

// The bits of the third and fourth byte of a message (RFC 1035 4.1.1, RFC 4035 3).
const (
	flagQR uint16 = 1 << 15
	flagAA uint16 = 1 << 10
	flagTC uint16 = 1 << 9
	flagRD uint16 = 1 << 8
	flagCD uint16 = 1 << 4
)

// sendBytes sends an answer to the socket. ok is false when that is not
// possible, and nothing was sent then.
func (p *Plugin) sendBytes(to *sink, r *dns.Msg, z *authority, a *zone.Answer, serial uint32) (ok bool, rcode int, err error) {
	opt, plain := optOf(r)
	if !plain {
		return false, 0, nil
	}
	pk := packets.Get().(*packet) //nolint:errcheck,forcetypeassert // it holds nothing else
	defer packets.Put(pk)
	plainSize, rcode, err := p.packet(pk, r, opt, z, a, serial, maxSize(to.socket, opt))
	if plainSize == 0 || err != nil {
		return false, 0, err
	}
	if to.recorder != nil {
		// What WriteMsg of the recorder notes.
		to.recorder.Rcode = rcode
		to.recorder.Len += plainSize
		to.recorder.SetPlugin(pluginName)
	}
	_, err = to.socket.Write(pk.bytes)
	return true, rcode, err
}

// packet writes an answer that fits into limit. plainSize is the size of all of
// it without compression and OPT record; 0 stands for an answer that has to be
// made as a message.
func (p *Plugin) packet(pk *packet, r *dns.Msg, opt *dns.OPT, z *authority, a *zone.Answer, serial uint32, limit int) (plainSize, rcode int, err error) {
	denies := a.Result == zone.NameError || a.Result == zone.NoData && r.Question[0].Qtype != dns.TypeANY
	if !denies && a.V4 == nil && a.V6 == nil && a.SRV == nil {
		return 0, 0, nil
	}
	if err := pk.begin(r, opt, limit); err != nil {
		return 0, 0, err
	}
	plainSize = len(pk.bytes)
	if !denies {
		plainSize += sizeOf(plainSize-sizeHeader-4, a)
		return plainSize, dns.RcodeSuccess, pk.answer(r, opt, a, p.ttl)
	}
	if a.Result == zone.NameError {
		rcode = dns.RcodeNameError
	}
	if !pk.deny(r, opt, z.soa, serial, rcode) {
		return 0, 0, nil
	}
	return plainSize + len(z.soa), rcode, nil
}

// optOf is the OPT record of a query, nil without one. plain is false for a
// query with options or other additional records: CoreDNS answers some of them.
func optOf(r *dns.Msg) (opt *dns.OPT, plain bool) {
	switch len(r.Extra) {
	case 0:
		return nil, true
	case 1:
		opt, ok := r.Extra[0].(*dns.OPT)
		return opt, ok && len(opt.Option) == 0
	}
	return nil, false
}

// maxSize is the length of the longest message that the client takes.
func maxSize(w dns.ResponseWriter, opt *dns.OPT) int {
	if _, ok := w.RemoteAddr().(*net.UDPAddr); !ok {
		return dns.MaxMsgSize
	}
	size := uint16(0)
	if opt != nil {
		size = opt.UDPSize()
	}
	return min(int(edns.Size("udp", size)), maxDatagram)
}

// sizeOf is the size of an answer's records without compression; name is that
// of the owner.
func sizeOf(name int, a *zone.Answer) int {
	size := len(a.V4)*(name+sizeFixed+4) + len(a.V6)*(name+sizeFixed+16)
	for i, srv := range a.SRV {
		target := len(a.Target(srv)) + 1
		size += name + sizeFixed + sizeSRV + target
		if v4, v6, again := a.TargetAddresses(i); a.Additional && !again {
			size += len(v4)*(target+sizeFixed+4) + len(v6)*(target+sizeFixed+16)
		}
	}
	return size
}

// begin writes the question and leaves room for the header.
func (pk *packet) begin(r *dns.Msg, opt *dns.OPT, limit int) error {
	b := slices.Grow(pk.bytes[:0], sizeHeader+len(r.Question[0].Name)+1+4)
	b = b[:cap(b)]
	clear(b[:sizeHeader])
	end, err := dns.PackDomainName(r.Question[0].Name, b, sizeHeader, nil, false)
	if err != nil {
		return fmt.Errorf("pack question: %w", err)
	}
	b = binary.BigEndian.AppendUint16(b[:end], r.Question[0].Qtype)
	pk.bytes = binary.BigEndian.AppendUint16(b, r.Question[0].Qclass)
	pk.limit = limit
	if opt != nil {
		pk.limit -= sizeOPT
	}
	return nil
}

// finish writes the OPT record and the header. A message has fewer than 64 Ki
// records.
func (pk *packet) finish(r *dns.Msg, opt *dns.OPT, rcode, answers, authority, additional int, whole bool) {
	if opt != nil {
		additional++
		pk.bytes = append(pk.bytes, 0, 0, byte(dns.TypeOPT))
		pk.bytes = binary.BigEndian.AppendUint16(pk.bytes, opt.UDPSize())
		// Version 0 and the flag DO, as it was asked with.
		pk.bytes = binary.BigEndian.AppendUint32(pk.bytes, opt.Hdr.Ttl&0xff00)
		pk.bytes = append(pk.bytes, 0, 0)
	}
	flags := flagQR | flagAA | uint16(rcode) //nolint:gosec // one of 16
	if !whole {
		flags |= flagTC
	}
	if r.RecursionDesired {
		flags |= flagRD
	}
	if r.CheckingDisabled {
		flags |= flagCD
	}
	for i, v := range [6]uint16{r.Id, flags, 1, uint16(answers), uint16(authority), uint16(additional)} { //nolint:gosec // see above
		binary.BigEndian.PutUint16(pk.bytes[2*i:], v)
	}
}

// answer writes as many records as fit, any of them in any order.
func (pk *packet) answer(r *dns.Msg, opt *dns.OPT, a *zone.Answer, ttl uint32) (err error) {
	var (
		answers, additional int
		whole               bool
	)
	switch {
	case a.V4 != nil:
		pk.v4 = append(pk.v4[:0], a.V4...)
		answers, whole = addAddresses(pk, toQuestion, dns.TypeA, ttl, pk.v4)
	case a.V6 != nil:
		pk.v6 = append(pk.v6[:0], a.V6...)
		answers, whole = addAddresses(pk, toQuestion, dns.TypeAAAA, ttl, pk.v6)
	default:
		if answers, whole, err = pk.addSRV(a, ttl); err == nil && whole && a.Additional {
			additional, whole = pk.addTargets(a, ttl)
		}
	}
	pk.finish(r, opt, dns.RcodeSuccess, answers, 0, additional, whole)
	return err
}

// deny writes NXDOMAIN or NODATA; ok is false when it is too long.
func (pk *packet) deny(r *dns.Msg, opt *dns.OPT, soa []byte, serial uint32, rcode int) (ok bool) {
	if soa == nil || len(pk.bytes)+len(soa) > pk.limit {
		return false
	}
	pk.bytes = append(pk.bytes, soa...)
	binary.BigEndian.PutUint32(pk.bytes[len(pk.bytes)-sizeSerial:], serial)
	pk.finish(r, opt, rcode, 0, 1, 0, true)
	return true
}

// packed is a record as bytes, nil when it cannot be written so.
func packed(rr dns.RR) []byte {
	b := make([]byte, dns.MaxMsgSize)
	end, err := dns.PackRR(rr, b, 0, nil, false)
	if err != nil {
		return nil
	}
	return slices.Clone(b[:end])
}

// toQuestion points to the name of the question.
var toQuestion = []byte{0xc0, sizeHeader}

// record appends a record without its data.
func (pk *packet) record(owner []byte, rrtype uint16, ttl uint32, length int) {
	pk.bytes = append(pk.bytes, owner...)
	pk.bytes = binary.BigEndian.AppendUint16(pk.bytes, rrtype)
	pk.bytes = binary.BigEndian.AppendUint16(pk.bytes, dns.ClassINET)
	pk.bytes = binary.BigEndian.AppendUint32(pk.bytes, ttl)
	pk.bytes = binary.BigEndian.AppendUint16(pk.bytes, uint16(length)) //nolint:gosec // of one record
}

// addAddresses appends records for addresses of list, any of them in any order,
// and puts list into that order. whole is false when they do not all fit.
func addAddresses[T [4]byte | [16]byte](pk *packet, owner []byte, rrtype uint16, ttl uint32, list []T) (n int, whole bool) {
	d := newDice()
	for ; n < len(list); n++ {
		j := n + d.below(len(list)-n)
		list[n], list[j] = list[j], list[n]
		if len(pk.bytes)+len(owner)+sizeFixed+len(list[n]) > pk.limit {
			return n, false
		}
		pk.record(owner, rrtype, ttl, len(list[n]))
		for i := range len(list[n]) {
			pk.bytes = append(pk.bytes, list[n][i])
		}
	}
	return n, true
}

// addSRV is addAddresses for SRV records. Targets are written in full (RFC 2782).
func (pk *packet) addSRV(a *zone.Answer, ttl uint32) (n int, whole bool, err error) {
	pk.order, pk.at = pk.order[:0], pk.at[:0]
	for i := range a.SRV {
		pk.order, pk.at = append(pk.order, i), append(pk.at, 0)
	}
	d := newDice()
	for ; n < len(a.SRV); n++ {
		j := n + d.below(len(a.SRV)-n)
		pk.order[n], pk.order[j] = pk.order[j], pk.order[n]
		i := pk.order[n]
		target := a.Target(a.SRV[i])
		length := sizeSRV + len(target) + 1
		if len(pk.bytes)+len(toQuestion)+sizeFixed+length > pk.limit {
			return n, false, nil
		}
		pk.record(toQuestion, dns.TypeSRV, ttl, length)
		for _, v := range [3]uint16{srvPriority, srvWeight, a.SRV[i].Port} {
			pk.bytes = binary.BigEndian.AppendUint16(pk.bytes, v)
		}
		pk.at[i] = len(pk.bytes)
		b := slices.Grow(pk.bytes, len(target)+1)
		end, err := dns.PackDomainName(target, b[:cap(b)], len(b), nil, false)
		if err != nil {
			return n, false, fmt.Errorf("pack target: %w", err)
		}
		pk.bytes = b[:end]
	}
	return n, true, nil
}

// addTargets appends the addresses of all targets.
func (pk *packet) addTargets(a *zone.Answer, ttl uint32) (n int, whole bool) {
	for i := range a.SRV {
		v4, v6, again := a.TargetAddresses(i)
		if again {
			continue
		}
		if at := pk.at[i]; at <= maxPointer {
			pk.owner = append(pk.owner[:0], 0xc0|byte(at>>8), byte(at)) //nolint:gosec // see maxPointer
		} else {
			pk.owner = append(pk.owner[:0], pk.bytes[at:at+len(a.Target(a.SRV[i]))+1]...)
		}
		pk.v4, pk.v6 = append(pk.v4[:0], v4...), append(pk.v6[:0], v6...)
		n4, all := addAddresses(pk, pk.owner, dns.TypeA, ttl, pk.v4)
		if n += n4; !all {
			return n, false
		}
		n6, all := addAddresses(pk, pk.owner, dns.TypeAAAA, ttl, pk.v6)
		if n += n6; !all {
			return n, false
		}
	}
	return n, true
}
