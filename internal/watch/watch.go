// Package watch follows resources of an API server: it keeps a store equal to
// one resource, and tells whether it can.
//
// It is client-go's Reflector, with what operators need around it. Every list
// and watch call counts, also the reconnects that a Reflector retries in
// silence, so that "cannot read" has a reason at once. And retries are never
// more than a few seconds apart, so that what was mended is seen soon.
package watch

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Resource is one list-and-watch of one API server.
type Resource struct {
	// Name is for people: plural.group, as in an RBAC rule.
	Name string
	// Example is an empty object of the kind.
	Example runtime.Object
	List    func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch   func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}

// retry is the pause between attempts: a fifth of a second at first, and never
// more than 5 s and a half.
func retry() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 5 * time.Second}
}

// Run keeps store equal to the resource until ctx ends. After each call report
// is told whether the resource can be read, nil when it can; see verdict for
// what it is spared. It must not block.
func (r Resource) Run(ctx context.Context, store cache.ReflectorStore, report func(error)) {
	v := &verdict{report: report, now: time.Now}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := r.List(ctx, options)
			if err != nil {
				err = fmt.Errorf("list %s: %w", r.Name, err)
			}
			if ctx.Err() == nil && !transient(err, options) {
				v.called(verbList, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := r.Watch(ctx, options)
			if err != nil {
				err = fmt.Errorf("watch %s: %w", r.Name, err)
			}
			if ctx.Err() == nil && !transient(err, options) {
				if err == nil && options.SendInitialEvents != nil {
					v.called(verbList, nil) // a streaming list
				}
				v.called(verbWatch, err)
			}
			return w, err
		},
	}
	// The report is the log: client-go's own lines would repeat it at each retry.
	var silent klog.Logger // the zero logger says nothing
	reflector := cache.NewReflectorWithOptions(lw, r.Example, store, cache.ReflectorOptions{
		Name: r.Name, TypeDescription: r.Name, Logger: &silent, Backoff: retry(),
	})
	reflector.RunWithContext(klog.NewContext(ctx, silent))
}
