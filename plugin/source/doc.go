// Package source reads ServiceImports and imported EndpointSlices from the
// local API server and keeps a [zone.Zone] of them.
//
// Each resource is followed by a client-go Reflector that feeds the zone's
// Builder through the small store interface: the objects are cut down to what
// DNS needs while they are decoded, and there is one copy. No zone is handed
// out before every watch has delivered its first list, so that a name is never
// denied for want of data; afterwards the last state stays, whatever the API
// server does. A snapshot in a file, if there is one, takes the place of the
// first lists while the API server is away, and never that of live data.
package source
