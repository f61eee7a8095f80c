package zone

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// service is all that is answered at and below S.N.svc.Z. It never changes; a
// changed import or slice makes a new one. Every list is sorted, so that equal
// inputs give equal services in whatever order they came.
type service struct {
	headless   bool
	addresses  addresses // of S.N.svc.Z
	srv        []SRV     // of S.N.svc.Z
	ports      []port    // by owner
	hosts      hosts
	emptyNames []string  // names before S.N that exist and hold nothing: _T, and C of each host
	reverse    addresses // those whose reverse names lead here, when reverse names are kept
}

// addresses are the A and AAAA data of one name.
type addresses struct {
	v4 [][4]byte
	v6 [][16]byte
}

// port is a _P._T name.
type port struct {
	owner string
	srv   []SRV
}

// SRV is the part of an SRV record that differs from one to the next.
type SRV struct {
	host uint32
	Port uint16
}

func compareSRV(a, b SRV) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.Port, b.Port))
}

func sortSRV(s []SRV) []SRV {
	slices.SortFunc(s, compareSRV)
	return slices.Clip(slices.Compact(s))
}

// hosts are the names that SRV records point to, by name: H.C of a headless
// service, or the one of the ClusterSetIP service itself. There may be hundreds
// of thousands in all, so they are kept as a few flat lists.
type hosts struct {
	// ends says where each host's part of the lists below ends; it begins where
	// that of the host before ends.
	ends      []hostEnd
	addresses addresses
	// names holds, for each origin, the absolute names of all hosts on end, and
	// suffixes the part that they share: "S.N.svc.Z".
	names, suffixes []string
}

// hostEnd is a place behind a host: behind its "H.C." in the text of all of
// them, and behind its addresses.
type hostEnd struct{ left, v4, v6 uint32 }

func (h *hosts) begin(i int) hostEnd {
	if i == 0 {
		return hostEnd{}
	}
	return h.ends[i-1]
}

// name is the absolute name of a host under an origin.
func (h *hosts) name(i, origin int) string {
	suffix := len(h.suffixes[origin])
	return h.names[origin][int(h.begin(i).left)+i*suffix : int(h.ends[i].left)+(i+1)*suffix]
}

// left is H.C of a host.
func (h *hosts) left(i int) string {
	name := h.name(i, 0)
	return name[:max(0, len(name)-len(h.suffixes[0])-1)]
}

func (h *hosts) addressesOf(i int) addresses {
	from, to := h.begin(i), h.ends[i]
	return addresses{v4: h.addresses.v4[from.v4:to.v4:to.v4], v6: h.addresses.v6[from.v6:to.v6:to.v6]}
}

// find looks a host up by its H.C.
func (h *hosts) find(left string) (i int, ok bool) {
	return sort.Find(len(h.ends), func(i int) int { return strings.Compare(left, h.left(i)) })
}

// cluster is C of a host.
func (h *hosts) cluster(i int) mcs.ClusterID {
	_, cluster, _ := strings.Cut(h.left(i), ".")
	return mcs.ClusterID(cluster)
}

// Problem is something in the input that is left out of the answers.
type Problem struct {
	Service mcs.ServiceKey
	Detail  string
}

func (s *service) equal(o *service) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.headless == o.headless &&
		s.addresses.equal(&o.addresses) && s.reverse.equal(&o.reverse) &&
		slices.Equal(s.srv, o.srv) &&
		slices.EqualFunc(s.ports, o.ports, func(a, b port) bool { return a.owner == b.owner && slices.Equal(a.srv, b.srv) }) &&
		slices.Equal(s.hosts.ends, o.hosts.ends) && s.hosts.addresses.equal(&o.hosts.addresses) &&
		slices.Equal(s.hosts.names, o.hosts.names) &&
		slices.Equal(s.emptyNames, o.emptyNames)
}

func (a *addresses) equal(o *addresses) bool {
	return slices.Equal(a.v4, o.v4) && slices.Equal(a.v6, o.v6)
}

