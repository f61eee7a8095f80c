package zone

import (
	"net/netip"
	"slices"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Options do not change during the life of a [Builder].
type Options struct {
	// Origins are the zones that names are asked under: at least one, absolute,
	// lower case. SRV targets are built for each.
	Origins []string
	// Nameservers are the addresses of ns.dns.Z.
	Nameservers []netip.Addr
	// Local is the id of the cluster that the zone is served in, empty when it
	// is not known. Reverse names of its endpoints are never answered.
	Local mcs.ClusterID
	// PreferLocal answers a headless name with the endpoints of Local while it
	// has any; the names of all hosts stay.
	PreferLocal bool
	// HideEmpty takes a ClusterSetIP import without a ready endpoint for one that
	// does not exist.
	HideEmpty bool
	// Reverse keeps what [Zone.Reverse] needs.
	Reverse bool
}

// Import is what a ServiceImport says that matters to DNS.
type Import struct {
	Key      mcs.ServiceKey
	Headless bool
	// Addresses are the clusterset IPs; of a headless import they are ignored.
	Addresses []netip.Addr
	// Ports of a headless import are ignored: each endpoint has those of its slice.
	Ports []Port
}

// equal reports whether two imports give the same answers.
func (i Import) equal(o Import) bool {
	return i.Key == o.Key && i.Headless == o.Headless &&
		slices.Equal(i.Addresses, o.Addresses) && slices.Equal(i.Ports, o.Ports)
}

// Slice is what an imported EndpointSlice says that matters to DNS. Its
// identity is its namespace and Name, as in the API: endpoints move between
// slices, and a slice may move to another service.
type Slice struct {
	Name    string
	Service mcs.ServiceKey
	Cluster mcs.ClusterID
	Ports   []Port
	// Endpoints are the ready ones.
	Endpoints []Endpoint
}

func (s Slice) key() sliceKey { return sliceKey{s.Service.Namespace, s.Name} }

// equal reports whether two slices give the same answers.
func (s Slice) equal(o Slice) bool {
	return s.Name == o.Name && s.Service == o.Service && s.Cluster == o.Cluster &&
		slices.Equal(s.Ports, o.Ports) && slices.Equal(s.Endpoints, o.Endpoints)
}

// Endpoint is one address of a ready endpoint.
type Endpoint struct {
	Address netip.Addr
	// Host is the endpoint's host name, a DNS label; empty gives a name made of the
	// address, see appendAddressHost.
	Host string
}

// appendHost appends the endpoint's own label.
func (e *Endpoint) appendHost(to []byte) []byte {
	if e.Host != "" {
		return append(to, e.Host...)
	}
	return appendAddressHost(to, e.Address)
}

// Port is a port of a ClusterSetIP import or of a slice.
type Port struct {
	// Name is empty for an unnamed port, which has no _P._T name.
	Name string
	// Protocol is "tcp", "udp" or "sctp".
	Protocol string
	Number   uint16
}

// owner is "_P._T", or empty when the port has no such name: it is unnamed, or
// its name cannot be a label after an underscore.
func (p Port) owner() string {
	name := lower(p.Name)
	if !IsLabel(name) || len(name) == maxLabel {
		return ""
	}
	return "_" + name + "._" + p.Protocol
}

const (
	maxLabel = 63
	// maxName is the length of the longest absolute name in presentation form:
	// 255 octets on the wire (RFC 1035 2.3.4), 253 characters and the last dot.
	maxName = 254
)

// IsLabel reports whether s is a host name label as Kubernetes writes it: 1 to
// 63 lower-case letters, digits or '-', none at either end.
func IsLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// appendAddressHost appends the label of an endpoint without a host name: its address in
// canonical form (RFC 5952) with dots and colons turned into dashes. A label
// neither begins nor ends with a dash (RFC 1123 2.1), so "::" at an end gets a 0.
func appendAddressHost(to []byte, a netip.Addr) []byte {
	begin := len(to)
	to = a.AppendTo(to)
	if to[begin] == ':' {
		to = slices.Insert(to, begin, '0')
	}
	for i := begin; i < len(to); i++ {
		if to[i] == '.' || to[i] == ':' {
			to[i] = '-'
		}
	}
	if to[len(to)-1] == '-' {
		to = append(to, '0')
	}
	return to
}
