package caserun

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// generators make objects in bulk.
var generators = map[string]func(Generate) ([]Object, error){
	"imported-slices":   importedSlices,
	"exported-services": exportedServices,
}

func importedSlices(g Generate) ([]Object, error) {
	namespace, service, ok := strings.Cut(g.Service, "/")
	ip, err := netip.ParseAddr(g.FirstIP)
	if err != nil || !ok || g.PerSlice < 1 {
		return nil, errors.New("generate: want service NAMESPACE/NAME, per_slice and first_ip")
	}
	var objects []Object
	for begin := 0; begin < g.Count; begin += g.PerSlice {
		var endpoints []any
		for i := begin; i < min(g.Count, begin+g.PerSlice); i++ {
			endpoints = append(endpoints, map[string]any{
				"addresses":  []any{ip.String()},
				"hostname":   fmt.Sprintf("%s%d", g.HostnamePrefix, i),
				"conditions": map[string]any{"ready": true},
			})
			ip = ip.Next()
		}
		labels := map[string]any{
			"multicluster.kubernetes.io/service-name":   service,
			"multicluster.kubernetes.io/source-cluster": g.SourceCluster,
			"endpointslice.kubernetes.io/managed-by":    "syncd.example",
		}
		objects = append(objects, slice(namespace, fmt.Sprintf("%s-g%d", service, begin/g.PerSlice), labels, endpoints))
	}
	return objects, nil
}

func exportedServices(g Generate) ([]Object, error) {
	ip := netip.MustParseAddr("10.64.0.1")
	var objects []Object
	for i := range g.Count {
		name := generatedName(i)
		metadata := map[string]any{"namespace": g.Namespace, "name": name}
		objects = append(objects, Object{
			"apiVersion": "v1", "kind": "Service", "metadata": metadata,
			"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}}},
		}, Object{
			"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": metadata,
		})
		for s := range g.SlicesEach {
			var endpoints []any
			for range g.EndpointsPerSlice {
				endpoints = append(endpoints, map[string]any{"addresses": []any{ip.String()}, "conditions": map[string]any{"ready": true}})
				ip = ip.Next()
			}
			labels := map[string]any{
				"kubernetes.io/service-name":             name,
				"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
			}
			objects = append(objects, slice(g.Namespace, fmt.Sprintf("%s-s%d", name, s), labels, endpoints))
		}
	}
	return objects, nil
}

func slice(namespace, name string, labels map[string]any, endpoints []any) Object {
	return Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
		"metadata":    map[string]any{"namespace": namespace, "name": name, "labels": labels},
		"addressType": "IPv4",
		"ports":       []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}},
		"endpoints":   endpoints,
	}
}

// change is a change whose way to another cluster is measured.
type change struct {
	service, address string
	made             time.Time
	seen             time.Duration // 0 until it has been
}

// doPatchGenerated gives the first slice of a generated service an address that
// no other has.
func doPatchGenerated(ctx context.Context, w *world, e Event) error {
	m, err := w.member(e.Cluster)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(w.c.Generate, func(g Generate) bool { return g.Cluster == e.Cluster && g.Kind == "exported-services" })
	if at < 0 {
		return fmt.Errorf("%s has no generated services", e.Cluster)
	}
	namespace := w.c.Generate[at].Namespace
	w.change = &change{service: generatedName(e.Index), address: nowhere}
	patch := []byte(`{"endpoints":[{"addresses":["` + nowhere + `"],"conditions":{"ready":true}}]}`)
	client, err := m.of("EndpointSlice", namespace)
	if err != nil {
		return err
	}
	w.change.made = time.Now()
	if _, err := client.Patch(ctx, w.change.service+"-s0", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("patch generated slice: %w", err)
	}
	return nil
}

// generatedName is the name of a generated service.
func generatedName(index int) string { return fmt.Sprintf("made-%d", index) }

func (o LatencyCheck) eval(ctx context.Context, w *world) error {
	if w.change == nil {
		return errors.New("no change was made whose way could be measured")
	}
	if w.change.seen == 0 {
		found, err := w.find(ctx, ObjectCheck{
			Cluster: o.To, Kind: "EndpointSlice",
			Select: map[string]string{mcs.LabelServiceName: w.change.service, mcs.LabelSourceCluster: o.From},
		})
		if err != nil {
			return err
		}
		if !slices.Contains(readyAddresses(found), w.change.address) {
			return fmt.Errorf("the change of %s is not in %s after %v", w.change.service, o.To, time.Since(w.change.made))
		}
		w.change.seen = time.Since(w.change.made)
	}
	if took := w.change.seen.Seconds(); took > o.MaxSeconds {
		return fmt.Errorf("the change of %s came to %s after %.2f s, want at most %.2f s", w.change.service, o.To, took, o.MaxSeconds)
	}
	return nil
}