// add appends an address; the callers add in order.
func (a *addresses) add(addr netip.Addr) {
	if addr.Is4() {
		a.v4 = append(a.v4, addr.As4())
	} else {
		a.v6 = append(a.v6, addr.As16())
	}
}

// distinct is the set of addrs as A and AAAA data; addrs is sorted in place.
func distinct(addrs []netip.Addr) addresses {
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	n4, _ := slices.BinarySearchFunc(addrs, 33, func(a netip.Addr, bits int) int { return cmp.Compare(a.BitLen(), bits) })
	var a addresses
	if n4 > 0 {
		a.v4 = make([][4]byte, 0, n4)
	}
	if n4 < len(addrs) {
		a.v6 = make([][16]byte, 0, len(addrs)-n4)
	}
	for _, addr := range addrs {
		a.add(addr)
	}
	return a
}

// buildClusterSetIP answers KEP-1645 DNS specification 2.3: the addresses and
// ports of the import, whatever its endpoints are. It returns nil when they
// count and there are none.
func buildClusterSetIP(imp Import, in []*Slice, opts *Options) (*service, []Problem) {
	if opts.HideEmpty && !slices.ContainsFunc(in, func(s *Slice) bool { return len(s.Endpoints) > 0 }) {
		return nil, nil
	}
	s := &service{addresses: distinct(slices.Clone(imp.Addresses))}
	names := make([]string, len(opts.Origins))
	for o, origin := range opts.Origins {
		names[o] = serviceName(imp.Key, origin)
		if len(names[o]) > maxName {
			return s, []Problem{tooLong(imp.Key, names[o])}
		}
	}
	s.hosts = hosts{
		ends:      []hostEnd{{v4: count(s.addresses.v4), v6: count(s.addresses.v6)}},
		addresses: s.addresses, names: names, suffixes: names,
	}
	if opts.Reverse {
		s.reverse = s.addresses
	}
	ports := portSet{}
	for _, p := range imp.Ports {
		ports.add(p, 0)
	}
	s.srv, s.ports, s.emptyNames = ports.build(nil)
	return s, nil
}

// serviceName is "S.N.svc.Z".
func serviceName(key mcs.ServiceKey, origin string) string {
	if origin == "." {
		origin = ""
	}
	return key.Name + "." + key.Namespace + ".svc." + origin
}

func tooLong(key mcs.ServiceKey, name string) Problem {
	return Problem{Service: key, Detail: fmt.Sprintf(
		"the name %s has %d characters, and a DNS name has at most %d: no SRV record points to it; shorten the host name or the cluster id",
		name, len(name)-1, maxName-1)}
}

// portSet gathers SRV records by owner.
type portSet map[string][]SRV

// add notes that host h has port p. The empty owner stands for the service
// itself, which has every port, unnamed ones too.
func (s portSet) add(p Port, h uint32) {
	record := SRV{host: h, Port: p.Number}
	s[""] = append(s[""], record)
	if owner := p.owner(); owner != "" {
		s[owner] = append(s[owner], record)
	}
}

// build sorts what was gathered and drops duplicates, and of each owner's
// records those of hosts that are not preferred, when it has others; nil
// prefers none. protocols are the _T names.
func (s portSet) build(preferred func(host uint32) bool) (srv []SRV, ports []port, protocols []string) {
	for owner, records := range s {
		if preferred != nil && slices.ContainsFunc(records, func(r SRV) bool { return preferred(r.host) }) {
			records = slices.DeleteFunc(records, func(r SRV) bool { return !preferred(r.host) })
		}
		records = sortSRV(records)
		if owner == "" {
			srv = records
			continue
		}
		ports = append(ports, port{owner, records})
		protocols = append(protocols, owner[strings.IndexByte(owner, '.')+1:])
	}
	slices.SortFunc(ports, func(a, b port) int { return cmp.Compare(a.owner, b.owner) })
	slices.Sort(protocols)
	return srv, ports, slices.Compact(protocols)
}

func count[T any](list []T) uint32 {
	return uint32(len(list)) //nolint:gosec // far fewer than 4 billion of anything
}
