package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/merge"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// here is the importing cluster.
const here = mcs.ClusterID("here")

var local = plan.Local{Cluster: here, Prefix: mcs.DefaultDerivedPrefix, Families: []model.Family{model.IPv4, model.IPv6}}

// world is a clusterset: what users wrote in each cluster, and what syncd wrote
// here.
type world struct {
	objects map[mcs.ClusterID]map[string]any // by KIND/NAMESPACE/NAME
	unknown map[mcs.ClusterID]bool

	imports  map[mcs.ServiceKey]*api.ServiceImport
	services map[mcs.ServiceKey]*corev1.Service
	slices   map[mcs.ServiceKey]map[string]*discoveryv1.EndpointSlice
	// conflicts are what each exporter is told.
	conflicts map[mcs.ServiceKey][]model.Conflict
	vips      int // allotted so far
}

func newWorld() *world {
	return &world{
		objects:   map[mcs.ClusterID]map[string]any{},
		unknown:   map[mcs.ClusterID]bool{},
		imports:   map[mcs.ServiceKey]*api.ServiceImport{},
		services:  map[mcs.ServiceKey]*corev1.Service{},
		slices:    map[mcs.ServiceKey]map[string]*discoveryv1.EndpointSlice{},
		conflicts: map[mcs.ServiceKey][]model.Conflict{},
	}
}

// apply puts the objects of a YAML text into a cluster.
func (w *world) apply(cluster mcs.ClusterID, text string) error {
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		id, object, err := decode(document)
		if err != nil {
			return err
		}
		if w.objects[cluster] == nil {
			w.objects[cluster] = map[string]any{}
		}
		w.objects[cluster][id] = object
	}
	return nil
}

// decode reads one object of a user.
func decode(document string) (id string, object any, err error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return "", nil, err
	}
	var into runtime.Object
	switch kind.Kind {
	case "ServiceExport":
		into = &api.ServiceExport{}
	case "Service":
		into = &corev1.Service{}
	case "EndpointSlice":
		into = &discoveryv1.EndpointSlice{}
	default:
		return "", nil, fmt.Errorf("object of kind %q: want ServiceExport, Service or EndpointSlice", kind.Kind)
	}
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		return "", nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	m, err := meta.Accessor(into)
	if err != nil {
		return "", nil, err
	}
	return kind.Kind + "/" + m.GetNamespace() + "/" + m.GetName(), into, nil
}

// sync does what syncd does, for every service that anybody speaks of, and
// returns how many writes that took.
func (w *world) sync() (writes int, err error) {
	offers := map[mcs.ClusterID]map[mcs.ServiceKey]model.Export{}
	keys := map[mcs.ServiceKey]bool{}
	for cluster, objects := range w.objects {
		if w.unknown[cluster] {
			continue
		}
		offers[cluster] = peer.Offers(cluster, slices.Collect(maps.Values(objects)))
		for key := range offers[cluster] {
			keys[key] = true
		}
	}
	for key := range w.imports {
		keys[key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), mcs.ServiceKey.Compare) {
		n, err := w.syncService(key, offers)
		if err != nil {
			return 0, err
		}
		writes += n
	}
	return writes, nil
}

func (w *world) syncService(key mcs.ServiceKey, offers map[mcs.ClusterID]map[mcs.ServiceKey]model.Export) (writes int, err error) {
	have := w.imports[key]
	view := model.View{Key: key, Unknown: slices.Collect(maps.Keys(w.unknown))}
	for _, of := range offers {
		if offer, ok := of[key]; ok {
			view.Exports = append(view.Exports, offer)
		}
	}
	if have != nil {
		stored, err := model.DecodeExports(key, have.Annotations[mcs.AnnotationExports])
		if err != nil {
			return 0, err
		}
		for _, offer := range stored {
			if w.unknown[offer.Cluster] {
				view.Exports = append(view.Exports, offer)
			}
		}
	}
	w.conflicts[key] = merge.Conflicts(view.Exports)
	var imp *model.Import
	if merged, ok := merge.Merge(view.Exports, plan.PortsOf(have)); ok {
		imp = &merged
	}

	service := plan.Service(imp, w.services[key], local)
	writes += w.writeService(key, service)
	standing := slices.Collect(maps.Values(w.slices[key]))
	changes := plan.EndpointSlices(imp, view, standing, local)
	writes += len(changes)
	w.slices[key] = map[string]*discoveryv1.EndpointSlice{}
	for _, s := range plan.Standing(standing, changes) {
		w.slices[key][s.Name] = s
	}

	in := plan.ImportInput{
		Import: imp, Exports: merge.Order(view.Exports), Service: w.services[key],
		Slices: plan.Standing(standing, changes), Have: have,
	}
	change := plan.ServiceImport(in, local)
	if change.Verb != plan.None {
		writes++
	}
	if imp == nil {
		delete(w.imports, key)
		return writes, nil
	}
	in.Have = change.Object
	status := plan.ImportStatus(in, local, metav1.NewTime(time.Unix(0, 0).UTC()))
	if status.Verb != plan.None {
		writes++
	}
	w.imports[key] = status.Object
	return writes, nil
}

// writeService stands for the API server: it allots the addresses.
func (w *world) writeService(key mcs.ServiceKey, change plan.Change[*corev1.Service]) int {
	switch change.Verb {
	case plan.None:
		return 0
	case plan.Delete:
		delete(w.services, key)
		return 1
	case plan.Create:
		w.vips++
	case plan.Update:
	}
	s := change.Object
	for i := len(s.Spec.ClusterIPs); i < len(s.Spec.IPFamilies); i++ {
		ip := fmt.Sprintf("10.96.0.%d", w.vips)
		if s.Spec.IPFamilies[i] == corev1.IPv6Protocol {
			ip = fmt.Sprintf("fd00:96::%d", w.vips)
		}
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, ip)
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	w.services[key] = s
	return 1
}
