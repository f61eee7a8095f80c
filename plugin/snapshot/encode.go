package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	magic     = "k8smcs\x00\x00"
	version   = 1
	headSize  = len(magic) + 4 + 8 + 4
	checkSize = sha256.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The body is a row of fields. A number is a varint; a text, a list and an
// address have their length before them, each as a number.

// Encode writes a snapshot. The inputs must not change meanwhile.
func Encode(h *Header, in *Inputs) []byte {
	b := make([]byte, headSize, estimate(in))
	b = appendHeader(b, h)
	b = appendInputs(b, in)

	return seal(b)
}

// seal fills the head before a body, and appends the checksum.
func seal(b []byte) []byte {
	head := b[:headSize]
	copy(head, magic)
	binary.BigEndian.PutUint32(head[len(magic):], version)
	binary.BigEndian.PutUint64(head[len(magic)+4:], uint64(len(b)-headSize)) //nolint:gosec // not negative
	binary.BigEndian.PutUint32(head[headSize-4:], crc32.Checksum(head[:headSize-4], castagnoli))

	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// estimate is about how many bytes there will be.
func estimate(in *Inputs) int {
	n := 1024 + 100*len(in.Imports)
	for i := range in.Slices {
		n += 120 + 24*len(in.Slices[i].Endpoints)
	}
	return n
}

func appendHeader(b []byte, h *Header) []byte {
	b = appendText(b, h.Cluster)
	b = appendTexts(b, h.Zones)
	b = appendTexts(b, h.Namespaces)
	b = appendBool(b, h.PodNames)
	b = binary.AppendVarint(b, h.Taken.UnixNano())
	return binary.AppendUvarint(b, uint64(h.Serial))
}

func appendInputs(b []byte, in *Inputs) []byte {
	b = binary.AppendUvarint(b, uint64(len(in.Imports)))
	for i := range in.Imports {
		b = appendImport(b, &in.Imports[i])
	}
	b = binary.AppendUvarint(b, uint64(len(in.Slices)))
	for i := range in.Slices {
		b = appendSlice(b, &in.Slices[i])
	}
	return b
}

func appendImport(b []byte, in *zone.Import) []byte {
	b = appendText(b, in.Key.Namespace)
	b = appendText(b, in.Key.Name)
	b = appendBool(b, in.Headless)
	b = binary.AppendUvarint(b, uint64(len(in.Addresses)))
	for _, a := range in.Addresses {
		b = appendText(b, a.AsSlice())
	}
	return appendPorts(b, in.Ports)
}

func appendSlice(b []byte, in *zone.Slice) []byte {
	b = appendText(b, in.Service.Namespace)
	b = appendText(b, in.Service.Name)
	b = appendText(b, in.Name)
	b = appendText(b, in.Cluster)
	b = appendPorts(b, in.Ports)
	b = binary.AppendUvarint(b, uint64(len(in.Endpoints)))
	for i := range in.Endpoints {
		b = appendText(b, in.Endpoints[i].Address.AsSlice())
		b = appendText(b, in.Endpoints[i].Host)
	}
	return b
}

func appendPorts(b []byte, ports []zone.Port) []byte {
	b = binary.AppendUvarint(b, uint64(len(ports)))
	for _, p := range ports {
		b = appendText(b, p.Name)
		b = appendText(b, p.Protocol)
		b = binary.AppendUvarint(b, uint64(p.Number))
	}
	return b
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
