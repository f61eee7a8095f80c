package zone

import (
	"cmp"
	"slices"
)

// Type is a DNS record type.
type Type uint16

// The record types that names of the zone have, and ANY.
const (
	TypeA    Type = 1
	TypeNS   Type = 2
	TypeSOA  Type = 6
	TypePTR  Type = 12
	TypeTXT  Type = 16
	TypeAAAA Type = 28
	TypeSRV  Type = 33
	TypeANY  Type = 255
)

// Version is the schema version of KEP-1645's DNS specification, the text of
// dns-version.Z, and VersionTTL its time to live in seconds (spec 2.2).
const (
	Version    = "1.0.0"
	VersionTTL = 28800
)

// Result says what kind of answer it is.
type Result uint8

// The results. NameError is the zero value.
const (
	NameError  Result = iota // NXDOMAIN
	NoData                   // the name exists, a record of the type does not
	Records                  // the record data is in the Answer
	ApexSOA                  // the SOA of the origin
	ApexNS                   // the NS of the origin
	VersionTXT               // the TXT with Version
)

// Answer is the data of a response. The slices belong to the zone and are
// shared by all queries: read them only.
type Answer struct {
	Result Result
	// Headless says that the records are those of endpoints.
	Headless bool
	// V4, V6 and SRV: at most one is set, and only with Records.
	V4  [][4]byte
	V6  [][16]byte
	SRV []SRV
	// Additional says that the addresses of the targets belong into the
	// additional section.
	Additional bool
	hosts      *hosts
	origin     int
	pointers   pointers
}

// Target is the absolute name that an SRV record of the answer points to.
func (a *Answer) Target(s SRV) string { return a.hosts.name(int(s.host), a.origin) }

// TargetAddresses are the addresses of that name. again is true when the
// record before s, the i'th of the answer, has the same target.
func (a *Answer) TargetAddresses(i int) (v4 [][4]byte, v6 [][16]byte, again bool) {
	s := a.SRV[i]
	addrs := a.hosts.addressesOf(int(s.host))
	return addrs.v4, addrs.v6, i > 0 && a.SRV[i-1].host == s.host
}

// Lookup answers a question for a name under the origin with that index in
// [Options]. It allocates nothing. The answer for TypeANY tells whether the
// name exists, and holds no data (RFC 8482 leaves the choice to the server).
func (z *Zone) Lookup(q Query, t Type, origin int) Answer {
	switch q.Form {
	case FormNone:
		return Answer{}
	case FormApex:
		return exists(pick(t, TypeSOA, ApexSOA) | pick(t, TypeNS, ApexNS))
	case FormVersion:
		return exists(pick(t, TypeTXT, VersionTXT))
	case FormDNS, FormSvc:
		return Answer{Result: NoData}
	case FormNameserver:
		return z.nameservers.answer(t)
	case FormNamespace:
		if z.hasNamespace(q.Namespace) {
			return Answer{Result: NoData}
		}
		return Answer{}
	case FormService, FormProtocol, FormPort, FormEndpoint:
		if s := z.service(q.Service); s != nil {
			return s.lookup(q, t, origin)
		}
		return Answer{}
	default:
		return Answer{}
	}
}

// pick is r when the asked type is the one that has it.
func pick(asked, has Type, r Result) Result {
	if asked == has {
		return r
	}
	return NameError
}

// exists is the answer of a name that has at most the picked records.
func exists(r Result) Answer { return Answer{Result: cmp.Or(r, NoData)} }

func (a *addresses) answer(t Type) Answer {
	switch {
	case t == TypeA && len(a.v4) > 0:
		return Answer{Result: Records, V4: a.v4}
	case t == TypeAAAA && len(a.v6) > 0:
		return Answer{Result: Records, V6: a.v6}
	}
	return Answer{Result: NoData}
}

// lookup answers at and below S.N. Existence is decided name by name: a name
// with records, else one that holds nothing, else none.
func (s *service) lookup(q Query, t Type, origin int) Answer {
	switch q.Form {
	case FormService:
		if t == TypeSRV {
			return s.answerSRV(s.srv, origin, false)
		}
		a := s.addresses.answer(t)
		a.Headless = s.headless
		return a
	case FormPort:
		if i, ok := slices.BinarySearchFunc(s.ports, q.Left, func(p port, owner string) int { return cmp.Compare(p.owner, owner) }); ok {
			if t == TypeSRV {
				return s.answerSRV(s.ports[i].srv, origin, true)
			}
			return Answer{Result: NoData}
		}
	case FormEndpoint:
		if i, ok := s.hosts.find(q.Left); ok {
			addrs := s.hosts.addressesOf(i)
			a := addrs.answer(t)
			a.Headless = true
			return a
		}
	case FormNone, FormApex, FormVersion, FormDNS, FormNameserver, FormSvc, FormNamespace, FormProtocol:
	}
	if _, ok := slices.BinarySearch(s.emptyNames, q.Left); ok {
		return Answer{Result: NoData}
	}
	return Answer{}
}

func (s *service) answerSRV(srv []SRV, origin int, additional bool) Answer {
	if len(srv) == 0 {
		return Answer{Result: NoData}
	}
	return Answer{Result: Records, Headless: s.headless, SRV: srv, Additional: additional, hosts: &s.hosts, origin: origin}
}
