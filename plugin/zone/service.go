package zone

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// service is all that is answered at and below S.N.svc.Z. It never changes; a
// changed import or slice makes a new one. Every list is sorted, so that equal
// inputs give equal services in whatever order they came.
type service struct {
	addresses  addresses
	srv        []SRV    // of S.N.svc.Z
	ports      []port   // by owner
	hosts      []host   // by left; SRV targets point in here
	targets    []target // per origin
	emptyNames []string // names before S.N that exist and hold nothing: _T, and C of each host
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

// host is a name that SRV records point to: H.C of a headless service, or the
// ClusterSetIP service itself, where left is empty.
type host struct {
	left string
	addresses
}

// target holds the absolute names of the hosts under one origin, by host.
type target []string

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

// Problem is something in the input that is left out of the answers.
type Problem struct {
	Service mcs.ServiceKey
	Detail  string
}

func (s *service) equal(o *service) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.addresses.equal(&o.addresses) &&
		slices.Equal(s.srv, o.srv) &&
		slices.EqualFunc(s.ports, o.ports, func(a, b port) bool { return a.owner == b.owner && slices.Equal(a.srv, b.srv) }) &&
		slices.EqualFunc(s.hosts, o.hosts, func(a, b host) bool { return a.left == b.left && a.addresses.equal(&b.addresses) }) &&
		slices.EqualFunc(s.targets, o.targets, slices.Equal) &&
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

// distinct is the set of addrs as A and AAAA data.
func distinct(addrs []netip.Addr) addresses {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	var a addresses
	for _, addr := range slices.Compact(addrs) {
		a.add(addr)
	}
	return a
}

// buildClusterSetIP answers KEP-1645 DNS specification 2.3: the addresses and
// ports of the import, whatever its endpoints are.
func buildClusterSetIP(imp Import, origins []string) (*service, []Problem) {
	addrs := distinct(imp.Addresses)
	s := &service{addresses: addrs, hosts: []host{{addresses: addrs}}}
	for _, origin := range origins {
		name := absoluteName("", imp.Key, origin)
		if len(name) > maxName {
			return s, []Problem{tooLong(imp.Key, name)}
		}
		s.targets = append(s.targets, target{name})
	}
	ports := portSet{}
	for _, p := range imp.Ports {
		ports.add(p, 0)
	}
	s.srv, s.ports, s.emptyNames = ports.build()
	return s, nil
}

// buildHeadless answers KEP-1645 DNS specification 2.4: the ready endpoints of
// all clusters. It returns nil when there are none, because such a service has
// no name at all.
func buildHeadless(key mcs.ServiceKey, in []*Slice, origins []string) (*service, []Problem) {
	all, named, problems := collect(key, in, origins[0], longest(origins))
	if len(all) == 0 {
		return nil, problems
	}
	s := &service{addresses: distinct(all)}
	ports := portSet{}
	empty := map[string]struct{}{}
	for _, e := range named {
		if last := len(s.hosts) - 1; last < 0 || s.hosts[last].left != e.left {
			s.hosts = append(s.hosts, host{left: e.left})
		}
		h := uint32(len(s.hosts) - 1) //nolint:gosec // a service has far fewer endpoints
		s.hosts[h].addOnce(e.address)
		for _, p := range e.slice.Ports {
			ports.add(p, h)
		}
		addAncestors(empty, e.left)
	}
	s.hosts = slices.Clip(s.hosts)
	s.targets = targetsOf(key, s.hosts, origins)
	s.srv, s.ports, s.emptyNames = ports.build()
	for name := range empty {
		s.emptyNames = append(s.emptyNames, name)
	}
	slices.Sort(s.emptyNames)
	return s, problems
}

// namedEndpoint is an endpoint with its place in the tree.
type namedEndpoint struct {
	left    string // H.C
	address netip.Addr
	slice   *Slice
}

// collect lists the addresses of all ready endpoints, and those endpoints whose
// name fits, by name and address. left is cut out of the absolute name under
// origin, so that both share their bytes.
func collect(key mcs.ServiceKey, in []*Slice, origin, longestOrigin string) (all []netip.Addr, named []namedEndpoint, problems []Problem) {
	n := 0
	for _, sl := range in {
		n += len(sl.Endpoints)
	}
	all, named = make([]netip.Addr, 0, n), make([]namedEndpoint, 0, n)
	for _, sl := range in {
		for _, e := range sl.Endpoints {
			all = append(all, e.Address)
			left := e.host() + "." + string(sl.Cluster)
			name := absoluteName(left, key, origin)
			if full := len(name) - len(origin) + len(longestOrigin); full > maxName {
				problems = append(problems, tooLong(key, absoluteName(left, key, longestOrigin)))
				continue
			}
			named = append(named, namedEndpoint{left: name[:len(left)], address: e.Address, slice: sl})
		}
	}
	slices.SortFunc(named, func(a, b namedEndpoint) int {
		return cmp.Or(cmp.Compare(a.left, b.left), a.address.Compare(b.address))
	})
	return all, named, problems
}

// addOnce adds an address unless it is the last one; the callers add in order.
func (h *host) addOnce(a netip.Addr) {
	switch {
	case a.Is4() && len(h.v4) > 0 && h.v4[len(h.v4)-1] == a.As4():
	case a.Is6() && len(h.v6) > 0 && h.v6[len(h.v6)-1] == a.As16():
	default:
		h.add(a)
	}
}

// addAncestors adds the names between left and S.N: C of one label, or both
// names of a C of two.
func addAncestors(empty map[string]struct{}, left string) {
	for dot := strings.IndexByte(left, '.'); dot >= 0; dot = strings.IndexByte(left, '.') {
		left = left[dot+1:]
		empty[left] = struct{}{}
	}
}

// targetsOf builds the hosts' absolute names under each origin.
func targetsOf(key mcs.ServiceKey, hosts []host, origins []string) []target {
	targets := make([]target, len(origins))
	for o, origin := range origins {
		targets[o] = make(target, len(hosts))
		for h := range hosts {
			targets[o][h] = absoluteName(hosts[h].left, key, origin)
			if o == 0 { // share the bytes
				hosts[h].left = targets[o][h][:len(hosts[h].left)]
			}
		}
	}
	return targets
}

func absoluteName(left string, key mcs.ServiceKey, origin string) string {
	if left != "" {
		left += "."
	}
	if origin == "." {
		origin = ""
	}
	return left + key.Name + "." + key.Namespace + ".svc." + origin
}

func longest(origins []string) string {
	return slices.MaxFunc(origins, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
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

// build sorts what was gathered and drops duplicates. protocols are the _T names.
func (s portSet) build() (srv []SRV, ports []port, protocols []string) {
	for owner, records := range s {
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
