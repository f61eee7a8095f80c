package zone

import (
	"bytes"
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseReverse reads an absolute name in in-addr.arpa. or ip6.arpa., the trees
// of reverse names (RFC 1035 3.5, RFC 3596 2.5), as the prefix whose addresses
// lie at and below it; the tree itself is the prefix of all. ok is false when no
// address has such a name.
func ParseReverse(name string) (prefix netip.Prefix, ok bool) {
	name = lower(name)
	if rel, in := Cut(name, "in-addr.arpa."); in {
		return parseReverse(rel, 4, 8, 10, 3)
	}
	if rel, in := Cut(name, "ip6.arpa."); in {
		return parseReverse(rel, 32, 4, 16, 1)
	}
	return netip.Prefix{}, false
}

// parseReverse reads at most labels numbers of so many bits each, the first one
// last, written in the given base without leading zeros.
func parseReverse(rel string, labels, bits, base, maxDigits int) (prefix netip.Prefix, ok bool) {
	var addr [16]byte
	n := 0
	for ; rel != ""; n++ {
		dot := strings.LastIndexByte(rel, '.')
		label := rel[dot+1:]
		if n == labels || label == "" || len(label) > maxDigits || (len(label) > 1 && label[0] == '0') {
			return netip.Prefix{}, false
		}
		number, err := strconv.ParseUint(label, base, bits)
		if err != nil {
			return netip.Prefix{}, false
		}
		if bits == 8 {
			addr[n] = byte(number) //nolint:gosec // ParseUint has seen to it
		} else {
			addr[n/2] |= byte(number) << (4 * (1 - n%2)) //nolint:gosec // ParseUint has seen to it
		}
		if dot == 0 { // an empty label
			return netip.Prefix{}, false
		}
		rel = rel[:max(dot, 0)]
	}
	if labels == 4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(addr[:])), n*bits), true
	}
	return netip.PrefixFrom(netip.AddrFrom16(addr), n*bits), true
}

// ReverseName is the absolute reverse name of an address.
func ReverseName(addr netip.Addr) string {
	var name []byte
	if addr.Is4() {
		octets := addr.As4()
		for _, b := range slices.Backward(octets[:]) {
			name = append(strconv.AppendUint(name, uint64(b), 10), '.')
		}
		return string(name) + "in-addr.arpa."
	}
	const digits = "0123456789abcdef"
	octets := addr.As16()
	for _, b := range slices.Backward(octets[:]) {
		name = append(name, digits[b&15], '.', digits[b>>4], '.')
	}
	return string(name) + "ip6.arpa."
}

// Reverse answers a question for the name of a prefix, as [ParseReverse] reads
// it. A whole address has the names that lead to it, under the first origin; a
// shorter prefix exists and holds nothing while such an address lies in it.
// It allocates nothing.
func (z *Zone) Reverse(prefix netip.Prefix, t Type) Answer {
	at := pointer{address: prefix.Masked().Addr()}
	chunk, i := z.reverse.find(at)
	if chunk == len(z.reverse) || !prefix.Contains(z.reverse[chunk][i].address) {
		return Answer{}
	}
	if t != TypePTR || !prefix.IsSingleIP() {
		return Answer{Result: NoData}
	}
	return z.ReverseOf(at.address)
}

// ReverseOf is the PTR answer of an address that is known to have one.
func (z *Zone) ReverseOf(addr netip.Addr) Answer {
	return Answer{Result: Records, pointers: pointers{zone: z, address: addr}}
}

// pointers are the PTR records of an address.
type pointers struct {
	zone    *Zone
	address netip.Addr
}

// PTR are the absolute names of a reverse answer.
func (a *Answer) PTR() iter.Seq[string] {
	return func(yield func(string) bool) {
		z, addr := a.pointers.zone, a.pointers.address
		if z == nil {
			return
		}
		for chunk, i := z.reverse.find(pointer{address: addr}); chunk < len(z.reverse); i++ {
			if i == len(z.reverse[chunk]) {
				chunk, i = chunk+1, -1
				continue
			}
			p := z.reverse[chunk][i]
			if p.address != addr || !z.pointedAt(p, yield) {
				return
			}
		}
	}
}

// pointedAt yields the names of a service's hosts that have an address.
func (z *Zone) pointedAt(p pointer, yield func(string) bool) bool {
	s := z.service(p.service)
	if len(s.hosts.names) == 0 {
		return true
	}
	for i := range s.hosts.ends {
		if s.headless && s.hosts.cluster(i) == z.local {
			continue
		}
		addrs := s.hosts.addressesOf(i)
		if addrs.contains(p.address) && !yield(s.hosts.name(i, 0)) {
			return false
		}
	}
	return true
}

