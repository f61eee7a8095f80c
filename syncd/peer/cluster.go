package peer

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// Options make a Cluster.
type Options struct {
	ID      mcs.ClusterID
	Clients watch.Clients
	// Role is the manifest that grants what is read, for the remedy of a log line.
	Role string
	Log  *slog.Logger
	// Changed is told of each service whose offer may have changed; Synced, once,
	// that all of the cluster has been read.
	Changed func(mcs.ServiceKey)
	Synced  func()
	// GKECompat reads the ServiceExports of net.gke.io too.
	GKECompat bool
	// Namespaces are those that take no part.
	Namespaces policy.Namespaces
	// Allows tells where endpoints may be; nil means anywhere.
	Allows func(netip.Addr) bool
	// Peer is nil for the own cluster.
	Peer *PeerParts
	// Also are further readers of the same watches, nil for peers.
	Also Stores
}

// PeerParts are what a Cluster that is a peer has beyond the own one.
type PeerParts struct {
	// Probe is asked for a sign of life each ProbeInterval.
	Probe         Probe
	ProbeInterval time.Duration
	// Judge is told that there are withdrawals to decide on, or a cluster that was
	// read.
	Judge func()
}

// Stores are readers of the watches of a Cluster beside its own tables.
type Stores struct {
	Exports, GKEExports, Services, Slices cache.ReflectorStore
}

// Cluster is what one cluster offers, kept up to date.
type Cluster struct {
	options Options
	health  *health

	exports    *watch.Table[declaration]
	gke        *watch.Table[declaration] // nil without GKECompat
	noGKE      atomic.Bool               // the cluster does not serve that kind
	services   *watch.Table[model.Source]
	slices     *exportedSlices
	namespaces *watch.Table[struct{}] // those that do not go; empty for the own cluster

	life  life
	guard withdrawals

	// following is held while it is decided whether slices of a service are kept.
	following sync.Mutex

	exportsRead             chan struct{} // closed when they are
	exportsOnce, syncedOnce sync.Once
	// droppedLog bounds the lines about addresses left out, which a peer could
	// otherwise make as many as it likes.
	droppedLog   *rate.Limiter
	droppedCount atomic.Int64

	bounded bounded
}

// NewCluster makes a Cluster that has read nothing yet.
func NewCluster(o Options) *Cluster {
	c := &Cluster{
		options:    o,
		droppedLog: rate.NewLimiter(rate.Every(10*time.Second), 3),
		guard:      withdrawals{ledger: policy.NewLedger(time.Time{})},

		exportsRead: make(chan struct{}),
	}
	c.health = newHealth(
		func(p Problem) {
			o.Log.Error("cannot read cluster", "resource", p.Resource, "reason", p.Reason, "err", p.Err, "remedy", p.Remedy)
		},
		func(p Problem) {
			o.Log.Info("problem is gone", "resource", p.Resource, "reason", p.Reason)
		},
	)
	c.exports = watch.NewTable(watch.TableOptions[declaration]{
		Convert: convertExport, Equal: same[declaration], Changed: c.exported, Synced: c.tableSynced,
	})
	if o.GKECompat {
		c.gke = watch.NewTable(watch.TableOptions[declaration]{
			Convert: convertExport, Equal: same[declaration], Changed: c.exported, Synced: c.tableSynced,
		})
	}
	c.services = watch.NewTable(watch.TableOptions[model.Source]{
		Convert: convertService, Equal: same[model.Source], Changed: c.ifExported, Synced: c.tableSynced,
	})
	c.slices = newExportedSlices(exportedSlicesOptions{
		Convert: func(object any) (mcs.ServiceKey, model.Slice, bool) {
			return convertSlice(object, o.Allows, c.dropped)
		},
		List: func(ctx context.Context, key mcs.ServiceKey) (*discoveryv1.EndpointSliceList, error) {
			return o.Clients.Kube.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelSliceService + "=" + key.Name})
		},
		Changed: c.ifExported, Synced: c.tableSynced,
		Report: func(err error) { c.Report(firstReads, err) },
	})
	c.namespaces = watch.NewTable(watch.TableOptions[struct{}]{Convert: convertNamespace})
	return c
}

// ID is the cluster's id in the clusterset.
func (c *Cluster) ID() mcs.ClusterID { return c.options.ID }

// Run reads the cluster until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	also, clients := c.options.Also, c.options.Clients
	var done sync.WaitGroup
	exports := watch.ServiceExports(clients.MCS, "")
	if c.options.Peer != nil {
		exports = anyVersion(clients.MCS)
	}
	run := func(resource watch.Resource, table, also cache.ReflectorStore, report func(resource string, err error)) {
		if also != nil {
			table = watch.Tee{also, table}
		}
		if c.options.Peer != nil {
			table = watch.Tee{table, pulse{&c.life}}
		}
		resource.Run(ctx, table, func(err error) { report(resource.Name, err) })
	}
	follow := func(resource watch.Resource, table, also cache.ReflectorStore, report func(resource string, err error)) {
		done.Go(func() { run(resource, table, also, report) })
	}
	follow(exports, c.exports, also.Exports, c.Report)
	follow(watch.Services(clients.Kube, ""), c.services, also.Services, c.Report)
	done.Go(func() { c.slices.run(ctx) })
	done.Go(func() {
		// The first list of slices has those of all exports: none is read on its own.
		if c.followExports(ctx) {
			run(watch.EndpointSlices(clients.Kube, ""), c.slices, also.Slices, c.Report)
		}
	})
	if c.gke != nil {
		follow(watch.GKEServiceExports(clients.Dynamic, ""), c.gke, also.GKEExports, c.reportGKE)
	}
	if c.options.Peer != nil {
		follow(watch.Namespaces(clients.Kube), c.namespaces, nil, c.Report)
		done.Go(func() { c.probe(ctx) })
	}
	done.Wait()
}

