package model

import (
	"net/netip"
	"slices"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Kind is how a service is consumed (KEP-1645, ServiceImport type).
type Kind string

// The two kinds, with the words of the API.
const (
	ClusterSetIP Kind = "ClusterSetIP"
	Headless     Kind = "Headless"
)

// Family is an IP family, with the words of the API.
type Family string

// The two families.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// Export is one cluster's offer of one service: the ServiceExport, the Service
// of the same name and that Service's EndpointSlices, as read from that cluster.
type Export struct {
	Cluster mcs.ClusterID
	Key     mcs.ServiceKey
	// Created is the ServiceExport's creation as that cluster's API server set
	// it; it decides precedence.
	Created time.Time

	Kind  Kind
	Ports []Port
	Traffic
	// Families are the source Service's, primary first.
	Families []Family
	// Labels and Annotations are the exported ones of the ServiceExport's spec.
	Labels, Annotations map[string]string

	// Slices are empty in an offer that was rebuilt from stored fields.
	Slices []Slice
}

// Traffic is how connections find their endpoints, in the API's words; empty
// means the API's default.
type Traffic struct {
	SessionAffinity string
	// AffinityTimeout is in seconds, 0 without ClientIP affinity.
	AffinityTimeout       int32
	InternalTrafficPolicy string
	TrafficDistribution   string
}

// Port is a service port.
type Port struct {
	Name     string
	Protocol string
	// Number is the port clients connect to, 1 to 65535.
	Number      int32
	AppProtocol string
}

// Slice is an EndpointSlice of a source Service, without what never travels.
type Slice struct {
	Name        string
	AddressType Family
	Endpoints   []Endpoint
	Ports       []SlicePort
	// TriggerTime is the annotation of the last change, as it was written.
	TriggerTime string
}

// SlicePort is a target port of a slice; Name ties it to the Service's port.
type SlicePort struct {
	Name        string
	Protocol    string
	Number      int32
	AppProtocol string
}

// Endpoint is one backend. The conditions are resolved: nil ready counts as
// true, nil serving as ready, nil terminating as false.
type Endpoint struct {
	Addresses                   []netip.Addr
	Ready, Serving, Terminating bool
	Hostname, NodeName, Zone    string
	// TargetKind and TargetName are those of the targetRef.
	TargetKind, TargetName string
}

// Equal reports whether two slices say the same; the trigger time alone is no
// difference, because it changes with events that change nothing here.
func (s Slice) Equal(o Slice) bool {
	return s.Name == o.Name && s.AddressType == o.AddressType &&
		slices.Equal(s.Ports, o.Ports) &&
		slices.EqualFunc(s.Endpoints, o.Endpoints, Endpoint.Equal)
}

// Equal reports whether two endpoints are the same in every field.
func (e Endpoint) Equal(o Endpoint) bool {
	return slices.Equal(e.Addresses, o.Addresses) &&
		e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating &&
		e.Hostname == o.Hostname && e.NodeName == o.NodeName && e.Zone == o.Zone &&
		e.TargetKind == o.TargetKind && e.TargetName == o.TargetName
}

// Import is what the exporters of a service agreed on.
type Import struct {
	Key   mcs.ServiceKey
	Kind  Kind
	Ports []Port
	Traffic
	Families            []Family
	Labels, Annotations map[string]string

	// Clusters are the exporters, in order of precedence.
	Clusters []mcs.ClusterID
}

// PortName tells under which name a port of an exporter's Service stands in the
// import. It does not stand there when another cluster uses its name for another
// port: traffic to that name would then reach the wrong program, so the
// exporter's slices must leave it out.
func (i Import) PortName(p Port) (name string, kept bool) {
	if at := FindPort(i.Ports, p); at >= 0 {
		return i.Ports[at].Name, true
	}
	return "", false
}

// FindPort is the index of the port with p's protocol and number, or -1.
func FindPort(ports []Port, p Port) int {
	return slices.IndexFunc(ports, func(have Port) bool {
		return have.Protocol == p.Protocol && have.Number == p.Number
	})
}

// View is what is known of one service at one moment.
type View struct {
	Key mcs.ServiceKey
	// Exports are the offers of the clusters that can be told, in no order.
	Exports []Export
	// Unknown are the clusters of the set whose state cannot be told now. What
	// is here of theirs stays: "cannot read" is not "empty".
	Unknown []mcs.ClusterID
}

// IsUnknown reports whether nothing can be told of a cluster now.
func (v View) IsUnknown(cluster mcs.ClusterID) bool { return slices.Contains(v.Unknown, cluster) }
