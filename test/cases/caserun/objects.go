package caserun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// resources are the kinds that cases may hold.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":     {Version: "v1", Resource: "namespaces"},
	"Service":       {Version: "v1", Resource: "services"},
	"ConfigMap":     {Version: "v1", Resource: "configmaps"},
	"Secret":        {Version: "v1", Resource: "secrets"},
	"Lease":         {Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	"ServiceExport": {Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"},
	"ServiceImport": {Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"},
}

// fieldManager owns what the runner applies.
const fieldManager = "cases"

// settleNew bounds the wait for what the API server needs before it takes an object.
const settleNew = 5 * time.Second

func splitRef(ref string) (kind, name string) {
	kind, name, _ = strings.Cut(ref, "/")
	return kind, name
}

// defaultNamespace is where references without a namespace point.
func defaultNamespace(namespace string) string {
	if namespace == "" {
		return "orchard"
	}
	return namespace
}

// of is the client for a kind in a namespace.
func (m *member) of(kind, namespace string) (dynamic.ResourceInterface, error) {
	resource, ok := resources[kind]
	switch {
	case !ok:
		return nil, fmt.Errorf("kind %q is none that cases know", kind)
	case kind == "Namespace":
		return m.objects.Resource(resource), nil
	default:
		return m.objects.Resource(resource).Namespace(namespace), nil
	}
}

// refusal is an object that the API server does not take, as the product is to
// see it; something harmless of its name is stored.
type refusal struct {
	kind, namespace, name string
	body                  map[string]any // of the top, without metadata
	touched               int
}

func (r *refusal) key() string { return r.kind + "/" + r.namespace + "/" + r.name }

// show makes a proxy show the object as it was meant.
func (r *way) show(o *refusal) {
	body := maps.Clone(o.body)
	r.proxy.Add(tamper.Rule{
		Match:  tamper.Match{Resource: resources[o.kind].Resource, Namespace: o.namespace, Name: o.name},
		Effect: tamper.Change(func(object map[string]any) { maps.Copy(object, body) }),
	})
}

// standIn is an object without what API servers may refuse.
func standIn(o *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	harmless := o.DeepCopy()
	switch o.GetKind() {
	case "EndpointSlice":
		harmless.Object["endpoints"] = []any{}
	case "ServiceImport":
		unstructured.RemoveNestedField(harmless.Object, "spec", "ips")
	default:
		return nil, false
	}
	return harmless, true
}

// apply writes an object. One that the API server refuses is stored as far as
// it goes, and a proxy shows the rest to the product.
func (w *world) apply(ctx context.Context, cluster string, object Object, replace bool) error {
	m, err := w.member(cluster)
	if err != nil {
		return err
	}
	o := prepare(object)
	if o.GetKind() != "Namespace" && o.GetNamespace() == "" {
		o.SetNamespace(defaultNamespace(""))
	}
	err = m.write(ctx, o, replace)
	if apierrors.IsInvalid(err) {
		if harmless, ok := standIn(o); ok {
			r := &refusal{kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName(), body: bodyOf(o.Object)}
			if shown := w.refuse(cluster, r); shown != nil {
				return errors.Join(err, shown)
			}
			err = m.write(ctx, harmless, replace)
		}
	}
	if err != nil {
		return fmt.Errorf("apply %s %s/%s to %s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), cluster, err)
	}
	return nil
}

// refuse notes a refused object and shows it on the ways that there are.
func (w *world) refuse(cluster string, r *refusal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused[cluster] == nil {
		w.refused[cluster] = map[string]*refusal{}
	}
	w.refused[cluster][r.key()] = r
	for _, way := range w.to(cluster) {
		if way.proxy == nil {
			return errors.New("the API server refuses it, and no proxy stands before it")
		}
		way.show(r)
	}
	return nil
}

func bodyOf(object map[string]any) map[string]any {
	body := maps.Clone(object)
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(body, key)
	}
	return body
}

// prepare makes an object of the case one that an API server takes: time stamps
// are the server's, and cluster IPs of the cluster's range.
func prepare(object Object) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	if o.GetKind() == "Service" {
		if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "" && ip != "None" {
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
		}
	}
	return o
}

func (m *member) write(ctx context.Context, o *unstructured.Unstructured, replace bool) error {
	client, err := m.of(o.GetKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	if replace {
		return m.replace(ctx, client, o)
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	deadline := time.Now().Add(settleNew)
	for {
		_, err = client.Apply(ctx, o.GetName(), o, options)
		// A new namespace is not everywhere at once in an API server.
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			break
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if _, has := o.Object["status"]; err != nil || !has {
		return err
	}
	_, err = client.ApplyStatus(ctx, o.GetName(), o, options)
	return err
}

func (m *member) replace(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	current, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	if err != nil {
		return err
	}
	o = o.DeepCopy()
	o.SetResourceVersion(current.GetResourceVersion())
	_, err = client.Update(ctx, o, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// load brings the state before step 0 into the clusters: namespaces first, and
// what has a creationTimestamp in that order, apart by at least a second where
// stamps differ and within one second where they are equal.
func (w *world) load(ctx context.Context) error {
	type placed struct {
		cluster string
		object  Object
	}
	groups := map[string][]placed{}
	for _, id := range w.c.clusterIDs() {
		objects := slices.Clone(w.c.Clusters[id].Objects)
		for _, g := range w.c.Generate {
			if g.Cluster != id {
				continue
			}
			made, err := generators[g.Kind](g)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", w.c.File, g.Line, err)
			}
			objects = append(objects, made...)
		}
		for _, object := range objects {
			o := unstructured.Unstructured{Object: object}
			stamp, _, _ := unstructured.NestedString(object, "metadata", "creationTimestamp")
			if o.GetKind() == "Namespace" {
				if err := w.apply(ctx, id, object, false); err != nil {
					return err
				}
				continue
			}
			groups[stamp] = append(groups[stamp], placed{id, object})
		}
	}
	stamps := slices.Sorted(maps.Keys(groups))
	for i, stamp := range stamps {
		if i > 0 && stamps[i-1] != "" {
			if err := sleep(ctx, 1100*time.Millisecond); err != nil {
				return err
			}
		}
		if stamp != "" && len(groups[stamp]) > 1 {
			if err := beginOfSecond(ctx); err != nil {
				return err
			}
		}
		// Those without a stamp in any order, several at a time.
		workers := 1
		if stamp == "" {
			workers = 4
		}
		var all sync.WaitGroup
		errs := make([]error, workers)
		for n := range workers {
			all.Go(func() {
				for i := n; i < len(groups[stamp]) && errs[n] == nil; i += workers {
					errs[n] = w.apply(ctx, groups[stamp][i].cluster, groups[stamp][i].object, false)
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// beginOfSecond waits until most of a second lies ahead.
func beginOfSecond(ctx context.Context) error {
	now := time.Now()
	if since := now.Sub(now.Truncate(time.Second)); since > 200*time.Millisecond {
		return sleep(ctx, time.Second-since)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mergePatch is what a JSON merge patch makes of a value (RFC 7396).
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if old, ok := target.(map[string]any); ok {
		maps.Copy(result, old)
	}
	for key, value := range changes {
		if value == nil {
			delete(result, key)
			continue
		}
		result[key] = mergePatch(result[key], value)
	}
	return result
}
