package peer

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

const (
	// boundEvery is how often a peer is held against its bounds.
	boundEvery = time.Second
	// nearly is the part of a bound at which it is told.
	nearly = 0.8
)

// bounded is what of a cluster does not fit.
type bounded struct {
	mu     sync.Mutex                    // guards the fields below
	due    bool                          // a look is due
	stale  map[mcs.ServiceKey]struct{}   // services whose use changed since the last one
	uses   map[mcs.ServiceKey]policy.Use // what exports take of the bounds
	left   map[mcs.ServiceKey]bool
	looked time.Time
	near   bool

	told int // denied exports that were told; of the goroutine that decides
}

// touch notes that what services take of the bounds changed; without any, that
// what is denied did.
func (b *bounded) touch(keys ...mcs.ServiceKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = true
	if b.stale == nil {
		b.stale, b.uses = map[mcs.ServiceKey]struct{}{}, map[mcs.ServiceKey]policy.Use{}
	}
	for _, key := range keys {
		b.stale[key] = struct{}{}
	}
}

// LeftOut reports whether an export does not fit the bounds on one cluster.
func (c *Cluster) LeftOut(key mcs.ServiceKey) bool {
	c.bounded.mu.Lock()
	defer c.bounded.mu.Unlock()
	return c.bounded.left[key]
}

// bounding is what a look at the bounds found.
type bounding struct {
	// left is the number of exports that do not fit, turned are those that changed
	// sides.
	left   int
	turned []mcs.ServiceKey
	// share is the part of the bounds that is used. near is true from nearly on,
	// and crossed when that is news.
	share         float64
	near, crossed bool
}

// bound holds the cluster against bounds, if it is time to look; otherwise it
// reports false.
func (c *Cluster) bound(bounds policy.Bounds, now time.Time) (found bounding, looked bool) {
	b := &c.bounded
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.looked) < boundEvery || !b.due {
		return bounding{}, false
	}
	b.due, b.looked = false, now
	for key := range b.stale {
		if use, ok := c.use(key); ok {
			b.uses[key] = use
		} else {
			delete(b.uses, key)
		}
	}
	clear(b.stale)
	left, share := bounds.LeftOut(slices.Collect(maps.Values(b.uses)))
	found = bounding{left: len(left), share: share, near: share >= nearly}
	for key := range b.left {
		if !left[key] {
			found.turned = append(found.turned, key)
		}
	}
	for key := range left {
		if !b.left[key] {
			found.turned = append(found.turned, key)
		}
	}
	found.crossed = found.near != b.near
	b.left, b.near = left, found.near
	return found, true
}

// use is what the export of a service takes of the bounds; ok is false when there
// is none that counts.
func (c *Cluster) use(key mcs.ServiceKey) (use policy.Use, ok bool) {
	d, ok := c.declaration(key)
	if !ok || c.options.Namespaces.Closed(key.Namespace) {
		return policy.Use{}, false
	}
	use = policy.Use{Key: key, Created: d.Created}
	kept, _ := c.slices.Of(key)
	for _, s := range kept {
		use.Slices++
		use.Endpoints += len(s.Endpoints)
	}
	return use, true
}

// Denied are the clusters whose export of a service is not taken over: its
// namespace is not on their list, or it does not fit.
func (r *Registry) Denied(key mcs.ServiceKey) map[mcs.ClusterID]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var denied map[mcs.ClusterID]bool
	for id, e := range r.peers {
		if e.options.AllowsNamespace(key.Namespace) && (e.cluster == nil || !e.cluster.LeftOut(key)) {
			continue
		}
		if denied == nil {
			denied = map[mcs.ClusterID]bool{}
		}
		denied[id] = true
	}
	return denied
}

// denied is the number of exports that are not taken over.
func (e *entry) denied() int {
	count := 0
	for _, key := range e.cluster.Keys() {
		if e.cluster.options.Namespaces.Closed(key.Namespace) || !e.options.AllowsNamespace(key.Namespace) || e.cluster.LeftOut(key) {
			count++
		}
	}
	return count
}

// remedyBounds is what to do about bounds.
const remedyBounds = "raise --max-exports, --max-slices or --max-endpoints if all this is meant: what is over is left out, the youngest first"

// bound holds a peer against its bounds, and says what does not fit.
func (r *Registry) bound(id mcs.ClusterID, e *entry, now time.Time) {
	found, looked := e.cluster.bound(r.options.Bounds, now)
	if !looked {
		return
	}
	for _, key := range found.turned {
		r.options.Changed(key)
	}
	log := r.options.Log.With("cluster", id, "secret", e.name())
	if found.crossed {
		if found.near {
			log.Warn("peer is near its bounds", "percent", int(found.share*100), "remedy", remedyBounds)
		} else {
			log.Info("peer is within its bounds again", "percent", int(found.share*100))
		}
		r.options.Tell(e.secret, found.near, "PeerBounds", fmt.Sprintf("Cluster %s has %.0f %% of what is taken over from one peer", id, found.share*100))
	}
	if denied := e.denied(); denied != e.cluster.bounded.told {
		e.cluster.bounded.told = denied
		log.Warn("exports are not taken over", "exports", denied, "over_bounds", found.left, "remedy", "see --denied-namespaces, "+mcs.AnnotationAllowNamespaces+" of the Secret, and the bounds")
	}
}

// BoundOwn holds the own cluster against the bounds that peers have, if they have
// the same: what is over is imported here, and nowhere else.
func (r *Registry) BoundOwn(now time.Time) {
	found, looked := r.options.Own.bound(r.options.Bounds, now)
	if !looked {
		return
	}
	for _, key := range found.turned {
		r.options.Changed(key)
	}
	switch {
	case found.left > 0 && len(found.turned) > 0:
		r.options.Log.Warn("this cluster is over the bounds", "exports", found.left, "percent", int(found.share*100), "remedy", remedyBounds)
	case found.crossed && found.near:
		r.options.Log.Warn("this cluster is near the bounds", "percent", int(found.share*100), "remedy", remedyBounds)
	case found.crossed:
		r.options.Log.Info("this cluster is within the bounds again", "percent", int(found.share*100))
	}
}
