package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/plugin/snapshot"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// Logger is where a Source reports what an operator should know.
type Logger interface {
	Infof(format string, v ...any)
	Warningf(format string, v ...any)
	Errorf(format string, v ...any)
}

// Observer is told the numbers that become metrics. Its methods are called
// from several goroutines. It lives as long as its Source.
type Observer interface {
	// Published is called after a zone was published: how long it took to build.
	Published(took time.Duration)
	// Programmed is the time from the change that led to a slice, as its
	// annotation says, until a zone with it was published.
	Programmed(delay time.Duration)
	// WatchFailed counts a list or watch request that failed; one that an API
	// server refused right after its start is not counted.
	WatchFailed(resource string)
	// Rejected counts an object of which something is not served for a reason;
	// an object with several reasons is counted once for each.
	Rejected(resource string, reason Reason)
	// SnapshotRead is how the reading of the snapshot ended, once per Run.
	SnapshotRead(result SnapshotResult)
	// SnapshotWritten counts the writes of the snapshot.
	SnapshotWritten(ok bool)
}

// Options of a Source. Namespaces and all after Observer may be left out.
type Options struct {
	Config *rest.Config
	// Namespaces to follow, with one watch each; empty means all.
	Namespaces []string
	Zone       zone.Options
	UserAgent  string
	Log        Logger
	Observer   Observer
	// PodNames names endpoints without a host name by their pods.
	PodNames bool
	// SnapshotFile keeps the last state over a restart; empty means that there is none.
	SnapshotFile string
	// SnapshotMaxAge is how old a snapshot may be that is served; 0 is no bound.
	SnapshotMaxAge time.Duration
}

// Source follows the API server while [Source.Run] runs.
type Source struct {
	opts     Options
	clients  watch.Clients
	lean     *leanImports
	problems *problemLog
	watches  []*watched    // set by New
	synced   chan struct{} // closed when there is a zone for the first time
	live     chan struct{} // closed when the first zone of live data is published
	saved    chan struct{} // closed when no snapshot will be written any more
	wake     chan struct{} // holds one token when there may be something to publish
	changed  chan struct{} // holds one token when there may be a new snapshot to write
	zone     atomic.Pointer[zone.Zone]
	stale    atomic.Bool
	first    sync.Once // closes synced

	mu       sync.Mutex // guards all below, and writes to zone
	builder  *zone.Builder
	unsynced int  // watches without a complete list so far
	isLive   bool // zone is, or was, built of live data
	// restored is the snapshot that zone is built of; nil when it is live data.
	restored *snapshot.Snapshot
	triggers triggers

	imports, endpoints int // in what is served
}

// New makes a Source that follows nothing yet. The error is about the
// configuration; an API server that does not answer is none.
func New(opts Options) (*Source, error) {
	config := rest.CopyConfig(opts.Config)
	config.UserAgent, config.QPS, config.Burst = opts.UserAgent, 50, 100
	// The API server is near: to unpack what it would compress is a sixth of what
	// a change costs here, and as much there.
	config.DisableCompression = true
	clients, err := watch.NewClients(config)
	if err != nil {
		return nil, err
	}
	lean, err := newLeanImports(config)
	if err != nil {
		return nil, err
	}
	s := &Source{
		opts:     opts,
		clients:  clients,
		lean:     lean,
		problems: newProblemLog(opts.Log, time.Now),
		synced:   make(chan struct{}),
		live:     make(chan struct{}),
		saved:    make(chan struct{}),
		wake:     make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		builder:  zone.NewBuilder(opts.Zone),
	}
	namespaces := opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		s.watches = append(s.watches, s.watchImports(namespace), s.watchSlices(namespace))
	}
	s.unsynced = len(s.watches)
	return s, nil
}

// Zone is the newest state. It is nil until every watch has delivered its first
// list or a snapshot is served, and again when that snapshot turns out to be
// none of this cluster, or becomes too old.
func (s *Source) Zone() *zone.Zone { return s.zone.Load() }

// Synced is closed when Zone is not nil for the first time.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Saved is closed soon after the context of Run has ended: when the last
// snapshot is written, if there is one to write.
func (s *Source) Saved() <-chan struct{} { return s.saved }

