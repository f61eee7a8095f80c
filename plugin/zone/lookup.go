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
func (z *Zone) Lookup(q Query, t Type, origin int) (a Answer) {
	z.LookupInto(&a, &q, t, origin)
	return a
}

// LookupInto is Lookup for the query path: a is empty, and filled in place. A
// server runs each query on a small stack, and what it costs to make that
// larger is more than all of this.
func (z *Zone) LookupInto(a *Answer, q *Query, t Type, origin int) {
	switch q.Form {
	case FormNone:
	case FormApex:
		a.Result = cmp.Or(pick(t, TypeSOA, ApexSOA)|pick(t, TypeNS, ApexNS), NoData)
	case FormVersion:
		a.Result = cmp.Or(pick(t, TypeTXT, VersionTXT), NoData)
	case FormDNS, FormSvc:
		a.Result = NoData
	case FormNameserver:
		a.fill(&z.nameservers, t)
	case FormNamespace:
		if z.hasNamespace(q.Namespace) {
			a.Result = NoData
		}
	case FormService, FormProtocol, FormPort, FormEndpoint:
		if s := z.service(q.Service); s != nil {
			s.lookup(a, q, t, origin)
		}
	}
}

// pick is r when the asked type is the one that has it.
func pick(asked, has Type, r Result) Result {
	if asked == has {
		return r
	}
	return NameError
}

// fill answers for a name that has addresses.
func (a *Answer) fill(has *addresses, t Type) {
	a.Result = NoData
	switch {
	case t == TypeA && len(has.v4) > 0:
		a.Result, a.V4 = Records, has.v4
	case t == TypeAAAA && len(has.v6) > 0:
		a.Result, a.V6 = Records, has.v6
	}
}

// lookup answers at and below S.N. Existence is decided name by name: a name
// with records, else one that holds nothing, else none.
func (s *service) lookup(a *Answer, q *Query, t Type, origin int) {
	switch q.Form {
	case FormService:
		if t == TypeSRV {
			s.fillSRV(a, s.srv, origin, false)
		} else {
			a.fill(&s.addresses, t)
		}
		return
	case FormPort:
		if i, ok := slices.BinarySearchFunc(s.ports, q.Left, func(p port, owner string) int { return cmp.Compare(p.owner, owner) }); ok {
			a.Result = NoData
			if t == TypeSRV {
				s.fillSRV(a, s.ports[i].srv, origin, true)
			}
			return
		}
	case FormEndpoint:
		if i, ok := s.hosts.find(q.Left); ok {
			addrs := s.hosts.addressesOf(i)
			a.fill(&addrs, t)
			return
		}
	case FormNone, FormApex, FormVersion, FormDNS, FormNameserver, FormSvc, FormNamespace, FormProtocol:
	}
	if _, ok := slices.BinarySearch(s.emptyNames, q.Left); ok {
		a.Result = NoData
	}
}

func (s *service) fillSRV(a *Answer, srv []SRV, origin int, additional bool) {
	a.Result = NoData
	if len(srv) > 0 {
		a.Result, a.SRV, a.Additional, a.hosts, a.origin = Records, srv, additional, &s.hosts, origin
	}
}
