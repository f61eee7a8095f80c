package apply

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// Cache holds the objects of the local cluster that syncd writes.
type Cache struct {
	// Imports are all ServiceImports, also those of others.
	Imports *watch.Table[*api.ServiceImport]
	// Exports are the ServiceExports, for their status.
	Exports *watch.Table[*api.ServiceExport]
	// GKEExports are the ServiceExports of net.gke.io, for their status, and
	// Endpoints those of derived Services; both are nil without --gke-compat.
	GKEExports *watch.Table[*api.ServiceExport]
	Endpoints  *watch.Table[*api.Endpoints]
	// Services are the derived Services, by their ServiceImport.
	Services *watch.Table[*corev1.Service]
	// Slices are the mirrored EndpointSlices, by their ServiceImport.
	Slices *watch.Table[*discoveryv1.EndpointSlice]
	// Namespaces are those that exist and are not going away, under a key
	// without a service name.
	Namespaces *watch.Table[struct{}]
}

// NewCache makes an empty Cache; changed is told of each service with an object
// that changed, and of namespaces as keys without a service name.
func NewCache(changed func(mcs.ServiceKey), gkeCompat bool) *Cache {
	c := &Cache{
		Imports: watch.NewTable(watch.TableOptions[*api.ServiceImport]{
			Changed: changed,
			Equal:   sameVersion[*api.ServiceImport],
			Convert: func(object any) (mcs.ServiceKey, *api.ServiceImport, bool) {
				i, ok := object.(*api.ServiceImport)
				if !ok {
					return mcs.ServiceKey{}, nil, false
				}
				return mcs.ServiceKey{Namespace: i.Namespace, Name: i.Name}, i, true
			},
		}),
		Exports: exportTable(changed),
		Services: watch.NewTable(watch.TableOptions[*corev1.Service]{
			Changed: changed,
			Equal:   sameVersion[*corev1.Service],
			Convert: func(object any) (mcs.ServiceKey, *corev1.Service, bool) {
				s, ok := object.(*corev1.Service)
				if !ok {
					return mcs.ServiceKey{}, nil, false
				}
				key, ok := origin(s)
				return key, s, ok && plan.OwnsService(s, key)
			},
		}),
		Slices: watch.NewTable(watch.TableOptions[*discoveryv1.EndpointSlice]{
			Changed: changed,
			Equal:   sameVersion[*discoveryv1.EndpointSlice],
			Convert: func(object any) (mcs.ServiceKey, *discoveryv1.EndpointSlice, bool) {
				s, ok := object.(*discoveryv1.EndpointSlice)
				if !ok || s.Labels[mcs.LabelSliceManagedBy] != mcs.ManagedBy {
					return mcs.ServiceKey{}, nil, false
				}
				name := policy.Service(s)
				return mcs.ServiceKey{Namespace: s.Namespace, Name: name}, s, name != ""
			},
		}),
		Namespaces: watch.NewTable(watch.TableOptions[struct{}]{
			Changed: changed,
			Equal:   func(struct{}, struct{}) bool { return true },
			Convert: func(object any) (mcs.ServiceKey, struct{}, bool) {
				n, ok := object.(*corev1.Namespace)
				if !ok || n.DeletionTimestamp != nil {
					return mcs.ServiceKey{}, struct{}{}, false
				}
				return mcs.ServiceKey{Namespace: n.Name}, struct{}{}, true
			},
		}),
	}
	if gkeCompat {
		c.GKEExports = exportTable(changed)
		c.Endpoints = watch.NewTable(watch.TableOptions[*api.Endpoints]{
			Changed: changed,
			Equal:   sameVersion[*api.Endpoints],
			Convert: func(object any) (mcs.ServiceKey, *api.Endpoints, bool) {
				e, ok := object.(*api.Endpoints)
				if !ok {
					return mcs.ServiceKey{}, nil, false
				}
				key, ok := origin(e)
				return key, e, ok && plan.OwnsEndpoints(e, key)
			},
		})
	}
	return c
}

func exportTable(changed func(mcs.ServiceKey)) *watch.Table[*api.ServiceExport] {
	return watch.NewTable(watch.TableOptions[*api.ServiceExport]{
		Changed: changed,
		Equal:   sameVersion[*api.ServiceExport],
		Convert: func(object any) (mcs.ServiceKey, *api.ServiceExport, bool) {
			e, ok := object.(*api.ServiceExport)
			if !ok {
				return mcs.ServiceKey{}, nil, false
			}
			return mcs.ServiceKey{Namespace: e.Namespace, Name: e.Name}, e, true
		},
	})
}

// origin is the ServiceImport that a derived object says it is of.
func origin(object metav1.Object) (mcs.ServiceKey, bool) {
	key, err := mcs.ParseServiceKey(object.GetAnnotations()[mcs.AnnotationOrigin])
	return key, err == nil && key.Namespace == object.GetNamespace()
}

// sameVersion tells the echo of a write of our own from news.
func sameVersion[T metav1.Object](a, b T) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// Missing names the resources that have not been read yet. The exports of
// net.gke.io are not among them: a cluster need not serve them.
func (c *Cache) Missing() []string {
	var missing []string
	for _, t := range []struct {
		name   string
		synced bool
	}{
		{"serviceimports", c.Imports.HasSynced()},
		{"serviceexports", c.Exports.HasSynced()},
		{"services", c.Services.HasSynced()},
		{"endpointslices", c.Slices.HasSynced()},
		{"namespaces", c.Namespaces.HasSynced()},
		{"endpoints", c.Endpoints == nil || c.Endpoints.HasSynced()},
	} {
		if !t.synced {
			missing = append(missing, t.name)
		}
	}
	return missing
}

// Keys are the services that have an object of syncd here, or a ServiceExport.
func (c *Cache) Keys() []mcs.ServiceKey {
	keys := c.Imports.Keys()
	keys = append(keys, c.Exports.Keys()...)
	keys = append(keys, c.Services.Keys()...)
	if c.GKEExports != nil {
		keys = append(keys, c.GKEExports.Keys()...)
		keys = append(keys, c.Endpoints.Keys()...)
	}
	return append(keys, c.Slices.Keys()...)
}

// HasNamespace reports whether a namespace exists and is not going away.
func (c *Cache) HasNamespace(namespace string) bool {
	_, ok := c.Namespaces.One(mcs.ServiceKey{Namespace: namespace})
	return ok
}