// Run follows the API server until ctx ends; the last zone stays. It is called
// once. A Reflector that is between two attempts notices the end after the pause.
func (s *Source) Run(ctx context.Context) {
	var loaded *snapshot.Snapshot
	if s.opts.SnapshotFile != "" {
		if loaded = s.readSnapshot(); loaded != nil {
			s.builder.Resume(loaded.Serial)
		}
	}
	var wg sync.WaitGroup
	for _, w := range s.watches {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Go(func() { s.publish(ctx) })
	wg.Go(func() { s.watchAge(ctx) })
	wg.Go(func() {
		defer close(s.saved)
		if s.opts.SnapshotFile == "" {
			<-ctx.Done()
			return
		}
		s.keepSnapshot(ctx, loaded)
	})
	wg.Wait()
}

// importsResource is what names that do not fit are counted under.
const importsResource = "serviceimports.multicluster.x-k8s.io"

func (s *Source) watchImports(namespace string) *watched {
	resource := watch.ServiceImports(s.clients.MCS, namespace)
	resource.Watch = func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		return s.lean.watch(ctx, namespace, options)
	}
	w := s.newWatched(resource.Name, namespace)
	st := &store[*api.ServiceImport, zone.Import]{
		convert:   convertImport,
		set:       s.builder.SetImport,
		remove:    func(ns, name string) { s.builder.DeleteImport(mcs.ServiceKey{Namespace: ns, Name: name}) },
		replace:   func(all []zone.Import) { s.builder.ReplaceImports(namespace, all) },
		change:    s.change,
		triggered: func(string, string, time.Time) {},
		heard:     &w.heard,
		synced:    s.oneSynced,
		rejected:  s.rejected("ServiceImport", resource.Name),
	}
	w.run = func(ctx context.Context) { resource.Run(ctx, st, w.report) }
	return w
}

func (s *Source) watchSlices(namespace string) *watched {
	resource := watch.EndpointSlices(s.clients.Kube, namespace).Selecting(mcs.LabelServiceName)
	w := s.newWatched(resource.Name, namespace)
	st := &store[*discoveryv1.EndpointSlice, zone.Slice]{
		convert: func(in *discoveryv1.EndpointSlice) (zone.Slice, []problem, bool) {
			return convertSlice(in, s.opts.PodNames)
		},
		set:       s.builder.SetSlice,
		remove:    s.builder.DeleteSlice,
		replace:   func(all []zone.Slice) { s.builder.ReplaceSlices(namespace, all) },
		change:    s.change,
		triggered: s.triggers.note,
		heard:     &w.heard,
		synced:    s.oneSynced,
		rejected:  s.rejected("EndpointSlice", resource.Name),
	}
	w.run = func(ctx context.Context) { resource.Run(ctx, st, w.report) }
	return w
}

// rejected counts an object once for each reason, and writes one line about it,
// with the first problem of each: an object can have thousands.
func (s *Source) rejected(kind, resource string) func(namespace, name string, problems []problem) {
	return func(namespace, name string, problems []problem) {
		var counted []Reason
		var text []string
		for _, p := range problems {
			if !slices.Contains(counted, p.reason) {
				counted, text = append(counted, p.reason), append(text, p.text)
				s.opts.Observer.Rejected(resource, p.reason)
			}
		}
		if more := len(problems) - len(text); more > 0 {
			text = append(text, fmt.Sprintf("and %d more of that kind", more))
		}
		s.problems.warn(fmt.Sprintf("%s %s/%s: %s", kind, namespace, name, strings.Join(text, "; ")))
	}
}

// change writes to the Builder and wakes the publisher.
func (s *Source) change(write func()) {
	s.mu.Lock()
	write()
	pending := s.builder.Pending()
	if !pending {
		s.triggers.take() // nothing to publish, and so nobody waits for it
		if s.isLive {
			s.count(s.builder)
		}
	}
	s.mu.Unlock()
	if pending {
		signal(s.wake)
	}
}

// Counts are the numbers of imports and of ready endpoint addresses in what is
// served; both are 0 while nothing is.
func (s *Source) Counts() (imports, endpoints int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.zone.Load() == nil {
		return 0, 0
	}
	return s.imports, s.endpoints
}

// Serving tells what is served: live data, the snapshot, or neither of them yet.
func (s *Source) Serving() (live, fromSnapshot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isLive, s.restored != nil
}

// count notes how much is served; under mu.
func (s *Source) count(b *zone.Builder) { s.imports, s.endpoints = b.Imports(), b.Endpoints() }

// signal puts a token into a channel that holds one. A token that is there
// already will be taken after this change, too.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
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
	s.count(s.builder)
	imports, endpoints := s.imports, s.endpoints
	before := s.zone.Swap(z)
	s.restored = nil
	triggers := s.triggers.take()
	first := !s.isLive
	if first {
		s.isLive = true
		s.triggers.begin(start)
	}
	s.mu.Unlock()

	now := time.Now()
	s.opts.Observer.Published(now.Sub(start))
	for _, at := range triggers {
		s.opts.Observer.Programmed(now.Sub(at))
	}
	s.reportProblems(problems)
	if z != before {
		signal(s.changed)
	}
	if first {
		close(s.live)
		s.assessAge()
		s.opts.Log.Infof("Serving %d imports and %d endpoints", imports, endpoints)
		s.first.Do(func() { close(s.synced) })
	}
}

func (s *Source) reportProblems(problems []zone.Problem) {
	for i, p := range problems { // sorted by service
		if i == 0 || problems[i-1].Service != p.Service {
			s.opts.Observer.Rejected(importsResource, NameTooLong)
		}
		s.problems.warn(fmt.Sprintf("Service %s: %s", p.Service, p.Detail))
	}
}
