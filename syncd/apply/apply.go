package apply

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// Errors that a caller branches on.
var (
	// ErrStale: the plan was made on an object that has changed since. The fresh
	// one is in the Cache: plan again at once.
	ErrStale = errors.New("planned on an old state")
	// ErrNamespaceGone: the namespace goes or went away, and all in it.
	ErrNamespaceGone = errors.New("the namespace is gone")
)

// NameTakenError says that an object of somebody else has a name that syncd needs;
// it is left alone.
type NameTakenError struct {
	// Object is the object as a message names it: "services shop/web".
	Object string
}

// Error implements error.
func (e *NameTakenError) Error() string {
	return "the name is taken by an object that is not syncd's: " + e.Object
}

// Writer makes API calls in the local cluster.
type Writer struct {
	clients watch.Clients
	cache   *Cache
	wrote   func(resource string, verb plan.Verb, err error)
	events  *rate.Limiter
}

// NewWriter makes a Writer. wrote is told of each call: the resource, the verb,
// and its error.
func NewWriter(clients watch.Clients, cache *Cache, wrote func(resource string, verb plan.Verb, err error)) *Writer {
	return &Writer{clients: clients, cache: cache, wrote: wrote, events: rate.NewLimiter(rate.Every(eventEvery), eventBurst)}
}

// Service carries out a change of a derived Service and returns it as it then
// stands, nil when there is none.
func (w *Writer) Service(ctx context.Context, change plan.Change[*corev1.Service]) (*corev1.Service, error) {
	if change.Verb == plan.None {
		return change.Object, nil
	}
	key, err := mcs.ParseServiceKey(change.Object.Annotations[mcs.AnnotationOrigin])
	if err != nil {
		return nil, fmt.Errorf("%s Service %s/%s: %w", change.Verb, change.Object.Namespace, change.Object.Name, err)
	}
	return do(ctx, w, "services", w.clients.Kube.CoreV1().Services(change.Object.Namespace), w.cache.Services,
		func(s *corev1.Service) bool { return plan.OwnsService(s, key) }, change)
}

