// Package zone turns imported services into DNS answers. It is pure: it takes
// values and returns values, and holds no client, clock, logger or goroutine.
//
// Inputs are [Import] and [Slice], small copies of a ServiceImport and of an
// EndpointSlice. A [Builder] keeps them and publishes an immutable [Zone]. A
// name is read by [Parse] and answered by [Zone.Lookup], which computes nothing
// that could have been computed when the service changed.
//
// The names are those of KEP-1645's DNS specification, schema 1.0.0. Z is an
// origin, S a service, N its namespace, C a cluster id of one or two labels, H
// the host name of an endpoint:
//
//	Z                    SOA, NS
//	dns-version.Z        TXT (spec 2.2)
//	ns.dns.Z             A, AAAA
//	svc.Z dns.Z N.svc.Z  exist, hold nothing
//	S.N.svc.Z            A, AAAA, SRV (spec 2.3.1, 2.4.1)
//	_P._T.S.N.svc.Z      SRV (spec 2.3.2, 2.4.2)
//	_T.S.N.svc.Z         exists while a named port is below it
//	H.C.S.N.svc.Z        A, AAAA of a headless service (spec 2.4.1)
//	C.S.N.svc.Z          exists while a host is below it, holds nothing (spec 2.4.4)
//
// A name that exists without a record of the asked type is NODATA, and so is
// every name that has an existing name below it (RFC 8020). All else is
// NXDOMAIN.
package zone
