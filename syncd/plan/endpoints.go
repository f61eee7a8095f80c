package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// MaxEndpoints is the greatest number of addresses in v1 Endpoints; the API's
// own controller writes no more either.
const MaxEndpoints = 1000

// Standing are the slices of a service once changes are carried out.
func Standing(have []*discoveryv1.EndpointSlice, changes []Change[*discoveryv1.EndpointSlice]) []*discoveryv1.EndpointSlice {
	standing := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range have {
		standing[s.Name] = s
	}
	for _, c := range changes {
		if c.Verb == Delete {
			delete(standing, c.Object.Name)
		} else {
			standing[c.Object.Name] = c.Object
		}
	}
	return slices.SortedFunc(maps.Values(standing), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// Endpoints plans the v1 Endpoints under the derived name, which kubectl and
// GKE's tools show; kube-proxy reads the slices. There are none without
// GKECompat, for a nil import or a headless one.
func Endpoints(imp *model.Import, standing []*discoveryv1.EndpointSlice, have *api.Endpoints, local Local) Change[*api.Endpoints] {
	if !local.GKECompat || imp == nil || imp.Kind == model.Headless {
		if have == nil {
			return Change[*api.Endpoints]{}
		}
		return Change[*api.Endpoints]{Verb: Delete, Object: have, Why: "no ClusterSetIP import needs them"}
	}
	want := &api.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: imp.Key.Namespace,
		Name:      mcs.DerivedName(local.Prefix, imp.Key),
	}}
	verb, why := Create, "the derived Service has no Endpoints yet"
	if have != nil {
		want, verb, why = have.DeepCopy(), Update, "the Endpoints differ from the slices"
	}
	want.Labels = with(want.Labels, map[string]string{
		mcs.LabelManagedBy:     mcs.ManagedBy,
		mcs.LabelOriginService: imp.Key.Name,
		mcs.LabelSkipMirror:    "true",
	})
	want.Annotations = with(want.Annotations, map[string]string{mcs.AnnotationOrigin: imp.Key.String()})
	want.Subsets = subsets(standing)
	if have != nil && apiequality.Semantic.DeepEqual(have, want) {
		return Change[*api.Endpoints]{Object: have}
	}
	return Change[*api.Endpoints]{Verb: verb, Object: want, Why: why}
}

// OwnsEndpoints reports whether Endpoints under a derived name are those of
// this import, and not somebody else's.
func OwnsEndpoints(e *api.Endpoints, key mcs.ServiceKey) bool {
	return e.Labels[mcs.LabelManagedBy] == mcs.ManagedBy && e.Annotations[mcs.AnnotationOrigin] == key.String()
}

// subsets are the addresses of slices by their ports, in a fixed order.
func subsets(standing []*discoveryv1.EndpointSlice) []api.EndpointSubset {
	byPorts := map[string]*api.EndpointSubset{}
	seen := map[string]bool{}
	for _, s := range standing {
		ports := endpointPorts(s)
		set := portsKey(ports)
		for _, e := range s.Endpoints {
			if len(e.Addresses) == 0 || len(seen) == MaxEndpoints || seen[e.Addresses[0]] {
				continue
			}
			seen[e.Addresses[0]] = true
			subset := byPorts[set]
			if subset == nil {
				subset = &api.EndpointSubset{Ports: ports}
				byPorts[set] = subset
			}
			address := api.EndpointAddress{IP: e.Addresses[0]}
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				subset.Addresses = append(subset.Addresses, address)
			} else {
				subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
			}
		}
	}
	out := make([]api.EndpointSubset, 0, len(byPorts))
	for _, set := range slices.Sorted(maps.Keys(byPorts)) {
		subset := byPorts[set]
		slices.SortFunc(subset.Addresses, byIP)
		slices.SortFunc(subset.NotReadyAddresses, byIP)
		out = append(out, *subset)
	}
	return out
}

// portsKey is equal for equal ports.
func portsKey(ports []api.EndpointPort) string {
	var key strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&key, "%s/%s/%d/", p.Name, p.Protocol, p.Port)
		if p.AppProtocol != nil {
			key.WriteString(*p.AppProtocol)
		}
		key.WriteByte(' ')
	}
	return key.String()
}

func byIP(a, b api.EndpointAddress) int { return cmp.Compare(a.IP, b.IP) }

func endpointPorts(s *discoveryv1.EndpointSlice) []api.EndpointPort {
	ports := make([]api.EndpointPort, 0, len(s.Ports))
	for _, p := range s.Ports {
		port := api.EndpointPort{Protocol: corev1.ProtocolTCP}
		if p.Name != nil {
			port.Name = *p.Name
		}
		if p.Protocol != nil {
			port.Protocol = *p.Protocol
		}
		if p.Port != nil {
			port.Port = *p.Port
		}
		if p.AppProtocol != nil {
			port.AppProtocol = p.AppProtocol
		}
		ports = append(ports, port)
	}
	return ports
}
