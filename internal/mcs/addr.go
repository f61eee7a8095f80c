package mcs

import "net/netip"

// UsableAddress reports whether an address may stand for an endpoint or a
// clusterset IP. Loopback, link-local, multicast, broadcast, unspecified,
// v4-mapped and zoned addresses may not: Kubernetes refuses them on endpoints, and a peer is
// another trust domain that must not point names at this machine or at a
// metadata service. The reason is for a log line and is empty when usable.
func UsableAddress(a netip.Addr) (ok bool, reason string) {
	switch {
	case !a.IsValid():
		return false, "not an IP address"
	case a.Zone() != "":
		return false, "an address with a zone"
	case a.Is4In6():
		return false, "an IPv4-mapped IPv6 address"
	case a.IsUnspecified():
		return false, "the unspecified address"
	case a.IsLoopback():
		return false, "a loopback address"
	case a.IsLinkLocalUnicast():
		return false, "a link-local address"
	case a.IsMulticast():
		return false, "a multicast address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return false, "the broadcast address"
	}
	return true, ""
}
