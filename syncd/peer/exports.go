package peer

import (
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsclient "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// anyVersion follows the ServiceExports of a cluster that may serve an older
// version of the API only. The newer one is asked for first at each list, and at
// each watch of the older one, which last some minutes.
func anyVersion(client mcsclient.Interface) watch.Resource {
	newer := watch.ServiceExports(client, "")
	older := client.MulticlusterV1alpha1().ServiceExports("")
	var useOlder atomic.Bool
	return watch.Resource{
		Name:    newer.Name,
		Example: newer.Example,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := newer.List(ctx, options)
			if !apierrors.IsNotFound(err) {
				useOlder.Store(false)
				return list, err
			}
			old, oldErr := older.List(ctx, options)
			if oldErr != nil {
				if !apierrors.IsNotFound(oldErr) {
					err = oldErr
				}
				return list, err
			}
			useOlder.Store(true)
			converted := &api.ServiceExportList{ListMeta: old.ListMeta}
			for i := range old.Items {
				converted.Items = append(converted.Items, *fromV1alpha1(&old.Items[i]))
			}
			return converted, nil
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			if options.SendInitialEvents == nil && useOlder.Load() {
				if _, err := newer.List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
					return nil, apierrors.NewResourceExpired("the newer version of the API is served now")
				}
			} else {
				w, err := newer.Watch(ctx, options)
				if !apierrors.IsNotFound(err) {
					useOlder.Store(false)
					return w, err
				}
			}
			w, err := older.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			useOlder.Store(true)
			return apiwatch.Filter(w, func(e apiwatch.Event) (apiwatch.Event, bool) {
				if old, ok := e.Object.(*mcsv1alpha1.ServiceExport); ok {
					e.Object = fromV1alpha1(old)
				}
				return e, true
			}), nil
		},
	}
}

// fromV1alpha1 is an export as the newer version has it: the fields are the same.
func fromV1alpha1(old *mcsv1alpha1.ServiceExport) *api.ServiceExport {
	export := &api.ServiceExport{ObjectMeta: old.ObjectMeta}
	export.Spec.ExportedLabels, export.Spec.ExportedAnnotations = old.Spec.ExportedLabels, old.Spec.ExportedAnnotations
	return export
}
