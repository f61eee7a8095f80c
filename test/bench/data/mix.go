package data

import (
	"fmt"

	"github.com/miekg/dns"
)

// Query is a question with the shape of its right answer.
type Query struct {
	Name    string
	Type    uint16
	UDPSize uint16 // that the client offers (EDNS)

	Rcode     int
	Answers   int  // records in the answer; of a truncated one at least one and less
	Truncated bool // over UDP
}

// Fits reports whether a reply over UDP has the shape of the right answer.
func (q *Query) Fits(rcode, answers int, truncated bool) bool {
	if rcode != q.Rcode || truncated != q.Truncated {
		return false
	}
	if q.Truncated {
		return answers > 0 && answers < q.Answers
	}
	return answers == q.Answers
}

// String is the question.
func (q *Query) String() string { return q.Name + " " + dns.TypeToString[q.Type] }

// Mix names a list of queries that are asked in turn.
type Mix string

// The mixes.
const (
	CIPA      Mix = "cip-a"      // A of ClusterSetIP services
	HostA     Mix = "host-a"     // A of HOST.CLUSTER.SERVICE
	SRV       Mix = "srv"        // SRV of a named port of ClusterSetIP services
	NXDOMAIN  Mix = "nxdomain"   // A of services that do not exist
	NODATA    Mix = "nodata"     // AAAA of IPv4 services
	HL3A      Mix = "hl3-a"      // A of headless services with 3 endpoints
	HL50A     Mix = "hl50-a"     // with 50
	HL250A    Mix = "hl250-a"    // with 250, to a client that takes them all
	HL250ATC  Mix = "hl250-a-tc" // to one that takes 1232 bytes
	HL250SRV  Mix = "hl250-srv"  // SRV of them, with the addresses, over no size limit but the protocol's
	Small     Mix = "small"      // every kind with small answers
	Mixed     Mix = "mixed"      // what a cluster might ask: as small, and 1 in 20 for 50 endpoints
	mixLength     = 4000         // queries of Small and Mixed
)

const (
	usualSize = 1232
	largeSize = 4096
)

// The mixes that are made of others.
var (
	small = []Mix{CIPA, NODATA, CIPA, HL3A, CIPA, NXDOMAIN, HostA, NODATA, CIPA, SRV}
	mixed = []Mix{
		CIPA, NODATA, CIPA, HL3A, CIPA, NXDOMAIN, CIPA, NODATA, HL3A, CIPA,
		SRV, CIPA, NODATA, HL50A, CIPA, HL3A, NXDOMAIN, CIPA, NODATA, HostA,
	}
)

// Queries makes a mix. It is not empty for any size.
func (s *Set) Queries(mix Mix) []Query {
	var all []Query
	ask := func(kind Kind, q Query, name func(*Service) string) {
		for _, svc := range s.Of(kind) {
			q.Name = name(svc)
			all = append(all, q)
		}
	}
	switch mix {
	case CIPA:
		ask(ClusterSetIP, Query{Type: dns.TypeA, UDPSize: usualSize, Answers: 1}, (*Service).FQDN)
	case NODATA:
		ask(ClusterSetIP, Query{Type: dns.TypeAAAA, UDPSize: usualSize}, (*Service).FQDN)
	case NXDOMAIN:
		ask(ClusterSetIP, Query{Type: dns.TypeA, UDPSize: usualSize, Rcode: dns.RcodeNameError}, func(svc *Service) string { return "no-" + svc.FQDN() })
	case SRV:
		ask(ClusterSetIP, Query{Type: dns.TypeSRV, UDPSize: usualSize, Answers: 1}, func(svc *Service) string { return "_http._tcp." + svc.FQDN() })
	case HL3A:
		ask(Headless3, Query{Type: dns.TypeA, UDPSize: usualSize, Answers: 3}, (*Service).FQDN)
	case HL50A:
		ask(Headless50, Query{Type: dns.TypeA, UDPSize: usualSize, Answers: 50}, (*Service).FQDN)
	case HL250A:
		ask(Headless250, Query{Type: dns.TypeA, UDPSize: largeSize, Answers: 250}, (*Service).FQDN)
	case HL250ATC:
		ask(Headless250, Query{Type: dns.TypeA, UDPSize: usualSize, Answers: 250, Truncated: true}, (*Service).FQDN)
	case HL250SRV:
		ask(Headless250, Query{Type: dns.TypeSRV, UDPSize: dns.MaxMsgSize, Answers: 250}, func(svc *Service) string { return "_db._tcp." + svc.FQDN() })
	case HostA:
		all = s.hosts()
	case Small:
		all = s.interleave(small)
	case Mixed:
		all = s.interleave(mixed)
	}
	if len(all) == 0 {
		panic(fmt.Sprintf("no query in mix %s", mix))
	}
	return all
}

// hosts asks for one endpoint of each slice of the headless services.
func (s *Set) hosts() []Query {
	var all []Query
	for i, svc := range s.Services {
		if svc.Kind == ClusterSetIP {
			continue
		}
		for j, sl := range svc.Slices {
			host := sl.Endpoints[(i+7*j)%len(sl.Endpoints)].Host
			all = append(all, Query{
				Name: host + "." + sl.Cluster + "." + svc.FQDN(), Type: dns.TypeA, UDPSize: usualSize, Answers: 1,
			})
		}
	}
	return all
}

func (s *Set) interleave(pattern []Mix) []Query {
	parts, next := make(map[Mix][]Query), make(map[Mix]int)
	for _, mix := range pattern {
		if parts[mix] == nil {
			parts[mix] = s.Queries(mix)
		}
	}
	all := make([]Query, mixLength)
	for i := range all {
		mix := pattern[i%len(pattern)]
		all[i] = parts[mix][next[mix]%len(parts[mix])]
		next[mix]++
	}
	return all
}

// Sample is a few queries of every kind, and the last one of each, which is
// about objects that were written last.
func (s *Set) Sample() []Query {
	var all []Query
	for _, mix := range []Mix{CIPA, HostA, SRV, NODATA, NXDOMAIN, HL3A, HL50A, HL250A} {
		queries := s.Queries(mix)
		const n = 5
		for i := range n {
			all = append(all, queries[i*(len(queries)-1)/(n-1)])
		}
	}
	return all
}
