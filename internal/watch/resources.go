package watch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	mcsclient "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// typed is the part of a typed client that a Resource needs.
type typed[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

func resource[L runtime.Object](name string, example runtime.Object, client typed[L]) Resource {
	return Resource{
		Name:    name,
		Example: example,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		Watch: client.Watch,
	}
}

// Selecting narrows a resource to the objects with certain labels.
func (r Resource) Selecting(labels string) Resource {
	list, watch := r.List, r.Watch
	r.List = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		options.LabelSelector = labels
		return list(ctx, options)
	}
	r.Watch = func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		options.LabelSelector = labels
		return watch(ctx, options)
	}
	return r
}

// ServiceExports, ServiceImports, Services, EndpointSlices, Namespaces and
// Secrets are the resources that k8s-mcs reads; a namespace of "" means all.

// ServiceExports follows multicluster.x-k8s.io ServiceExports.
func ServiceExports(client mcsclient.Interface, namespace string) Resource {
	return resource("serviceexports.multicluster.x-k8s.io", &api.ServiceExport{}, client.MulticlusterV1beta1().ServiceExports(namespace))
}

// ServiceImports follows multicluster.x-k8s.io ServiceImports.
func ServiceImports(client mcsclient.Interface, namespace string) Resource {
	return resource("serviceimports.multicluster.x-k8s.io", &api.ServiceImport{}, client.MulticlusterV1beta1().ServiceImports(namespace))
}

// Services follows Services.
func Services(client kubernetes.Interface, namespace string) Resource {
	return resource("services", &corev1.Service{}, client.CoreV1().Services(namespace))
}

// EndpointSlices follows EndpointSlices.
func EndpointSlices(client kubernetes.Interface, namespace string) Resource {
	return resource("endpointslices.discovery.k8s.io", &discoveryv1.EndpointSlice{}, client.DiscoveryV1().EndpointSlices(namespace))
}

// Namespaces follows Namespaces.
func Namespaces(client kubernetes.Interface) Resource {
	return resource("namespaces", &corev1.Namespace{}, client.CoreV1().Namespaces())
}

// Secrets follows Secrets of one namespace.
func Secrets(client kubernetes.Interface, namespace string) Resource {
	return resource("secrets", &corev1.Secret{}, client.CoreV1().Secrets(namespace))
}

// Endpoints follows Endpoints.
func Endpoints(client kubernetes.Interface, namespace string) Resource {
	return resource("endpoints", &api.Endpoints{}, client.CoreV1().Endpoints(namespace))
}
