package zone

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// buildHeadless answers KEP-1645 DNS specification 2.4: the ready endpoints of
// all clusters. It returns nil when there are none, because such a service has
// no name at all.
func buildHeadless(key mcs.ServiceKey, in []*Slice, opts *Options) (*service, []Problem) {
	n := 0
	for _, sl := range in {
		n += len(sl.Endpoints)
	}
	if n == 0 {
		return nil, nil
	}
	s := &service{headless: true, addresses: distinct(answered(in, n, opts))}
	text, named, problems := nameEndpoints(key, in, n, opts.Origins)
	s.hosts.suffixes = make([]string, len(opts.Origins))
	for o, origin := range opts.Origins {
		s.hosts.suffixes[o] = serviceName(key, origin)
	}
	ports := portSet{}
	s.hosts.gather(text, named, ports)
	var preferred func(uint32) bool
	if opts.PreferLocal {
		preferred = func(h uint32) bool { return s.hosts.cluster(int(h)) == opts.Local }
	}
	s.srv, s.ports, s.emptyNames = ports.build(preferred)
	s.addClusters()
	if opts.Reverse {
		s.reverse = reversible(named, s.addresses, opts.Local)
	}
	return s, problems
}

// answered lists the addresses of S.N: of all n ready endpoints, or of those of
// the local cluster when they are preferred and there are any.
func answered(in []*Slice, n int, opts *Options) []netip.Addr {
	all := make([]netip.Addr, 0, n)
	if opts.PreferLocal {
		for _, sl := range in {
			if sl.Cluster == opts.Local {
				all = appendAddresses(all, sl.Endpoints)
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, sl := range in {
		all = appendAddresses(all, sl.Endpoints)
	}
	return all
}

func appendAddresses(to []netip.Addr, endpoints []Endpoint) []netip.Addr {
	for i := range endpoints {
		to = append(to, endpoints[i].Address)
	}
	return to
}

// namedEndpoint is an endpoint with its place in the tree.
type namedEndpoint struct {
	from, to uint32 // its "H.C." in the text of all
	address  netip.Addr
	slice    *Slice
}

// nameEndpoints writes "H.C." of every endpoint whose name fits under each
// origin into one text, and lists those endpoints by name and address.
func nameEndpoints(key mcs.ServiceKey, in []*Slice, n int, origins []string) (text []byte, named []namedEndpoint, problems []Problem) {
	suffix := serviceName(key, longest(origins))
	named = make([]namedEndpoint, 0, n)
	text = make([]byte, 0, n*32)
	for _, sl := range in {
		for i := range sl.Endpoints {
			from := len(text)
			text = append(sl.Endpoints[i].appendHost(text), '.')
			text = append(append(text, sl.Cluster...), '.')
			if len(text)-from+len(suffix) > maxName {
				problems = append(problems, tooLong(key, string(text[from:])+suffix))
				text = text[:from]
				continue
			}
			named = append(named, namedEndpoint{
				from: uint32(from), to: count(text), //nolint:gosec // far less than 4 GB
				address: sl.Endpoints[i].Address, slice: sl,
			})
		}
	}
	slices.SortFunc(named, func(a, b namedEndpoint) int {
		// By what stands before the last dot, as look-ups compare.
		return cmp.Or(bytes.Compare(text[a.from:a.to-1], text[b.from:b.to-1]), a.address.Compare(b.address))
	})
	return text, named, problems
}

// gather makes a host of all endpoints with one name, and notes its ports.
func (h *hosts) gather(text []byte, named []namedEndpoint, ports portSet) {
	n4 := 0
	for i := range named {
		if named[i].address.Is4() {
			n4++
		}
	}
	h.addresses = addresses{v4: make([][4]byte, 0, n4), v6: make([][16]byte, 0, len(named)-n4)}
	h.ends = make([]hostEnd, 0, len(named))
	lefts := 0 // length of all distinct "H.C."
	for i := range named {
		e := &named[i]
		fresh := i == 0 || !bytes.Equal(text[e.from:e.to], text[named[i-1].from:named[i-1].to])
		if fresh {
			lefts += int(e.to - e.from)
			h.ends = append(h.ends, hostEnd{})
		}
		if fresh || e.address != named[i-1].address {
			h.addresses.add(e.address)
		}
		last := count(h.ends) - 1
		h.ends[last] = hostEnd{left: uint32(lefts), v4: count(h.addresses.v4), v6: count(h.addresses.v6)}
		for _, p := range e.slice.Ports {
			ports.add(p, last)
		}
	}
	h.ends = slices.Clip(h.ends)
	h.names = make([]string, len(h.suffixes))
	for o, suffix := range h.suffixes {
		var names strings.Builder
		names.Grow(lefts + len(h.ends)*len(suffix))
		for i := range named {
			left := text[named[i].from:named[i].to]
			if i == 0 || !bytes.Equal(left, text[named[i-1].from:named[i-1].to]) {
				names.Write(left)
				names.WriteString(suffix)
			}
		}
		h.names[o] = names.String()
	}
}

// addClusters adds the names between each host and S.N to the empty ones: C of
// one label, or both names of a C of two.
func (s *service) addClusters() {
	before := ""
	for i := range s.hosts.ends {
		cluster := string(s.hosts.cluster(i))
		if cluster == before {
			continue
		}
		before = cluster
		s.emptyNames = append(s.emptyNames, cluster)
		if _, parent, ok := strings.Cut(cluster, "."); ok {
			s.emptyNames = append(s.emptyNames, parent)
		}
	}
	slices.Sort(s.emptyNames)
	s.emptyNames = slices.Clip(slices.Compact(s.emptyNames))
}

// reversible are the addresses that reverse names are answered for: those of
// named endpoints outside the local cluster, whose own DNS knows its pods. same
// is returned when it is the same.
func reversible(named []namedEndpoint, same addresses, local mcs.ClusterID) addresses {
	addrs := make([]netip.Addr, 0, len(named))
	for i := range named {
		if named[i].slice.Cluster != local {
			addrs = append(addrs, named[i].address)
		}
	}
	if reverse := distinct(addrs); !reverse.equal(&same) {
		return reverse
	}
	return same
}

func longest(origins []string) string {
	return slices.MaxFunc(origins, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}
