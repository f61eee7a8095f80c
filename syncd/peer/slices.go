package peer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

const (
	// firstReads is the name of the reads of single services among the resources
	// that have problems.
	firstReads = "endpointslices.discovery.k8s.io/first-read"
	// readers is how many services are read at once.
	readers = 4
	// A read that takes longer than readTimeout has failed; it is tried again
	// after readFirst, then twice as long each time, up to readLast.
	readTimeout         = 10 * time.Second
	readFirst, readLast = 200 * time.Millisecond, 30 * time.Second
)

// exportedSlices holds the EndpointSlices of the services whose slices are wanted,
// and nothing of the others. When a service becomes wanted the watch has passed
// its slices by, so they are read once beside it and merged by resourceVersion
// with what it brings; until then they are unknown. It is the store of the watch.
type exportedSlices struct {
	options exportedSlicesOptions
	table   *watch.Table[model.Slice]
	queue   workqueue.TypedRateLimitingInterface[mcs.ServiceKey] // to be read

	mu       sync.Mutex // guards the fields below, and the writes to table
	services map[mcs.ServiceKey]*wanted
	reading  map[mcs.ServiceKey]*wanted // those that are being read now
	failing  map[mcs.ServiceKey]struct{}
	changed  []mcs.ServiceKey // to be told when mu is free
}

type exportedSlicesOptions struct {
	// Convert is that of watch.TableOptions.
	Convert func(object any) (key mcs.ServiceKey, value model.Slice, keep bool)
	// List reads the slices of one service as they are now, not as they were.
	List func(ctx context.Context, key mcs.ServiceKey) (*discoveryv1.EndpointSliceList, error)
	// Changed is told of each service whose slices changed, became known, or could
	// not be read; Synced, once, that the first whole list is in.
	Changed func(mcs.ServiceKey)
	Synced  func()
	// Report is told how reads go, nil when none fails any more.
	Report func(error)
}

// wanted is a service whose slices are kept.
type wanted struct {
	known bool
	// upTo is the version of the list of this service; what the watch brings that
	// is not newer is in it. It is "" when a whole list came since.
	upTo string
	// meanwhile are the last events of slices of the namespace since the list was
	// asked for; nil when none is.
	meanwhile map[string]sliceEvent
}

type sliceEvent struct {
	slice *discoveryv1.EndpointSlice
	gone  bool
}

func newExportedSlices(o exportedSlicesOptions) *exportedSlices {
	s := &exportedSlices{
		options:  o,
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[mcs.ServiceKey](readFirst, readLast)),
		services: map[mcs.ServiceKey]*wanted{}, reading: map[mcs.ServiceKey]*wanted{}, failing: map[mcs.ServiceKey]struct{}{},
	}
	s.table = watch.NewTable(watch.TableOptions[model.Slice]{
		Equal:   model.Slice.Equal,
		Changed: func(key mcs.ServiceKey) { s.changed = append(s.changed, key) },
		Convert: func(object any) (mcs.ServiceKey, model.Slice, bool) {
			if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
				if w := s.services[serviceOf(slice)]; w != nil && w.known {
					return o.Convert(object)
				}
			}
			return mcs.ServiceKey{}, model.Slice{}, false
		},
	})
	return s
}

func serviceOf(s *discoveryv1.EndpointSlice) mcs.ServiceKey {
	return mcs.ServiceKey{Namespace: s.Namespace, Name: s.Labels[mcs.LabelSliceService]}
}

// HasSynced reports whether the first whole list is in.
func (s *exportedSlices) HasSynced() bool { return s.table.HasSynced() }

// Of are the slices of a service, in the order of their names; known is false as
// long as they have not been read.
func (s *exportedSlices) Of(key mcs.ServiceKey) (all []model.Slice, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.services[key]; w == nil || !w.known {
		return nil, false
	}
	return s.table.Of(key), true
}

// want has the slices of a service kept from now on; known is false when they
// have to be read first.
func (s *exportedSlices) want(key mcs.ServiceKey) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.services[key]
	if w == nil {
		w = &wanted{}
		s.services[key] = w
		if s.table.HasSynced() { // else the first whole list has them
			s.queue.Add(key)
		}
	}
	return w.known
}

// drop has the slices of a service kept no more.
func (s *exportedSlices) drop(key mcs.ServiceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, key)
	delete(s.reading, key)
	s.table.Clear(key)
	s.fine(key)
}

// wanted are the services whose slices are kept, in no order.
func (s *exportedSlices) wanted() []mcs.ServiceKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.services))
}

// run reads the services that become wanted until ctx ends.
func (s *exportedSlices) run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	var done sync.WaitGroup
	for range readers {
		done.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	done.Wait()
}

