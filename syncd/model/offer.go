package model

import (
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Declaration is a ServiceExport, cut to what an offer needs.
type Declaration struct {
	Created             time.Time
	Labels, Annotations map[string]string
}

// Source is the Service that a ServiceExport names, cut to what an offer needs.
type Source struct {
	// ExternalName is true for a Service of that type, which has no backends.
	ExternalName bool
	// Derived is true for a Service that syncd made itself.
	Derived  bool
	Headless bool

	Ports []Port
	Traffic
	Families []Family
}

// Problem is why a ServiceExport offers nothing. Its reason goes into the Valid
// condition; those of KEP-1645 are used where it has one.
type Problem struct {
	Reason  string
	Message string
}

// The reasons of a Problem.
const (
	ReasonNoService           = "NoService"
	ReasonInvalidServiceType  = "InvalidServiceType"
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	ReasonDerivedService      = "DerivedService"
)

// Offer is what a ServiceExport and its Service (nil when there is none) offer
// to the clusterset, or why they offer nothing (KEP-1645, Exporting Services).
// closed says that the namespace takes no part. The slices are for the caller to add.
func Offer(cluster mcs.ClusterID, key mcs.ServiceKey, closed bool, d Declaration, s *Source) (Export, *Problem) {
	switch {
	case closed:
		return Export{}, &Problem{ReasonNamespaceNotAllowed, "namespace " + key.Namespace + " is closed to export by syncd's --denied-namespaces; --allow-namespaces opens it"}
	case s == nil:
		return Export{}, &Problem{ReasonNoService, "no Service " + key.String()}
	case s.ExternalName:
		return Export{}, &Problem{ReasonInvalidServiceType, "a Service of type ExternalName cannot be exported"}
	case s.Derived:
		return Export{}, &Problem{ReasonDerivedService, "this Service is derived from an import; export the original"}
	}
	e := Export{
		Cluster: cluster, Key: key, Created: d.Created,
		Kind: ClusterSetIP, Ports: s.Ports, Traffic: s.Traffic,
		Families: s.Families, Labels: d.Labels, Annotations: d.Annotations,
	}
	if s.Headless {
		e.Kind = Headless
	}
	return e, nil
}

// Older is the earlier of the creation times of two ServiceExports of one
// service in one cluster: together they are one export, of the rank of the older.
func Older(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
