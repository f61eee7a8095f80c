package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Decode checks the checksums and reads the header. The errors are
// [ErrTruncated], [ErrDamaged] and [ErrVersion].
func Decode(b []byte) (*Snapshot, error) {
	if len(b) < headSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrTruncated, len(b))
	}
	if crc32.Checksum(b[:headSize-4], castagnoli) != binary.BigEndian.Uint32(b[headSize-4:]) || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: the first %d bytes", ErrDamaged, headSize)
	}
	if v := binary.BigEndian.Uint32(b[len(magic):]); v != version {
		return nil, fmt.Errorf("%w: its format is %d, and this one reads %d", ErrVersion, v, version)
	}
	have, want := uint64(len(b)-headSize), binary.BigEndian.Uint64(b[len(magic)+4:])+uint64(checkSize) //nolint:gosec // not negative
	switch {
	case have < want:
		return nil, fmt.Errorf("%w: %d bytes of %d are there", ErrTruncated, len(b), want+uint64(headSize))
	case have > want:
		return nil, fmt.Errorf("%w: more bytes follow its end", ErrDamaged)
	}
	end := len(b) - checkSize
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return nil, ErrDamaged
	}
	r := reader{rest: string(b[headSize:end])}
	s := &Snapshot{Header: r.header()}
	s.inputs = r.rest
	if r.failed {
		return nil, fmt.Errorf("%w: its header makes no sense", ErrDamaged)
	}
	return s, nil
}

// Inputs decodes the inputs; their texts share the bytes of the file. The only
// error is [ErrDamaged].
func (s *Snapshot) Inputs() (*Inputs, error) {
	r := reader{rest: s.inputs}
	in := &Inputs{}
	const smallestImport, smallestSlice = 5, 6
	in.Imports = list(&r, smallestImport, r.readImport)
	in.Slices = list(&r, smallestSlice, r.readSlice)
	if r.failed || r.rest != "" {
		return nil, fmt.Errorf("%w: its contents make no sense", ErrDamaged)
	}
	return in, nil
}

// reader takes fields off the front of a body. After a failure it gives zeros.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) fail() { r.rest, r.failed = "", true }

func (r *reader) header() (h Header) {
	h.Cluster = r.text()
	h.Zones = list(r, 1, r.text)
	h.Namespaces = list(r, 1, r.text)
	h.PodNames = r.bool()
	h.Taken = time.Unix(0, r.signed())
	h.Serial = uint32(r.number(math.MaxUint32)) //nolint:gosec // bounded
	return h
}

func (r *reader) readImport() (in zone.Import) {
	in.Key = mcs.ServiceKey{Namespace: r.text(), Name: r.text()}
	in.Headless = r.bool()
	in.Addresses = list(r, 5, r.address)
	in.Ports = r.ports()
	return in
}

func (r *reader) readSlice() (in zone.Slice) {
	in.Service = mcs.ServiceKey{Namespace: r.text(), Name: r.text()}
	in.Name = r.text()
	in.Cluster = mcs.ClusterID(r.text())
	in.Ports = r.ports()
	in.Endpoints = list(r, 6, func() zone.Endpoint { return zone.Endpoint{Address: r.address(), Host: r.text()} })
	return in
}

func (r *reader) ports() []zone.Port {
	return list(r, 3, func() zone.Port {
		return zone.Port{Name: r.text(), Protocol: r.text(), Number: uint16(r.number(math.MaxUint16))} //nolint:gosec // bounded
	})
}

// list reads a list whose elements have at least size bytes each, so that no
// more room is made than the body can fill.
func list[T any](r *reader, size int, element func() T) []T {
	n := r.number(uint64(len(r.rest) / size)) //nolint:gosec // not negative
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for i := uint64(0); i < n && !r.failed; i++ {
		out = append(out, element())
	}
	return out
}

// number reads a number up to a limit.
func (r *reader) number(limit uint64) uint64 {
	var n uint64
	for i, shift := 0, 0; i < len(r.rest) && i < binary.MaxVarintLen64; i, shift = i+1, shift+7 {
		c := r.rest[i]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if n > limit {
				break
			}
			r.rest = r.rest[i+1:]
			return n
		}
	}
	r.fail()
	return 0
}

// signed reads a number that may be negative, in zigzag form.
func (r *reader) signed() int64 {
	n := r.number(math.MaxUint64)
	return int64(n>>1) ^ -int64(n&1)
}

func (r *reader) text() string {
	n := r.number(math.MaxInt32)
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) bool() bool { return r.number(1) == 1 }

func (r *reader) address() netip.Addr {
	switch s := r.text(); len(s) {
	case 4:
		return netip.AddrFrom4([4]byte([]byte(s)))
	case 16:
		return netip.AddrFrom16([16]byte([]byte(s)))
	}
	r.fail()
	return netip.Addr{}
}
