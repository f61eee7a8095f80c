package peer

import (
	"sync"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// withdrawals guard which exports of a peer stand here.
type withdrawals struct {
	mu     sync.Mutex // guards ledger
	ledger *policy.Ledger
	// compared is set once the peer's exports were compared with what stands here.
	compared bool
}

// exported takes in that the exports of a service changed.
func (c *Cluster) exported(key mcs.ServiceKey) {
	_, declared := c.declaration(key)
	if c.options.Peer != nil {
		c.guard.mu.Lock()
		if declared {
			c.guard.ledger.Declare(key)
		} else {
			c.guard.ledger.Withdraw(key, time.Now())
		}
		c.guard.mu.Unlock()
	}
	known := c.follow(key)
	c.bounded.touch(key)
	if !declared && c.options.Peer != nil {
		c.options.Peer.Judge()
	}
	if known {
		c.options.Changed(key)
	}
}

// compare takes in what stands here of a cluster that has been read, once.
func (c *Cluster) compare(stored func() []mcs.ServiceKey, heldSince, now time.Time) (first bool) {
	standing, first := c.compared(stored, heldSince, now)
	for _, key := range standing {
		c.follow(key)
	}
	return first
}

func (c *Cluster) compared(stored func() []mcs.ServiceKey, heldSince, now time.Time) (standing []mcs.ServiceKey, first bool) {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if c.guard.compared {
		return nil, false
	}
	c.guard.compared = true
	c.bounded.touch()
	c.guard.ledger = policy.NewLedger(heldSince)
	for _, key := range c.Keys() {
		c.guard.ledger.Declare(key)
	}
	standing = stored()
	c.guard.ledger.Remember(standing, now)
	return append(standing, c.slices.wanted()...), true
}

// Told reports whether the cluster's offers are known: it has been read, and
// compared with what stands here.
func (c *Cluster) Told() bool {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return c.guard.compared && c.HasSynced()
}

// withholds reports whether a service stands although the cluster withdrew it.
func (c *Cluster) withholds(key mcs.ServiceKey) bool {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return c.guard.ledger.Withholds(key)
}

// judge decides on the withdrawals that came.
func (c *Cluster) judge(now time.Time, brake policy.Brake, word time.Time) (withdrawn []mcs.ServiceKey, turn policy.Turn, held int, since time.Time) {
	c.guard.mu.Lock()
	withdrawn, turn = c.guard.ledger.Judge(now, brake, c.goes, word)
	held, since = c.guard.ledger.Withheld(), c.guard.ledger.HeldSince()
	c.guard.mu.Unlock()
	for _, key := range withdrawn {
		c.follow(key)
	}
	return withdrawn, turn, held, since
}

// goes reports whether the namespace of a service goes or is gone in the cluster,
// which explains why its exports go.
func (c *Cluster) goes(key mcs.ServiceKey) bool {
	if !c.namespaces.HasSynced() {
		return false
	}
	_, stays := c.namespaces.One(mcs.ServiceKey{Namespace: key.Namespace})
	return !stays
}

// withheld is the number of services that stand although the cluster withdrew them.
func (c *Cluster) withheld() int {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return c.guard.ledger.Withheld()
}

// heldSince is when the brake was put on, zero when it is off.
func (c *Cluster) heldSince() time.Time {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return c.guard.ledger.HeldSince()
}