func (a *addresses) contains(addr netip.Addr) bool {
	if addr.Is4() {
		return slices.Contains(a.v4, addr.As4())
	}
	return slices.Contains(a.v6, addr.As16())
}

// reverse lists the addresses that reverse names are answered for, in order, in
// chunks that zones share: a change copies the list of chunks and the chunks
// that it is in. The host's name is looked for in the service when it is asked
// for, so that a change of one endpoint touches the list once.
type reverse [][]pointer

// pointer says that an address belongs to a service, "S.N".
type pointer struct {
	address netip.Addr
	service string
}

func (p pointer) compare(o pointer) int {
	return cmp.Or(p.address.Compare(o.address), cmp.Compare(p.service, o.service))
}

// maxChunk is the greatest length of a chunk: 20 KiB.
const maxChunk = 512

// find is the place of the first pointer that is not before p; chunk is
// len(r) when there is none.
func (r reverse) find(p pointer) (chunk, i int) {
	chunk, _ = slices.BinarySearchFunc(r, p, func(c []pointer, p pointer) int { return c[len(c)-1].compare(p) })
	if chunk < len(r) {
		i, _ = slices.BinarySearchFunc(r[chunk], p, pointer.compare)
	}
	return chunk, i
}

// reverseEdit gathers what services gain and lose.
type reverseEdit struct{ add, remove []pointer }

// change takes in that a service turns from one state into another; nil stands
// for none.
func (e *reverseEdit) change(name string, from, to *service) {
	var none service
	from, to = cmp.Or(from, &none), cmp.Or(to, &none)
	if from.reverse.equal(&to.reverse) {
		return
	}
	e.remove = appendPointers(e.remove, name, &from.reverse, &to.reverse)
	e.add = appendPointers(e.add, name, &to.reverse, &from.reverse)
}

// appendPointers appends a pointer for each address of has that lacks does not have.
func appendPointers(to []pointer, name string, has, lacks *addresses) []pointer {
	for _, a := range has.v4 {
		if _, found := slices.BinarySearchFunc(lacks.v4, a, func(b, a [4]byte) int { return bytes.Compare(b[:], a[:]) }); !found {
			to = append(to, pointer{netip.AddrFrom4(a), name})
		}
	}
	for _, a := range has.v6 {
		if _, found := slices.BinarySearchFunc(lacks.v6, a, func(b, a [16]byte) int { return bytes.Compare(b[:], a[:]) }); !found {
			to = append(to, pointer{netip.AddrFrom16(a), name})
		}
	}
	return to
}

// edited is the list after an edit; r stays as it is.
func (r reverse) edited(e *reverseEdit) reverse {
	add, remove := e.add, e.remove
	if len(add) == 0 && len(remove) == 0 {
		return r
	}
	slices.SortFunc(add, pointer.compare)
	slices.SortFunc(remove, pointer.compare)
	if len(r) == 0 {
		return reverse(nil).with(add)
	}
	next := make(reverse, 0, len(r)+1)
	for i, chunk := range r {
		nAdd, nRemove := len(add), len(remove)
		if i+1 < len(r) {
			nAdd, _ = slices.BinarySearchFunc(add, r[i+1][0], pointer.compare)
			nRemove, _ = slices.BinarySearchFunc(remove, r[i+1][0], pointer.compare)
		}
		if nAdd == 0 && nRemove == 0 {
			next = append(next, chunk)
			continue
		}
		chunk = slices.Concat(chunk, add[:nAdd])
		slices.SortFunc(chunk, pointer.compare)
		gone := remove[:nRemove]
		chunk = slices.DeleteFunc(chunk, func(p pointer) bool {
			_, found := slices.BinarySearchFunc(gone, p, pointer.compare)
			return found
		})
		next = next.with(chunk)
		add, remove = add[nAdd:], remove[nRemove:]
	}
	return next
}

// with appends what comes after all of r: to its last chunk, if both are small,
// else as chunks of their own. r is overwritten.
func (r reverse) with(list []pointer) reverse {
	if last := len(r) - 1; last >= 0 && len(r[last])+len(list) <= maxChunk/2 {
		r[last] = slices.Concat(r[last], list)
		return r
	}
	if len(list) > 0 {
		pieces := (len(list) + maxChunk - 1) / maxChunk
		for piece := range slices.Chunk(list, (len(list)+pieces-1)/pieces) {
			r = append(r, slices.Clone(piece))
		}
	}
	return r
}
