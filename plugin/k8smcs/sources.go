package k8smcs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"

	"github.com/k8s-mcs/k8s-mcs/plugin/source"
)

// sources are the Sources that run in this process. They outlive a reload: the
// blocks of the new Corefile take over what runs for those of the old one,
// where they want the same, so that a reload asks the API server for nothing
// and no name is ever without data.
var sources = registry{running: map[string]*running{}, instances: map[*instance]bool{}}

type registry struct {
	mu        sync.Mutex          // guards all below, and the fields of others that say so
	running   map[string]*running // by key
	instances map[*instance]bool  // that hold sources
	restarted *instance           // the one that a reload is about to replace
}

// running is a Source that runs, for as long as a block of an instance wants it.
type running struct {
	key      string
	source   *source.Source
	observer *observer
	begun    time.Time
	users    int // guarded by the registry
	cancel   context.CancelFunc
	writes   bool // it has a snapshot to write at its end
}

// instance is what the k8s_mcs blocks of one reading of a Corefile have in
// common. CoreDNS makes one at the start and one at each reload.
type instance struct {
	leases []*lease
	// listening is set once its servers listen: the plugin ready serves earlier.
	listening atomic.Bool
	// replaces serves until this one does; nil when this one does, or at a first
	// start. Guarded by the registry.
	replaces *instance
}

// lease is what a block wants: the Source made for it, unless one with the same
// key runs already and takes its place.
type lease struct {
	key      string
	source   *source.Source
	observer *observer
	plugin   *Plugin
	running  *running      // set at the start
	timeout  time.Duration // how long a start may wait for data since running.begun
	zones    string        // for log lines
	snapshot string        // file, or empty
	where    string        // place in the Corefile
}

// instanceKey finds the instance in the storage of caddy's.
type instanceKey struct{}

// instanceOf is the instance that c sets up a block of.
func instanceOf(c *caddy.Controller) *instance {
	if in, ok := c.Get(instanceKey{}).(*instance); ok {
		return in
	}
	in := &instance{}
	c.Set(instanceKey{}, in)
	c.OnStartup(in.start)
	c.OnRestart(func() error { sources.restart(in); return nil })
	c.OnRestartFailed(func() error { sources.restart(nil); sources.sweep(); return nil })
	c.OnShutdown(func() error { sources.release(in); return nil })
	return in
}

func init() {
	caddy.RegisterEventHook(pluginName, func(event caddy.EventName, info any) error {
		if i, ok := info.(*caddy.Instance); ok && event == caddy.InstanceStartupEvent {
			if in := instanceIn(i); in != nil {
				in.listening.Store(true)
			}
		}
		return nil
	})
}

// instanceIn is what a running instance of caddy's has of ours, nil if nothing.
func instanceIn(i *caddy.Instance) *instance {
	i.StorageMu.RLock()
	defer i.StorageMu.RUnlock()
	in, _ := i.Storage[instanceKey{}].(*instance)
	return in
}

// add takes in another block. Two that would write one snapshot are an error.
func (in *instance) add(l *lease) error {
	for _, other := range in.leases {
		if l.snapshot != "" && other.snapshot == l.snapshot && other.key != l.key {
			return fmt.Errorf("snapshot: %s is that of the block at %s, which reads other data: want another file", l.snapshot, other.where)
		}
	}
	in.leases = append(in.leases, l)
	l.plugin.listening = &in.listening
	return nil
}

// start runs before the instance serves. All sources begin at once, and then
// each has its own time to get data, so that a server whose API server is well
// never answers SERVFAIL; meanwhile the instance that is replaced serves. One
// that it has handed over without data has had its time.
func (in *instance) start() error {
	sources.acquire(in)
	for _, l := range in.leases {
		if !within(l.running.source.Synced(), time.Until(l.running.begun.Add(l.timeout))) {
			log.Warningf("Starting without data from the API server: names of %s are answered with SERVFAIL until it is there", l.zones)
		}
	}
	return nil
}

// within waits for done, and reports whether it was closed in time.
func within(done <-chan struct{}, patience time.Duration) bool {
	select {
	case <-done: // first, because with no patience both may be ready
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// acquire gives each block of an instance a Source that runs.
func (r *registry) acquire(in *instance) {
	r.sweep()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instances[in] = true
	in.replaces = r.restarted
	for _, l := range in.leases {
		shared := r.running[l.key]
		if shared == nil {
			ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // caddy has no context; release ends this one
			shared = &running{
				key: l.key, source: l.source, observer: l.observer,
				begun: time.Now(), cancel: cancel, writes: l.snapshot != "",
			}
			r.running[l.key] = shared
			go shared.source.Run(ctx)
			keepStacksDeep(ctx)
		}
		shared.users++
		l.running, l.plugin.source = shared, shared.source
		l.source, l.observer = nil, nil
	}
	in.listening.Store(r.restarted != nil) // a reload takes over the sockets
}

// lastWrite bounds how long the end of an instance waits for its snapshots.
const lastWrite = 3 * time.Second

// release takes back what an instance holds, once, and ends what nobody holds.
func (r *registry) release(in *instance) {
	all := r.takeBack(in)
	for _, ended := range all {
		ended.cancel()
	}
	for _, ended := range all {
		if ended.writes && !within(ended.source.Saved(), lastWrite) {
			log.Warningf("Ending without a last snapshot of %s: it is not written after %s", ended.observer.zone, lastWrite)
		}
	}
}

func (r *registry) takeBack(in *instance) (ended []*running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restarted == in {
		r.restarted = nil
	}
	if !r.instances[in] {
		return nil
	}
	delete(r.instances, in)
	for other := range r.instances {
		if other.replaces == in {
			other.replaces = nil
		}
	}
	for _, l := range in.leases {
		if l.running.users--; l.running.users == 0 {
			delete(r.running, l.running.key)
			ended = append(ended, l.running)
		}
	}
	return ended
}

// restart notes which instance a reload is about to replace; nil when it is
// not, after all.
func (r *registry) restart(in *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarted = in
}

// sweep releases the instances that caddy has given up. When a reload fails
// after our start, because a port is taken, the new instance is dropped and
// only the old one is told.
func (r *registry) sweep() {
	alive := map[*instance]bool{}
	for _, i := range caddy.Instances() {
		if in := instanceIn(i); in != nil {
			alive[in] = true
		}
	}
	r.mu.Lock()
	var gone []*instance
	for in := range r.instances {
		if !alive[in] {
			gone = append(gone, in)
		}
	}
	r.mu.Unlock()
	for _, in := range gone {
		r.release(in)
	}
}

// serving are the Sources behind the answers of now, without those that get
// ready to replace them.
func (r *registry) serving() []*running {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[*running]bool{}
	var all []*running
	for in := range r.instances {
		if in.replaces != nil {
			continue
		}
		for _, l := range in.leases {
			if !seen[l.running] {
				seen[l.running] = true
				all = append(all, l.running)
			}
		}
	}
	return all
}

// sourceKey tells apart the Sources that blocks want: two with the same key
// read the same data in the same way. What else a block says (ttl, fallthrough,
// extended_errors) is for the answers.
func (cfg *config) sourceKey(opts *source.Options) string {
	var ca []byte
	if cfg.kube.CAFile != "" {
		ca, _ = os.ReadFile(cfg.kube.CAFile) // New has reported what is wrong with it
	}
	return fmt.Sprintf("%s %x %q %+v %t %q %s", cfg.cluster, sha256.Sum256(ca),
		slices.Sorted(slices.Values(opts.Namespaces)), opts.Zone, opts.PodNames, opts.SnapshotFile, opts.SnapshotMaxAge)
}