// EndpointSlices carries out changes of mirrored slices. One that fails does not
// keep the others back; the errors are joined.
func (w *Writer) EndpointSlices(ctx context.Context, changes []plan.Change[*discoveryv1.EndpointSlice]) error {
	var failed []error
	for _, change := range changes {
		_, err := do(ctx, w, "endpointslices", w.clients.Kube.DiscoveryV1().EndpointSlices(change.Object.Namespace), w.cache.Slices,
			func(s *discoveryv1.EndpointSlice) bool { return s.Labels[mcs.LabelSliceManagedBy] == mcs.ManagedBy }, change)
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// ServiceImport carries out a change of an import, but for its status, and
// returns it as it then stands, nil when there is none.
func (w *Writer) ServiceImport(ctx context.Context, change plan.Change[*api.ServiceImport]) (*api.ServiceImport, error) {
	if change.Verb == plan.None {
		return change.Object, nil
	}
	return do(ctx, w, "serviceimports", w.clients.MCS.MulticlusterV1beta1().ServiceImports(change.Object.Namespace), w.cache.Imports, plan.OwnsImport, change)
}

// Endpoints carries out a change of the v1 Endpoints of a derived Service.
func (w *Writer) Endpoints(ctx context.Context, change plan.Change[*api.Endpoints]) error {
	if change.Verb == plan.None {
		return nil
	}
	key, _ := origin(change.Object)
	_, err := do(ctx, w, "endpoints", w.clients.Kube.CoreV1().Endpoints(change.Object.Namespace), w.cache.Endpoints,
		func(e *api.Endpoints) bool { return plan.OwnsEndpoints(e, key) }, change)
	return err
}

// ImportStatus carries out a change of an import's status.
func (w *Writer) ImportStatus(ctx context.Context, change plan.Change[*api.ServiceImport]) error {
	client := w.clients.MCS.MulticlusterV1beta1().ServiceImports
	return updateStatus(ctx, w, "serviceimports/status", importKind, func(ns string) statusClient[*api.ServiceImport] { return client(ns) }, w.cache.Imports, plan.OwnsImport, change)
}

// ExportStatus carries out a change of a ServiceExport's status.
func (w *Writer) ExportStatus(ctx context.Context, change plan.Change[*api.ServiceExport]) error {
	client := w.clients.MCS.MulticlusterV1beta1().ServiceExports
	return updateStatus(ctx, w, "serviceexports/status", exportKind, func(ns string) statusClient[*api.ServiceExport] { return client(ns) }, w.cache.Exports, anybodys, change)
}

// GKEExportStatus is ExportStatus for the kind of net.gke.io.
func (w *Writer) GKEExportStatus(ctx context.Context, change plan.Change[*api.ServiceExport]) error {
	return updateStatus(ctx, w, "serviceexports.net.gke.io/status", watch.GKEExportKind, func(ns string) statusClient[*api.ServiceExport] {
		return watch.GKEExports(w.clients.Dynamic, ns)
	}, w.cache.GKEExports, anybodys, change)
}

// anybodys is for objects that are users' own.
func anybodys(*api.ServiceExport) bool { return true }

// client is the part of a typed client that writes.
type client[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	reader[T]
}

// statusClient is the part of a typed client that writes a status.
type statusClient[T any] interface {
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// The kinds that events are about: objects of typed clients do not say theirs.
var (
	importKind = schema.GroupVersion(v1beta1.GroupVersion).WithKind(v1beta1.ServiceImportKindName)
	exportKind = schema.GroupVersion(v1beta1.GroupVersion).WithKind(v1beta1.ServiceExportKindName)
)

// updateStatus makes the call of a change of a status, which is always an update,
// and tells its events.
func updateStatus[T metav1.Object](ctx context.Context, w *Writer, resource string, kind schema.GroupVersionKind, clients func(namespace string) statusClient[T], table *watch.Table[T], owns func(T) bool, change plan.Change[T]) error {
	if change.Verb == plan.None {
		return nil
	}
	c := clients(change.Object.GetNamespace())
	after, err := c.UpdateStatus(ctx, change.Object, metav1.UpdateOptions{})
	after, err = settle(ctx, w, resource, c, table, owns, change, after, err)
	if err == nil {
		w.tell(ctx, kind, after, change.Events)
	}
	return err
}

// do makes the call of one change and takes its answer into the table.
func do[T metav1.Object](ctx context.Context, w *Writer, resource string, c client[T], table *watch.Table[T], owns func(T) bool, change plan.Change[T]) (T, error) {
	var (
		after = change.Object
		err   error
	)
	switch change.Verb {
	case plan.None:
		return change.Object, nil
	case plan.Create:
		after, err = c.Create(ctx, change.Object, metav1.CreateOptions{})
	case plan.Update:
		after, err = c.Update(ctx, change.Object, metav1.UpdateOptions{})
	case plan.Delete:
		uid := change.Object.GetUID()
		err = c.Delete(ctx, change.Object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	return settle(ctx, w, resource, c, table, owns, change, after, err)
}

// reader reads an object again.
type reader[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// settle takes the answer to a call into the table, and finds what an error means.
func settle[T metav1.Object](ctx context.Context, w *Writer, resource string, c reader[T], table *watch.Table[T], owns func(T) bool, change plan.Change[T], after T, err error) (T, error) {
	var none T
	w.wrote(resource, change.Verb, err)
	describe := func(err error) error {
		return fmt.Errorf("%s %s %s/%s: %w", change.Verb, resource, change.Object.GetNamespace(), change.Object.GetName(), err)
	}
	switch {
	case err == nil && change.Verb == plan.Delete:
		table.Forget(change.Object)
		return none, nil
	case err == nil:
		table.Put(after)
		return after, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return none, describe(ErrNamespaceGone)
	case isNamespaceMissing(err):
		return none, describe(ErrNamespaceGone)
	case apierrors.IsNotFound(err) && change.Verb != plan.Create:
		table.Forget(change.Object)
		if change.Verb == plan.Delete {
			return none, nil
		}
		return none, describe(ErrStale)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return none, describe(refresh(ctx, c, resource, table, owns, change.Object))
	}
	return none, describe(err)
}

// isNamespaceMissing tells a create in a namespace that is not there from one of
// a resource that is not served.
func isNamespaceMissing(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.ErrStatus.Details
	return details != nil && details.Kind == "namespaces"
}

// refresh reads an object that turned out to be another than was thought.
func refresh[T metav1.Object](ctx context.Context, c reader[T], resource string, table *watch.Table[T], owns func(T) bool, object T) error {
	fresh, err := c.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		table.Forget(object)
		return ErrStale
	case err != nil:
		return fmt.Errorf("read it again: %w", err)
	case !owns(fresh):
		table.Forget(object)
		return &NameTakenError{Object: resource + " " + object.GetNamespace() + "/" + object.GetName()}
	}
	table.Put(fresh)
	return ErrStale
}
