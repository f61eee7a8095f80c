package plan

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Derived are the objects of a service that bear the prefix of this syncd, apart
// from those of another one.
type Derived struct {
	// Service is the derived Service, nil when there is none.
	Service *corev1.Service
	// Slices are the mirrored slices tied to that Service's name.
	Slices []*discoveryv1.EndpointSlice
	// StraySlices go before the Slices are made, StrayServices at last. Both come
	// from a syncd with another prefix. A slice is made anew and not tied to the
	// other Service, because kube-proxy would keep it for the first one too.
	StraySlices   []Change[*discoveryv1.EndpointSlice]
	StrayServices []Change[*corev1.Service]
}

// DerivedOf sorts what exists here for a service. A slice whose cluster cannot be
// told is never a stray: it could not be made anew.
func DerivedOf(view model.View, services []*corev1.Service, slices []*discoveryv1.EndpointSlice, local Local) Derived {
	const why = "it was made with another prefix"
	name := mcs.DerivedName(local.Prefix, view.Key)
	var d Derived
	for _, s := range services {
		if s.Name == name {
			d.Service = s
		} else {
			d.StrayServices = append(d.StrayServices, Change[*corev1.Service]{Verb: Delete, Object: s, Why: why})
		}
	}
	for _, s := range slices {
		cluster := cmp.Or(s.Labels[mcs.LabelSourceCluster], s.Labels[mcs.LabelParkedCluster])
		if s.Labels[mcs.LabelSliceService] == name || view.IsUnknown(mcs.ClusterID(cluster)) {
			d.Slices = append(d.Slices, s)
		} else {
			d.StraySlices = append(d.StraySlices, Change[*discoveryv1.EndpointSlice]{Verb: Delete, Object: s, Why: why})
		}
	}
	return d
}
