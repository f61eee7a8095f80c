package source

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// store is what one Reflector writes to: it turns objects of one kind, from one
// namespace or from all, into inputs of the zone's Builder.
type store[In runtime.Object, Out any] struct {
	// convert is the pure step; see convert.go.
	convert func(In) (out Out, problems []problem, ok bool)
	// set, remove and replace write to the Builder. change runs them, under its
	// lock, and wakes the publisher.
	set     func(Out)
	remove  func(namespace, name string)
	replace func([]Out)
	change  func(write func())
	// triggered is told, inside change, when the change of an object began.
	triggered func(namespace, name string, at time.Time)
	// rejected reports problems with an object.
	rejected func(namespace, name string, problems []problem)
	// heard is when the API server last said something, in nanoseconds since
	// 1970: an event, or a bookmark, which comes about once a minute.
	heard *atomic.Int64
	// synced is called once, after the first complete list.
	synced func()
	once   sync.Once
}

var (
	_ cache.TransformingStore      = &store[runtime.Object, struct{}]{}
	_ cache.ResourceVersionUpdater = &store[runtime.Object, struct{}]{}
)

// item is a converted object. The Reflector keeps the first list as items, so
// that whole objects are garbage as soon as they are decoded.
type item[Out any] struct {
	namespace, name string
	out             Out
	ok              bool
	trigger         time.Time // zero when the object does not say
}

// GetObjectMeta lets client-go compute the key of an item.
func (i *item[Out]) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.namespace, Name: i.name}
}

// Transformer implements cache.TransformingStore.
func (s *store[In, Out]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.item(obj) }
}

// item converts an object, unless that was done before.
func (s *store[In, Out]) item(obj any) (*item[Out], error) {
	switch obj := obj.(type) {
	case *item[Out]:
		return obj, nil
	case In:
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
		it := &item[Out]{namespace: m.GetNamespace(), name: m.GetName()}
		if at, err := time.Parse(time.RFC3339Nano, m.GetAnnotations()[mcs.AnnotationTriggerTime]); err == nil {
			it.trigger = at
		}
		var problems []problem
		if it.out, problems, it.ok = s.convert(obj); len(problems) > 0 {
			s.rejected(it.namespace, it.name, problems)
		}
		return it, nil
	default:
		return nil, fmt.Errorf("convert object: unexpected type %T", obj)
	}
}

// Add implements cache.ReflectorStore.
func (s *store[In, Out]) Add(obj any) error {
	it, err := s.item(obj)
	if err != nil {
		return err
	}
	s.change(func() {
		if it.ok {
			s.set(it.out)
		} else {
			s.remove(it.namespace, it.name)
		}
		s.triggered(it.namespace, it.name, it.trigger)
	})
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[In, Out]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *store[In, Out]) Delete(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	s.change(func() {
		s.remove(m.GetNamespace(), m.GetName())
		s.triggered(m.GetNamespace(), m.GetName(), time.Time{})
	})
	return nil
}

// Replace implements cache.ReflectorStore: a complete list, at first and after
// an outage, in which deletions were missed.
func (s *store[In, Out]) Replace(objs []any, _ string) error {
	out := make([]Out, 0, len(objs))
	for _, obj := range objs {
		it, err := s.item(obj)
		if err != nil {
			return err
		}
		if it.ok {
			out = append(out, it.out)
		}
	}
	s.UpdateResourceVersion("")
	s.change(func() {
		s.replace(out)
		s.once.Do(s.synced)
	})
	return nil
}

// Resync implements cache.ReflectorStore; the zone needs none.
func (s *store[In, Out]) Resync() error { return nil }

// UpdateResourceVersion implements cache.ResourceVersionUpdater: it is called
// for every event and bookmark.
func (s *store[In, Out]) UpdateResourceVersion(string) { s.heard.Store(time.Now().UnixNano()) }