// next reads one service; false means that ctx ended.
func (s *exportedSlices) next(ctx context.Context) bool {
	key, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(key)
	if err := s.read(ctx, key); err != nil && ctx.Err() == nil {
		s.queue.AddRateLimited(key)
		s.options.Changed(key) // it stays unknown, which is to be shown
		return true
	}
	s.queue.Forget(key)
	return true
}

func (s *exportedSlices) read(ctx context.Context, key mcs.ServiceKey) error {
	w := s.ask(key)
	if w == nil {
		return nil // not wanted any more, or known by now
	}
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := s.options.List(limited, key)
	if err != nil {
		err = fmt.Errorf("list endpointslices of %s: %w", key, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.do(func() { err = s.answered(key, w, list, err) })
	return err
}

// ask notes that a service is about to be read; nil means that it need not be.
func (s *exportedSlices) ask(key mcs.ServiceKey) *wanted {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.services[key]
	if w == nil || w.known {
		return nil
	}
	w.meanwhile = map[string]sliceEvent{}
	s.reading[key] = w
	return w
}

// answered takes in the answer to a list of one service. It is called with the
// lock held.
func (s *exportedSlices) answered(key mcs.ServiceKey, w *wanted, list *discoveryv1.EndpointSliceList, err error) error {
	if s.reading[key] != w {
		return nil // dropped meanwhile, or a whole list came
	}
	delete(s.reading, key)
	meanwhile := w.meanwhile
	w.meanwhile = nil
	if err != nil {
		s.failing[key] = struct{}{}
		s.options.Report(err)
		return err
	}
	w.known, w.upTo = true, list.ResourceVersion
	for i := range list.Items {
		slice := &list.Items[i]
		if event, ok := meanwhile[slice.Name]; !ok || !watch.Newer(event.slice.ResourceVersion, slice.ResourceVersion) {
			s.table.Merge(slice)
		}
	}
	for _, event := range meanwhile {
		if !event.gone && serviceOf(event.slice) == key && watch.Newer(event.slice.ResourceVersion, w.upTo) {
			s.table.Merge(event.slice)
		}
	}
	s.changed = append(s.changed, key)
	s.fine(key)
	return nil
}

// fine takes a service out of those that cannot be read. It is called with the
// lock held.
func (s *exportedSlices) fine(key mcs.ServiceKey) {
	if _, failed := s.failing[key]; !failed {
		return
	}
	delete(s.failing, key)
	if len(s.failing) == 0 {
		s.options.Report(nil)
	}
}

// Add, Update, Delete, Replace and Resync implement cache.ReflectorStore.
func (s *exportedSlices) Add(object any) error { return s.Update(object) }

// Update takes in a slice as the watch has it.
func (s *exportedSlices) Update(object any) error {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	s.do(func() {
		s.note(sliceEvent{slice: slice})
		if w := s.services[serviceOf(slice)]; w != nil && w.upTo != "" && !watch.Newer(slice.ResourceVersion, w.upTo) {
			return
		}
		_ = s.table.Update(slice)
	})
	return nil
}

// Delete takes in that the watch saw a slice go.
func (s *exportedSlices) Delete(object any) error {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	s.do(func() {
		s.note(sliceEvent{slice: slice, gone: true})
		_ = s.table.Delete(slice)
	})
	return nil
}

// Replace takes in a whole list. It is the truth about all services that are
// wanted, whatever was read of them on its own.
func (s *exportedSlices) Replace(objects []any, version string) error {
	first := !s.table.HasSynced()
	s.do(func() {
		for key, w := range s.services {
			if !w.known {
				s.changed = append(s.changed, key)
			}
			*w = wanted{known: true}
			s.fine(key)
		}
		clear(s.reading)
		s.table.Unpin()
		_ = s.table.Replace(objects, version)
	})
	if first {
		s.options.Synced()
	}
	return nil
}

// Resync does nothing.
func (s *exportedSlices) Resync() error { return nil }

var _ cache.ReflectorStore = (*exportedSlices)(nil)

// note keeps an event for the lists that are on their way.
func (s *exportedSlices) note(event sliceEvent) {
	for key, w := range s.reading {
		if key.Namespace == event.slice.Namespace {
			w.meanwhile[event.slice.Name] = event
		}
	}
}

// do changes the table, and tells what changed when the lock is free again.
func (s *exportedSlices) do(change func()) {
	s.mu.Lock()
	change()
	changed := s.changed
	s.changed = nil
	s.mu.Unlock()
	for _, key := range changed {
		s.options.Changed(key)
	}
}
