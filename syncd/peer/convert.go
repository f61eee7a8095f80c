package peer

import (
	"net/netip"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// convertExport, convertService and convertSlice shrink API objects to what an
// offer needs. The namespace is that of where the object was read; labels that
// claim another origin are not looked at.

// declaration is a ServiceExport with what its annotations ask for, as written.
type declaration struct {
	model.Declaration
	OnLost, Prefer string
}

func convertExport(object any) (mcs.ServiceKey, declaration, bool) {
	export, ok := object.(*api.ServiceExport)
	if !ok {
		return mcs.ServiceKey{}, declaration{}, false
	}
	return mcs.ServiceKey{Namespace: export.Namespace, Name: export.Name}, declaration{
		Declaration: model.Declaration{
			Created:     export.CreationTimestamp.Time,
			Labels:      export.Spec.ExportedLabels,
			Annotations: export.Spec.ExportedAnnotations,
		},
		OnLost: export.Annotations[mcs.AnnotationOnLost],
		Prefer: export.Annotations[mcs.AnnotationPrefer],
	}, true
}

// convertNamespace keeps the namespaces that do not go.
func convertNamespace(object any) (mcs.ServiceKey, struct{}, bool) {
	n, ok := object.(*corev1.Namespace)
	if !ok || n.DeletionTimestamp != nil {
		return mcs.ServiceKey{}, struct{}{}, false
	}
	return mcs.ServiceKey{Namespace: n.Name}, struct{}{}, true
}

func convertService(object any) (mcs.ServiceKey, model.Source, bool) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return mcs.ServiceKey{}, model.Source{}, false
	}
	spec := &service.Spec
	source := model.Source{
		ExternalName: spec.Type == corev1.ServiceTypeExternalName,
		Derived:      service.Labels[mcs.LabelManagedBy] == mcs.ManagedBy,
		Headless:     spec.ClusterIP == corev1.ClusterIPNone,
	}
	for _, p := range spec.Ports {
		source.Ports = append(source.Ports, model.Port{
			Name: p.Name, Protocol: string(p.Protocol), Number: p.Port, AppProtocol: deref(p.AppProtocol),
		})
	}
	for _, f := range spec.IPFamilies {
		source.Families = append(source.Families, model.Family(f))
	}
	source.SessionAffinity = string(spec.SessionAffinity)
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		source.AffinityTimeout = deref(c.ClientIP.TimeoutSeconds)
	}
	source.InternalTrafficPolicy = string(deref(spec.InternalTrafficPolicy))
	source.TrafficDistribution = deref(spec.TrafficDistribution)
	return mcs.ServiceKey{Namespace: service.Namespace, Name: service.Name}, source, true
}

// convertSlice keeps the slices of Services of the cluster itself: what an MCS
// controller mirrored there came from elsewhere and is no offer. FQDN slices
// have no addresses to serve. allows narrows where endpoints may be, nil for
// anywhere; dropped is told of each address left out.
func convertSlice(object any, allows func(netip.Addr) bool, dropped func(slice, address, reason string)) (mcs.ServiceKey, model.Slice, bool) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return mcs.ServiceKey{}, model.Slice{}, false
	}
	name := slice.Labels[mcs.LabelSliceService]
	if name == "" || isMirrored(slice) {
		return mcs.ServiceKey{}, model.Slice{}, false
	}
	out := model.Slice{
		Name:        slice.Name,
		TriggerTime: slice.Annotations[mcs.AnnotationTriggerTime],
		Endpoints:   make([]model.Endpoint, 0, len(slice.Endpoints)),
	}
	switch slice.AddressType {
	case discoveryv1.AddressTypeIPv4:
		out.AddressType = model.IPv4
	case discoveryv1.AddressTypeIPv6:
		out.AddressType = model.IPv6
	case discoveryv1.AddressTypeFQDN:
		return mcs.ServiceKey{}, model.Slice{}, false
	default:
		return mcs.ServiceKey{}, model.Slice{}, false
	}
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue // "all ports", which no Service's slice has
		}
		port := model.SlicePort{Name: shared(p.Name), Protocol: "TCP", Number: *p.Port, AppProtocol: shared(p.AppProtocol)}
		if p.Protocol != nil {
			port.Protocol = shared((*string)(p.Protocol))
		}
		out.Ports = append(out.Ports, port)
	}
	for _, e := range slice.Endpoints {
		if ep, ok := convertEndpoint(e, out.AddressType, allows, func(address, reason string) {
			dropped(slice.Namespace+"/"+slice.Name, address, reason)
		}); ok {
			out.Endpoints = append(out.Endpoints, ep)
		}
	}
	return mcs.ServiceKey{Namespace: slice.Namespace, Name: name}, out, true
}

func convertEndpoint(e discoveryv1.Endpoint, family model.Family, allows func(netip.Addr) bool, dropped func(address, reason string)) (model.Endpoint, bool) {
	out := model.Endpoint{
		Hostname: deref(e.Hostname), NodeName: shared(e.NodeName), Zone: shared(e.Zone),
	}
	for _, text := range e.Addresses {
		a, err := netip.ParseAddr(text)
		if err != nil {
			dropped(text, "not an IP address")
			continue
		}
		if ok, reason := mcs.UsableAddress(a); !ok {
			dropped(text, reason)
			continue
		}
		if a.Is4() != (family == model.IPv4) {
			dropped(text, "of another family than the slice")
			continue
		}
		if allows != nil && !allows(a) {
			dropped(text, "outside of "+mcs.AnnotationAllowCIDRs)
			continue
		}
		out.Addresses = append(out.Addresses, a)
	}
	// A missing condition means, by the API: ready; serving as ready; not terminating.
	out.Ready = e.Conditions.Ready == nil || *e.Conditions.Ready
	out.Serving = out.Ready
	if e.Conditions.Serving != nil {
		out.Serving = *e.Conditions.Serving
	}
	out.Terminating = deref(e.Conditions.Terminating)
	if e.TargetRef != nil {
		out.TargetKind, out.TargetName = shared(&e.TargetRef.Kind), e.TargetRef.Name
	}
	return out, len(out.Addresses) > 0
}

// isMirrored reports whether some MCS controller, ours or another, put a slice
// there for a service of another cluster: it names its source, and who manages
// it. A source-cluster label alone, on a slice of the API's own controllers or
// of nobody, is not believed: whose a slice is, the connection tells.
func isMirrored(s *discoveryv1.EndpointSlice) bool {
	_, claims := s.Labels[mcs.LabelSourceCluster]
	switch s.Labels[mcs.LabelSliceManagedBy] {
	case mcs.ManagedBy:
		return true
	case "", "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return false
	}
	return claims
}

// shared is the value of an optional field that many endpoints have in common; it
// is in memory once, where each object from the wire has a copy of its own.
func shared(p *string) string { return unique.Make(deref(p)).Value() }

// deref is the value of an optional field, or the zero value.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