// reportGKE is Report for the kind of GKE: a cluster that does not serve it
// exports nothing by it, and that is known.
func (c *Cluster) reportGKE(resource string, err error) {
	if err == nil || watch.ReasonOf(err) != watch.Missing {
		c.noGKE.Store(false)
		c.Report(resource, err)
		return
	}
	c.Report(resource, nil)
	if !c.noGKE.Swap(true) {
		c.tableSynced()
	}
}

// followExports waits until the exports are read and has the slices of each kept;
// false means that ctx ended.
func (c *Cluster) followExports(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.exportsRead:
	}
	for _, key := range c.Keys() {
		c.follow(key)
	}
	return true
}

// follow has the slices of a service kept when it is exported, or stands although
// it was withdrawn, and dropped otherwise. It reports whether they are known; if
// not, Changed is told once they are.
func (c *Cluster) follow(key mcs.ServiceKey) (known bool) {
	c.following.Lock()
	defer c.following.Unlock()
	if _, declared := c.declaration(key); declared || c.withholds(key) {
		return c.slices.want(key)
	}
	c.slices.drop(key)
	return true
}

// Report takes in the outcome of a list or watch of a resource of this cluster.
func (c *Cluster) Report(resource string, err error) {
	if err == nil {
		c.health.set(resource, nil)
		return
	}
	p := classify(resource, err, c.options.Role)
	c.health.set(resource, &p)
}

// HasSynced reports whether everything has been read at least once. Until then
// the cluster's offers are unknown.
func (c *Cluster) HasSynced() bool {
	return c.hasReadExports() && c.services.HasSynced() && c.slices.HasSynced()
}

func (c *Cluster) hasReadExports() bool {
	return c.exports.HasSynced() && (c.gke == nil || c.gke.HasSynced() || c.noGKE.Load())
}

// Problems are what cannot be read now.
func (c *Cluster) Problems() []Problem { return c.health.all() }

// Keys are the services that the cluster declares exported.
func (c *Cluster) Keys() []mcs.ServiceKey {
	keys := c.exports.Keys()
	if c.gke != nil {
		keys = append(keys, c.gke.Keys()...)
	}
	return keys
}

// Exports is the number of ServiceExports, of both kinds.
func (c *Cluster) Exports() int {
	n := c.exports.Len()
	if c.gke != nil {
		n += c.gke.Len()
	}
	return n
}

// declaration is what the cluster's ServiceExports say of a service.
func (c *Cluster) declaration(key mcs.ServiceKey) (d declaration, declared bool) {
	d, declared = c.exports.One(key)
	if c.gke == nil {
		return d, declared
	}
	if gke, ok := c.gke.One(key); ok {
		if !declared {
			return gke, true
		}
		d.Created = model.Older(d.Created, gke.Created)
	}
	return d, declared
}

// Offer is the cluster's offer of a service, or why its ServiceExport offers
// nothing; declared is false when it has no ServiceExport. The offer has no slices
// as long as they are unknown.
func (c *Cluster) Offer(key mcs.ServiceKey) (offer model.Export, problem *model.Problem, declared bool) {
	offer, problem, declared, _ = c.offer(key)
	return offer, problem, declared
}

// offer is Offer that also tells whether the slices are known.
func (c *Cluster) offer(key mcs.ServiceKey) (offer model.Export, problem *model.Problem, declared, known bool) {
	declaration, declared := c.declaration(key)
	if !declared {
		return model.Export{}, nil, false, false
	}
	var source *model.Source
	if s, ok := c.services.One(key); ok {
		source = &s
	}
	offer, problem = model.Offer(c.options.ID, key, c.options.Namespaces.Closed(key.Namespace), declaration.Declaration, source)
	if problem == nil {
		offer.Slices, known = c.slices.Of(key)
	}
	return offer, problem, true, known
}

// same tells a change of what is kept from one of what is not, such as a status.
func same[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

// ifExported passes a change on when the service is exported: most are not.
func (c *Cluster) ifExported(key mcs.ServiceKey) {
	if _, exported := c.declaration(key); exported || c.withholds(key) {
		c.bounded.touch(key)
		c.options.Changed(key)
	}
}

func (c *Cluster) tableSynced() {
	if c.hasReadExports() {
		c.exportsOnce.Do(func() { close(c.exportsRead) })
	}
	if c.HasSynced() {
		c.syncedOnce.Do(func() {
			c.options.Log.Info("cluster is read", "exports", c.Exports())
			c.options.Synced()
			if c.options.Peer != nil {
				c.options.Peer.Judge()
			}
		})
	}
}

func (c *Cluster) dropped(slice, address, reason string) {
	c.droppedCount.Add(1)
	if c.droppedLog.Allow() {
		c.options.Log.Warn("address left out", "slice", slice, "address", address, "reason", reason)
	}
}
