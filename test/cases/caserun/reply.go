package caserun

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// reply is what came back, as it was on the wire.
type reply struct {
	*dns.Msg
	size int // octets of the message
	took time.Duration
}

// askTimeout bounds the wait for one reply.
const askTimeout = 5 * time.Second

// ask sends a question to a server and reads one message.
func ask(ctx context.Context, q Query, addr string) (*reply, error) {
	message := new(dns.Msg)
	message.SetQuestion(q.Name, dns.StringToType[q.Type])
	if q.Class != "" {
		message.Question[0].Qclass = dns.StringToClass[q.Class]
	}
	if q.EDNSBufsize != nil || q.EDNSCookie != "" {
		size := dns.DefaultMsgSize
		if q.EDNSBufsize != nil {
			size = *q.EDNSBufsize
		}
		message.SetEdns0(uint16(min(max(size, 0), 65535)), false)
		if q.EDNSCookie != "" {
			if _, err := hex.DecodeString(q.EDNSCookie); err != nil {
				return nil, fmt.Errorf("edns_cookie: %w", err)
			}
			option := message.IsEdns0()
			option.Option = append(option.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: q.EDNSCookie})
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack question: %w", err)
	}
	network := "udp"
	if q.Proto != "" {
		network = q.Proto
	}
	begin := time.Now()
	raw, err := exchange(ctx, network, addr, packed)
	if err != nil {
		return nil, fmt.Errorf("ask over %s: %w", network, err)
	}
	r := &reply{Msg: new(dns.Msg), size: len(raw), took: time.Since(begin)}
	if err := r.Unpack(raw); err != nil {
		return nil, fmt.Errorf("the reply of %d octets is not a DNS message: %w", len(raw), err)
	}
	if r.Id != message.Id || !r.Response || len(r.Question) != 1 || r.Question[0] != message.Question[0] {
		return nil, fmt.Errorf("the reply does not belong to the question:\n%s", r)
	}
	return r, nil
}

func exchange(ctx context.Context, network, addr string, packed []byte) ([]byte, error) {
	conn, err := (&net.Dialer{Timeout: askTimeout}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return nil, err
	}
	if network == "udp" {
		if _, err := conn.Write(packed); err != nil {
			return nil, err
		}
		buffer := make([]byte, 1<<16)
		n, err := conn.Read(buffer)
		return buffer[:n], err
	}
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(packed))) //nolint:gosec // a question is short
	if _, err := conn.Write(append(framed, packed...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	buffer := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err = io.ReadFull(conn, buffer)
	return buffer, err
}

// record is a resource record as cases write it: name, type and fields of data.
type record []string

// recordOf is the record without class and TTL.
func recordOf(rr dns.RR) record {
	h := rr.Header()
	return append(record{h.Name, dns.TypeToString[h.Rrtype]}, strings.Fields(strings.TrimPrefix(rr.String(), h.String()))...)
}

func (r record) String() string { return strings.Join(r, " ") }

// data is the record's data alone.
func (r record) data() string { return strings.Join(r[min(2, len(r)):], " ") }

// matches compares with a pattern, in which "*" in the data is any one field.
// Case counts in the owner's name only if asked for, and in text always.
func (r record) matches(pattern record, exactCase bool) bool {
	if len(r) != len(pattern) || len(r) < 2 || r[1] != pattern[1] {
		return false
	}
	if r[0] != pattern[0] && (exactCase || !strings.EqualFold(r[0], pattern[0])) {
		return false
	}
	for i := 2; i < len(r); i++ {
		if pattern[i] == "*" || r[i] == pattern[i] {
			continue
		}
		if r[1] == "TXT" || !strings.EqualFold(address(r[i]), address(pattern[i])) {
			return false
		}
	}
	return true
}

// address is the canonical form of what may be an IP address.
func address(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.String()
	}
	return text
}

// records are the answer section.
func (r *reply) records() []record {
	list := make([]record, 0, len(r.Answer))
	for _, rr := range r.Answer {
		list = append(list, recordOf(rr))
	}
	return list
}

// sorted is the answer section for comparing and showing.
func (r *reply) sorted() []string {
	var lines []string
	for _, rec := range r.records() {
		lines = append(lines, rec.String())
	}
	slices.Sort(lines)
	return lines
}

// duplicates are records that are there twice in one section.
func duplicates(section []dns.RR) []string {
	seen := map[string]bool{}
	var twice []string
	for _, rr := range section {
		if rr.Header().Rrtype == dns.TypeOPT {
			continue
		}
		key := strings.ToLower(recordOf(rr).String())
		if seen[key] {
			twice = append(twice, key)
		}
		seen[key] = true
	}
	return twice
}

// names are all names in a reply, of owners and in data.
func (r *reply) names() []string {
	var names []string
	for _, section := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range section {
			names = append(names, rr.Header().Name)
			switch v := rr.(type) {
			case *dns.SRV:
				names = append(names, v.Target)
			case *dns.PTR:
				names = append(names, v.Ptr)
			case *dns.NS:
				names = append(names, v.Ns)
			case *dns.CNAME:
				names = append(names, v.Target)
			case *dns.SOA:
				names = append(names, v.Ns, v.Mbox)
			}
		}
	}
	return names
}
