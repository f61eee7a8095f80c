package policy

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// Place is what the slices of a cluster do for a service; the zero value is to serve.
type Place struct {
	// Park takes them out of the service, because their cluster is lost.
	Park Park
	// HeldBack hides them from kube-proxy, because own endpoints are enough.
	HeldBack bool
	// Note is the policy that the service's export asks for, "" for none. It is
	// kept on the slices for when the export cannot be read; nil leaves it there.
	Note *OnLost
}

// Park says whether slices are out of their service.
type Park int

// The values of Park.
const (
	Unparked Park = iota
	Parked
	// AsIs leaves them as they are: too little is known yet.
	AsIs
)

// Cluster is what is known of one exporter of a service.
type Cluster struct {
	ID mcs.ClusterID
	// Own is true for the cluster that syncd runs in, which has no State.
	Own    bool
	State  State
	OnLost OnLost
	// Told is true when the slices of the cluster are known; without, Ready and
	// All say nothing.
	Told bool
	// Ready of All endpoints are ready.
	Ready, All int
}

// Places decides where the slices of each exporter of a service go; prefer is
// for a ClusterSetIP service, whose traffic can be kept at home.
func Places(clusters []Cluster, prefer Prefer) map[mcs.ClusterID]Place {
	places := make(map[mcs.ClusterID]Place, len(clusters))
	enough := slices.ContainsFunc(clusters, func(c Cluster) bool { return c.Own && prefer.Enough(c.Ready, c.All) })
	for _, c := range clusters {
		if !c.Own {
			places[c.ID] = Place{Park: park(c, clusters), HeldBack: enough}
		}
	}
	return places
}

func park(c Cluster, all []Cluster) Park {
	switch {
	case c.State == Stale && c.OnLost == Withdraw:
		return Parked
	case c.State == Stale && c.OnLost == Fallback:
		return elsewhere(c.ID, all)
	case c.State != Stale && !c.Told:
		return AsIs // what was before a restart goes on
	}
	return Unparked
}

// elsewhere is Parked when another cluster that can be read has ready endpoints,
// and AsIs when one may have whose slices are not read yet.
func elsewhere(lost mcs.ClusterID, all []Cluster) Park {
	park := Unparked
	for _, c := range all {
		switch {
		case c.ID == lost:
		case (c.Own || c.State == Synced) && c.Told && c.Ready > 0:
			return Parked
		case !c.Told && (c.Own || c.State == Connecting || c.State == Synced):
			park = AsIs
		}
	}
	return park
}

// Slices plans the slices of a service as plan.EndpointSlices does, and puts
// them in their places. What is new comes first and what goes comes last, so that
// no endpoint is missing in between.
func Slices(imp *model.Import, view model.View, have []*discoveryv1.EndpointSlice, places map[mcs.ClusterID]Place, local plan.Local) []plan.Change[*discoveryv1.EndpointSlice] {
	if imp == nil {
		return plan.EndpointSlices(imp, view, serving(have, nil), local)
	}
	stands := make(map[string]*discoveryv1.EndpointSlice, len(have))
	for _, h := range have {
		stands[h.Name] = h
	}
	planned := plan.EndpointSlices(imp, view, serving(have, imp), local)
	changed := make(map[string]plan.Change[*discoveryv1.EndpointSlice], len(planned))
	for _, c := range planned {
		changed[c.Object.Name] = c
	}
	var changes, deletes []plan.Change[*discoveryv1.EndpointSlice]
	for _, c := range planned {
		if stands[c.Object.Name] == nil {
			c.Object = placed(c.Object, nil, places[Source(c.Object)], imp.Kind)
			changes = append(changes, c)
		}
	}
	for _, h := range have {
		c, ok := changed[h.Name]
		if ok && c.Verb == plan.Delete {
			deletes = append(deletes, c)
			continue
		}
		want, why := h, "its place changed"
		if ok {
			want, why = c.Object, c.Why
		}
		want = placed(want, h, places[Source(h)], imp.Kind)
		if sameMarks(want, h) && (!ok || sameContent(want, h)) {
			continue // if planned, then for a label that its place takes back
		}
		changes = append(changes, plan.Change[*discoveryv1.EndpointSlice]{Verb: plan.Update, Object: want, Why: why})
	}
	return append(changes, deletes...)
}

