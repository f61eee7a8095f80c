package source

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Logger is where a Source reports what an operator should know.
type Logger interface {
	Infof(format string, v ...any)
	Warningf(format string, v ...any)
	Errorf(format string, v ...any)
}

// Observer is told the numbers that become metrics. Its methods are called
// from several goroutines.
type Observer interface {
	// Published is called after a zone was published: what is kept, and how
	// long it took to build.
	Published(imports, endpoints int, took time.Duration)
	// WatchFailed counts a list or watch request that failed; one that an API
	// server refused right after its start is not counted.
	WatchFailed(resource string)
	// Rejected counts an object of which something is not served.
	Rejected(resource string)
}

// Options of a Source; all but Namespaces are needed.
type Options struct {
	Config *rest.Config
	// Namespaces to follow, with one watch each; empty means all.
	Namespaces []string
	Zone       zone.Options
	UserAgent  string
	Log        Logger
	Observer   Observer
}

// Source follows the API server while [Source.Run] runs.
type Source struct {
	opts     Options
	clients  watch.Clients
	problems *problemLog
	synced   chan struct{} // closed after the first zone is published
	wake     chan struct{} // holds one token when there may be something to publish
	zone     atomic.Pointer[zone.Zone]

	mu       sync.Mutex // guards builder and unsynced
	builder  *zone.Builder
	unsynced int // watches without a complete list so far
}

// New makes a Source that follows nothing yet. The error is about the
// configuration; an API server that does not answer is none.
func New(opts Options) (*Source, error) {
	config := rest.CopyConfig(opts.Config)
	config.UserAgent, config.QPS, config.Burst = opts.UserAgent, 50, 100
	clients, err := watch.NewClients(config)
	if err != nil {
		return nil, err
	}
	return &Source{
		opts:     opts,
		clients:  clients,
		problems: newProblemLog(opts.Log, time.Now),
		synced:   make(chan struct{}),
		wake:     make(chan struct{}, 1),
		builder:  zone.NewBuilder(opts.Zone),
	}, nil
}

// Zone is the newest state; nil until every watch has delivered its first list.
func (s *Source) Zone() *zone.Zone { return s.zone.Load() }

// Synced is closed when Zone is no longer nil.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Run follows the API server until ctx ends; the last zone stays. It is called
// once. A Reflector that is between two attempts notices the end after the pause.
func (s *Source) Run(ctx context.Context) {
	namespaces := s.opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	s.unsynced = 2 * len(namespaces)
	var wg sync.WaitGroup
	for _, namespace := range namespaces {
		imports := watch.ServiceImports(s.clients.MCS, namespace)
		slices := watch.EndpointSlices(s.clients.Kube, namespace).Selecting(mcs.LabelServiceName)
		wg.Go(func() {
			imports.Run(ctx, s.importStore(namespace, imports.Name), s.health(imports.Name, namespace).report)
		})
		wg.Go(func() { slices.Run(ctx, s.sliceStore(namespace, slices.Name), s.health(slices.Name, namespace).report) })
	}
	wg.Go(func() { s.publish(ctx) })
	wg.Wait()
}

func (s *Source) importStore(namespace, resource string) *store[*api.ServiceImport, zone.Import] {
	return &store[*api.ServiceImport, zone.Import]{
		convert:  convertImport,
		set:      s.builder.SetImport,
		remove:   func(ns, name string) { s.builder.DeleteImport(mcs.ServiceKey{Namespace: ns, Name: name}) },
		replace:  func(all []zone.Import) { s.builder.ReplaceImports(namespace, all) },
		change:   s.change,
		synced:   s.oneSynced,
		rejected: s.rejected("ServiceImport", resource),
	}
}

func (s *Source) sliceStore(namespace, resource string) *store[*discoveryv1.EndpointSlice, zone.Slice] {
	return &store[*discoveryv1.EndpointSlice, zone.Slice]{
		convert:  convertSlice,
		set:      s.builder.SetSlice,
		remove:   s.builder.DeleteSlice,
		replace:  func(all []zone.Slice) { s.builder.ReplaceSlices(namespace, all) },
		change:   s.change,
		synced:   s.oneSynced,
		rejected: s.rejected("EndpointSlice", resource),
	}
}

func (s *Source) health(resource, namespace string) *health {
	h := &health{
		resource: resource, log: s.opts.Log,
		failed: func() { s.opts.Observer.WatchFailed(resource) },
	}
	if namespace != "" {
		h.where = " in namespace " + namespace
	}
	return h
}

func (s *Source) rejected(kind, resource string) func(namespace, name string, problems []string) {
	return func(namespace, name string, problems []string) {
		s.opts.Observer.Rejected(resource)
		for _, problem := range problems {
			s.problems.warn(fmt.Sprintf("%s %s/%s: %s", kind, namespace, name, problem))
		}
	}
}

// change writes to the Builder and wakes the publisher.
func (s *Source) change(write func()) {
	s.mu.Lock()
	write()
	pending := s.builder.Pending()
	s.mu.Unlock()
	if !pending {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it has a token already and will see this change too
	}
}

// oneSynced runs inside change.
func (s *Source) oneSynced() { s.unsynced-- }

// publish builds a zone whenever something changed: at once when it is idle,
// and for all changes together that arrive while one is built.
func (s *Source) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.publishOnce()
	}
}

func (s *Source) publishOnce() {
	s.mu.Lock()
	if s.unsynced > 0 {
		s.mu.Unlock()
		return
	}
	start := time.Now()
	z, problems := s.builder.Publish(start.Unix())
	imports, endpoints := s.builder.Imports(), s.builder.Endpoints()
	s.mu.Unlock()

	first := s.zone.Swap(z) == nil
	s.opts.Observer.Published(imports, endpoints, time.Since(start))
	for _, p := range problems {
		s.problems.warn(fmt.Sprintf("Service %s: %s", p.Service, p.Detail))
	}
	if first {
		close(s.synced)
		s.opts.Log.Infof("Serving %d imports and %d endpoints", imports, endpoints)
	}
}
