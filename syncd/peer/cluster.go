package peer

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/cache"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
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
	// Also are further readers of the same watches, nil for peers.
	Also Stores
}

// Stores are readers of the watches of a Cluster beside its own tables.
type Stores struct {
	Exports, GKEExports, Services, Slices cache.ReflectorStore
}

// Cluster is what one cluster offers, kept up to date.
type Cluster struct {
	options Options
	health  *health

	exports  *watch.Table[model.Declaration]
	gke      *watch.Table[model.Declaration] // nil without GKECompat
	noGKE    atomic.Bool                     // the cluster does not serve that kind
	services *watch.Table[model.Source]
	slices   *watch.Table[model.Slice]

	syncedOnce sync.Once
	// droppedLog bounds the lines about addresses left out, which a peer could
	// otherwise make as many as it likes.
	droppedLog *rate.Limiter
}

// NewCluster makes a Cluster that has read nothing yet.
func NewCluster(o Options) *Cluster {
	c := &Cluster{options: o, droppedLog: rate.NewLimiter(rate.Every(10*time.Second), 3)}
	c.health = newHealth(
		func(p Problem) {
			o.Log.Error("cannot read cluster", "resource", p.Resource, "reason", p.Reason, "err", p.Err, "remedy", p.Remedy)
		},
		func(p Problem) {
			o.Log.Info("problem is gone", "resource", p.Resource, "reason", p.Reason)
		},
	)
	c.exports = watch.NewTable(watch.TableOptions[model.Declaration]{
		Convert: convertExport, Equal: same[model.Declaration], Changed: o.Changed, Synced: c.tableSynced,
	})
	if o.GKECompat {
		c.gke = watch.NewTable(watch.TableOptions[model.Declaration]{
			Convert: convertExport, Equal: same[model.Declaration], Changed: o.Changed, Synced: c.tableSynced,
		})
	}
	c.services = watch.NewTable(watch.TableOptions[model.Source]{
		Convert: convertService, Equal: same[model.Source], Changed: c.ifExported, Synced: c.tableSynced,
	})
	c.slices = watch.NewTable(watch.TableOptions[model.Slice]{
		Convert: func(object any) (mcs.ServiceKey, model.Slice, bool) { return convertSlice(object, c.dropped) },
		Equal:   model.Slice.Equal, Changed: c.ifExported, Synced: c.tableSynced,
	})
	return c
}

// ID is the cluster's id in the clusterset.
func (c *Cluster) ID() mcs.ClusterID { return c.options.ID }

// Run reads the cluster until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	also, clients := c.options.Also, c.options.Clients
	var done sync.WaitGroup
	follow := func(resource watch.Resource, table, also cache.ReflectorStore, report func(resource string, err error)) {
		if also != nil {
			table = watch.Tee{also, table}
		}
		done.Go(func() { resource.Run(ctx, table, func(err error) { report(resource.Name, err) }) })
	}
	follow(watch.ServiceExports(clients.MCS, ""), c.exports, also.Exports, c.Report)
	follow(watch.Services(clients.Kube, ""), c.services, also.Services, c.Report)
	follow(watch.EndpointSlices(clients.Kube, ""), c.slices, also.Slices, c.Report)
	if c.gke != nil {
		follow(watch.GKEServiceExports(clients.Dynamic, ""), c.gke, also.GKEExports, c.reportGKE)
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
	return c.exports.HasSynced() && c.services.HasSynced() && c.slices.HasSynced() &&
		(c.gke == nil || c.gke.HasSynced() || c.noGKE.Load())
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
func (c *Cluster) declaration(key mcs.ServiceKey) (d model.Declaration, declared bool) {
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
// nothing; declared is false when it has no ServiceExport.
func (c *Cluster) Offer(key mcs.ServiceKey) (offer model.Export, problem *model.Problem, declared bool) {
	declaration, declared := c.declaration(key)
	if !declared {
		return model.Export{}, nil, false
	}
	var source *model.Source
	if s, ok := c.services.One(key); ok {
		source = &s
	}
	offer, problem = model.Offer(c.options.ID, key, declaration, source)
	if problem == nil {
		offer.Slices = c.slices.Of(key)
	}
	return offer, problem, true
}

// same tells a change of what is kept from one of what is not, such as a status.
func same[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

// ifExported passes a change on when the service is exported: most are not.
func (c *Cluster) ifExported(key mcs.ServiceKey) {
	if _, exported := c.declaration(key); exported {
		c.options.Changed(key)
	}
}

func (c *Cluster) tableSynced() {
	if c.HasSynced() {
		c.syncedOnce.Do(func() {
			c.options.Log.Info("cluster is read", "exports", c.Exports())
			c.options.Synced()
		})
	}
}

func (c *Cluster) dropped(slice, address, reason string) {
	if c.droppedLog.Allow() {
		c.options.Log.Warn("address left out", "slice", slice, "address", address, "reason", reason)
	}
}
