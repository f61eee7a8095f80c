package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/endpointslice/trafficdist"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// EndpointSlices plans the mirrored slices of a service, one per source slice.
// have are our slices of it. Slices of a cluster in view.Unknown stay, because
// nothing is known that would speak against them; only their switch for
// kube-proxy and their zone hints follow the import.
//
// What is new comes first, so that a slice under another name (of another address
// type, say) is there before the one it replaces goes.
func EndpointSlices(imp *model.Import, view model.View, have []*discoveryv1.EndpointSlice, local Local) []Change[*discoveryv1.EndpointSlice] {
	var creates, others []Change[*discoveryv1.EndpointSlice]
	wanted := map[string]*discoveryv1.EndpointSlice{}
	if imp != nil {
		for _, e := range view.Exports {
			for _, s := range e.Slices {
				slice := mirror(*imp, e, s, local)
				wanted[slice.Name] = slice
			}
		}
	}
	for _, h := range have {
		want := wanted[h.Name]
		delete(wanted, h.Name)
		switch {
		case want != nil && sameSlice(h, want):
		case want != nil:
			want.ResourceVersion, want.UID = h.ResourceVersion, h.UID
			others = append(others, Change[*discoveryv1.EndpointSlice]{Verb: Update, Object: want, Why: "the source slice differs"})
		case view.IsUnknown(mcs.ClusterID(h.Labels[mcs.LabelSourceCluster])):
			if kept := followed(imp, h); kept != h {
				others = append(others, Change[*discoveryv1.EndpointSlice]{Verb: Update, Object: kept, Why: "the import changed"})
			}
		default:
			others = append(others, Change[*discoveryv1.EndpointSlice]{Verb: Delete, Object: h, Why: "its source is gone"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		creates = append(creates, Change[*discoveryv1.EndpointSlice]{Verb: Create, Object: wanted[name], Why: "a source slice has no mirror yet"})
	}
	return append(creates, others...)
}

// mirror is the local image of one source slice.
func mirror(imp model.Import, e model.Export, s model.Slice, local Local) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: imp.Key.Namespace,
			Name:      mcs.SliceName(e.Cluster, imp.Key, s.Name, string(s.AddressType)),
			Labels: map[string]string{
				mcs.LabelServiceName:    imp.Key.Name,
				mcs.LabelSourceCluster:  string(e.Cluster),
				mcs.LabelSliceManagedBy: mcs.ManagedBy,
				// On every slice and for good: kube-proxy never lets go of a slice
				// that loses this label.
				mcs.LabelSliceService: mcs.DerivedName(local.Prefix, imp.Key),
			},
		},
		AddressType: discoveryv1.AddressType(s.AddressType),
		Endpoints:   make([]discoveryv1.Endpoint, 0, len(s.Endpoints)),
		Ports:       slicePorts(imp, e, s),
	}
	if imp.Kind == model.Headless {
		slice.Labels[mcs.LabelHeadless] = ""
	}
	if s.TriggerTime != "" {
		slice.Annotations = map[string]string{mcs.AnnotationTriggerTime: s.TriggerTime}
	}
	for _, ep := range s.Endpoints {
		slice.Endpoints = append(slice.Endpoints, endpoint(ep, e.Cluster == local.Cluster))
	}
	return hinted(imp, slice)
}

// endpoint writes the conditions out in full: kube-proxy and the hint machinery
// read a missing one differently. Hints of the source never travel, and the node
// of an endpoint says something only in its own cluster.
func endpoint(e model.Endpoint, own bool) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{
		Addresses: make([]string, 0, len(e.Addresses)),
		Conditions: discoveryv1.EndpointConditions{
			Ready: &e.Ready, Serving: &e.Serving, Terminating: &e.Terminating,
		},
		Hostname: optional(e.Hostname),
		Zone:     optional(e.Zone),
	}
	for _, a := range e.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	if own {
		out.NodeName = optional(e.NodeName)
	}
	if e.TargetName != "" {
		out.TargetRef = &corev1.ObjectReference{Kind: e.TargetKind, Name: e.TargetName}
	}
	return out
}

// slicePorts are the target ports under the names of the import. A port of a
// slice is matched through the source Service, whose port of the same name says
// what clients connect to; one that the import left out is left out here too.
// Clients of a headless service connect to the target port itself, so nothing is
// translated there.
func slicePorts(imp model.Import, e model.Export, s model.Slice) []discoveryv1.EndpointPort {
	ports := make([]discoveryv1.EndpointPort, 0, len(s.Ports))
	for _, p := range s.Ports {
		name := p.Name
		if imp.Kind == model.ClusterSetIP {
			at := slices.IndexFunc(e.Ports, func(source model.Port) bool {
				return source.Name == p.Name && source.Protocol == p.Protocol
			})
			if at < 0 {
				continue
			}
			var kept bool
			if name, kept = imp.PortName(e.Ports[at]); !kept {
				continue
			}
		}
		protocol, number := corev1.Protocol(p.Protocol), p.Number
		ports = append(ports, discoveryv1.EndpointPort{
			Name: &name, Protocol: &protocol, Port: &number, AppProtocol: optional(p.AppProtocol),
		})
	}
	return ports
}

// hinted is a slice with the hints that the import's traffic distribution asks for,
// or the slice itself when it has them. The hints are made by the code of the API's
// own controller: a zone for each ready endpoint that has one, and the node, which
// only own endpoints have, with PreferSameNode.
func hinted(imp model.Import, have *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	distribution := optional(imp.TrafficDistribution)
	if imp.Kind == model.Headless {
		distribution = nil
	}
	_, changed, _ := trafficdist.ReconcileHints(distribution, nil, nil, []*discoveryv1.EndpointSlice{have})
	if len(changed) == 0 {
		return have
	}
	return changed[0]
}

// followed is a slice of a cluster that cannot be told with its headless label and
// hints as the import needs them, or the slice itself when they are right.
func followed(imp *model.Import, have *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	if imp == nil {
		return have
	}
	kept := hinted(*imp, have)
	_, hidden := kept.Labels[mcs.LabelHeadless]
	if hidden == (imp.Kind == model.Headless) {
		return kept
	}
	kept = kept.DeepCopy()
	if hidden {
		delete(kept.Labels, mcs.LabelHeadless)
	} else {
		kept.Labels[mcs.LabelHeadless] = ""
	}
	return kept
}

// sameSlice ignores the trigger time: its change alone is no difference.
func sameSlice(have, want *discoveryv1.EndpointSlice) bool {
	return have.AddressType == want.AddressType &&
		maps.Equal(have.Labels, want.Labels) &&
		apiequality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) &&
		apiequality.Semantic.DeepEqual(have.Ports, want.Ports)
}
