package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// gkeServiceExports is GKE's kind of export. It has no fields of its own and the
// conditions of the standard one, so that it is read as one.
var gkeServiceExports = schema.GroupVersionResource{Group: "net.gke.io", Version: "v1", Resource: "serviceexports"}

// GKEExportKind is the kind of GKE's exports.
var GKEExportKind = gkeServiceExports.GroupVersion().WithKind("ServiceExport")

// GKEServiceExports follows net.gke.io ServiceExports, as the standard type.
func GKEServiceExports(client dynamic.Interface, namespace string) Resource {
	exports := GKEExports(client, namespace)
	return Resource{
		Name:    "serviceexports.net.gke.io",
		Example: &api.ServiceExport{},
		List:    exports.list,
		Watch:   exports.watch,
	}
}

// GKEExportClient reads and writes net.gke.io ServiceExports of a namespace as
// the standard type. They are users' objects: only their status is written.
type GKEExportClient struct {
	client dynamic.ResourceInterface
}

// GKEExports is the client for a namespace.
func GKEExports(client dynamic.Interface, namespace string) GKEExportClient {
	return GKEExportClient{client.Resource(gkeServiceExports).Namespace(namespace)}
}

// Get reads one.
func (c GKEExportClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*api.ServiceExport, error) {
	object, err := c.client.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return toExport(object)
}

// UpdateStatus writes the status of one.
func (c GKEExportClient) UpdateStatus(ctx context.Context, export *api.ServiceExport, options metav1.UpdateOptions) (*api.ServiceExport, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(export)
	if err != nil {
		return nil, fmt.Errorf("encode ServiceExport: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(gkeServiceExports.GroupVersion().WithKind("ServiceExport"))
	object, err = c.client.UpdateStatus(ctx, object, options)
	if err != nil {
		return nil, err
	}
	return toExport(object)
}

func (c GKEExportClient) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := c.client.List(ctx, options)
	if err != nil {
		return nil, err
	}
	exports := &api.ServiceExportList{ListMeta: metav1.ListMeta{
		ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount(),
	}}
	for i := range list.Items {
		export, err := toExport(&list.Items[i])
		if err != nil {
			return nil, err
		}
		exports.Items = append(exports.Items, *export)
	}
	return exports, nil
}

func (c GKEExportClient) watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	w, err := c.client.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return apiwatch.Filter(w, func(e apiwatch.Event) (apiwatch.Event, bool) {
		object, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == apiwatch.Error {
			return e, true
		}
		export, err := toExport(object)
		if err != nil {
			return e, false
		}
		e.Object = export
		return e, true
	}), nil
}

func toExport(object *unstructured.Unstructured) (*api.ServiceExport, error) {
	export := &api.ServiceExport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, export); err != nil {
		return nil, fmt.Errorf("decode ServiceExport of net.gke.io: %w", err)
	}
	return export, nil
}