func sameContent(a, b *discoveryv1.EndpointSlice) bool {
	return apiequality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) && apiequality.Semantic.DeepEqual(a.Ports, b.Ports)
}

// sameMarks compares what places change.
func sameMarks(a, b *discoveryv1.EndpointSlice) bool {
	return maps.Equal(a.Labels, b.Labels) && NoteOf(a) == NoteOf(b)
}

// NoteOf is the policy that is kept on a slice, "" for none.
func NoteOf(s *discoveryv1.EndpointSlice) OnLost { return OnLost(s.Annotations[mcs.AnnotationOnLost]) }

// noted is a slice with a note, or the slice itself when it has it.
func noted(s *discoveryv1.EndpointSlice, note OnLost) *discoveryv1.EndpointSlice {
	if NoteOf(s) == note {
		return s
	}
	s = s.DeepCopy()
	if note == "" {
		delete(s.Annotations, mcs.AnnotationOnLost)
		return s
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[mcs.AnnotationOnLost] = string(note)
	return s
}

// Source is the cluster that a mirrored slice came from, parked or not.
func Source(s *discoveryv1.EndpointSlice) mcs.ClusterID {
	if cluster, ok := s.Labels[mcs.LabelParkedCluster]; ok {
		return mcs.ClusterID(cluster)
	}
	return mcs.ClusterID(s.Labels[mcs.LabelSourceCluster])
}

// Service is the name of the service that a mirrored slice belongs to, parked or not.
func Service(s *discoveryv1.EndpointSlice) string {
	if name, ok := s.Labels[mcs.LabelParkedService]; ok {
		return name
	}
	return s.Labels[mcs.LabelServiceName]
}

// serving are the slices with the labels that they have when they serve.
func serving(have []*discoveryv1.EndpointSlice, imp *model.Import) []*discoveryv1.EndpointSlice {
	all := make([]*discoveryv1.EndpointSlice, len(have))
	for i, h := range have {
		_, hidden := h.Labels[mcs.LabelHeadless]
		if imp != nil {
			hidden = imp.Kind == model.Headless
		}
		all[i] = labelled(h, false, hidden)
	}
	return all
}

// placed is a slice with the labels of a place; have is the slice as it stands,
// nil when it does not.
func placed(s, have *discoveryv1.EndpointSlice, place Place, kind model.Kind) *discoveryv1.EndpointSlice {
	parked := place.Park == Parked
	if place.Park == AsIs && have != nil {
		_, parked = have.Labels[mcs.LabelParkedCluster]
	}
	s = labelled(s, parked, parked || place.HeldBack || kind == model.Headless)
	switch {
	case place.Note != nil:
		return noted(s, *place.Note)
	case have != nil:
		return noted(s, NoteOf(have))
	}
	return s
}

// labelled is a slice with the labels of a place, or the slice itself when it has them.
func labelled(s *discoveryv1.EndpointSlice, parked, hidden bool) *discoveryv1.EndpointSlice {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	service, source := Service(s), string(Source(s))
	for _, name := range []string{mcs.LabelParkedService, mcs.LabelParkedCluster, mcs.LabelServiceName, mcs.LabelSourceCluster, mcs.LabelHeadless} {
		delete(labels, name)
	}
	if parked {
		labels[mcs.LabelParkedService], labels[mcs.LabelParkedCluster] = service, source
	} else {
		labels[mcs.LabelServiceName], labels[mcs.LabelSourceCluster] = service, source
	}
	if hidden {
		labels[mcs.LabelHeadless] = ""
	}
	if maps.Equal(labels, s.Labels) {
		return s
	}
	s = s.DeepCopy()
	s.Labels = labels
	return s
}
