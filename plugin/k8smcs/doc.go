// Package k8smcs is the CoreDNS plugin k8s_mcs: it answers the names of
// multi-cluster services (KEP-1645) from the ServiceImports and imported
// EndpointSlices of its own cluster.
//
// It is a shell: package source follows the API server, package zone decides
// what a name holds, and this package reads the Corefile and turns decisions
// into messages.
package k8smcs
