package peer

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
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
	// Also are further readers of the same watches, nil for peers.
	Also Stores
}

// Stores are readers of the watches of a Cluster beside its own tables.
type Stores struct {
	Exports, Services, Slices cache.ReflectorStore
}

// Cluster is what one cluster offers, kept up to date.
type Cluster struct {
	options Options
	health  *health

	exports  *watch.Table[model.Declaration]
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
	also := c.options.Also
	var done sync.WaitGroup
	for _, follow := range []struct {
		resource watch.Resource
		table    cache.ReflectorStore
		also     cache.ReflectorStore
	}{
		{watch.ServiceExports(c.options.Clients.MCS, ""), c.exports, also.Exports},
		{watch.Services(c.options.Clients.Kube, ""), c.services, also.Services},
		{watch.EndpointSlices(c.options.Clients.Kube, ""), c.slices, also.Slices},
	} {
		store := follow.table
		if follow.also != nil {
			store = watch.Tee{follow.also, follow.table}
		}
		done.Go(func() {
			follow.resource.Run(ctx, store, func(err error) { c.Report(follow.resource.Name, err) })
		})
	}
	done.Wait()
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
	return c.exports.HasSynced() && c.services.HasSynced() && c.slices.HasSynced()
}

// Problems are what cannot be read now.
func (c *Cluster) Problems() []Problem { return c.health.all() }

// Keys are the services that the cluster declares exported.
func (c *Cluster) Keys() []mcs.ServiceKey { return c.exports.Keys() }

// Offer is the cluster's offer of a service, or why its ServiceExport offers
// nothing; declared is false when it has no ServiceExport.
func (c *Cluster) Offer(key mcs.ServiceKey) (offer model.Export, problem *model.Problem, declared bool) {
	declaration, declared := c.exports.One(key)
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
	if _, exported := c.exports.One(key); exported {
		c.options.Changed(key)
	}
}

func (c *Cluster) tableSynced() {
	if c.HasSynced() {
		c.syncedOnce.Do(func() {
			c.options.Log.Info("cluster is read", "exports", c.exports.Len())
			c.options.Synced()
		})
	}
}

func (c *Cluster) dropped(slice, address, reason string) {
	if c.droppedLog.Allow() {
		c.options.Log.Warn("address left out", "slice", slice, "address", address, "reason", reason)
	}
}
