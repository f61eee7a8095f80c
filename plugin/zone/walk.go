package zone

import (
	"iter"
	"net/netip"
	"slices"
)

// Walk is every set of records under an origin but those of the apex, by
// owner, services in the order of their names: what a zone transfer sends. A
// name that only exists because others lie below it does not come up.
func (z *Zone) Walk(origin int) iter.Seq2[string, Answer] {
	apex := z.origins[origin]
	if apex == "." {
		apex = ""
	}
	return func(yield func(string, Answer) bool) {
		if !yield("dns-version."+apex, Answer{Result: VersionTXT}) {
			return
		}
		if !walkAddresses("ns.dns."+apex, z.nameservers, yield) {
			return
		}
		for _, name := range z.serviceNames() {
			if !z.service(name).walk(origin, yield) {
				return
			}
		}
	}
}

func (z *Zone) serviceNames() (names []string) {
	for _, sh := range z.shards {
		for name := range sh.services {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *service) walk(origin int, yield func(string, Answer) bool) bool {
	if len(s.hosts.suffixes) == 0 { // its name is too long to be asked for
		return true
	}
	name := s.hosts.suffixes[origin]
	if !walkAddresses(name, s.addresses, yield) {
		return false
	}
	if !s.walkSRV(name, s.srv, origin, yield) {
		return false
	}
	for _, p := range s.ports {
		if !s.walkSRV(p.owner+"."+name, p.srv, origin, yield) {
			return false
		}
	}
	if !s.headless {
		return true
	}
	for i := range s.hosts.ends {
		if !walkAddresses(s.hosts.name(i, origin), s.hosts.addressesOf(i), yield) {
			return false
		}
	}
	return true
}

func (s *service) walkSRV(name string, srv []SRV, origin int, yield func(string, Answer) bool) bool {
	var a Answer
	s.fillSRV(&a, srv, origin, false)
	return a.Result != Records || len(name) > maxName || yield(name, a)
}

func walkAddresses(name string, a addresses, yield func(string, Answer) bool) bool {
	for _, t := range []Type{TypeA, TypeAAAA} {
		var answer Answer
		if answer.fill(&a, t); answer.Result == Records && !yield(name, answer) {
			return false
		}
	}
	return true
}

// WalkReverse is every address in a prefix whose reverse name leads somewhere,
// in order.
func (z *Zone) WalkReverse(prefix netip.Prefix) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		var last netip.Addr
		chunk, i := z.reverse.find(pointer{address: prefix.Masked().Addr()})
		for ; chunk < len(z.reverse); chunk, i = chunk+1, 0 {
			for _, p := range z.reverse[chunk][i:] {
				if !prefix.Contains(p.address) {
					return
				}
				if p.address != last && !yield(p.address) {
					return
				}
				last = p.address
			}
		}
	}
}
