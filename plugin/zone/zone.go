package zone

import (
	"hash/maphash"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Zone is an immutable index of everything that exists under the origins.
// Readers need no lock: they load one pointer to a Zone and keep it for the
// length of a query.
//
// The index is a two-level map: a fixed array of shards, each an ordinary map
// from "S.N" to its service. A change copies the array (2 KiB) and the one map
// that holds the service (20 entries when there are 5,000 services, 400 when
// there are 100,000) and shares all else with the Zone before it, so that the
// cost of a change hardly grows with the number of services, and a query sees
// one state of the whole zone, serial included. A concurrent map of pointers
// would save that copy, but a query would then see services, namespaces and
// serial of different moments; a tree would save it at the price of several
// steps per query.
type Zone struct {
	serial      uint32
	nameservers addresses
	local       mcs.ClusterID
	origins     []string
	shards      [shardCount]*shard
	reverse     reverse
}

const shardCount = 256

// shard is a part of the index, and never changes once its Zone is published.
type shard struct {
	services   map[string]*service // by "S.N"
	namespaces map[string]struct{} // N of every import, also of one without a name
}

// seed is the same for all zones of a process, because shards move from one to the next.
var seed = maphash.MakeSeed()

func shardOf(key string) int { return int(maphash.String(seed, key) % shardCount) }

// Serial is that of the SOA record. It grows with every visible change.
func (z *Zone) Serial() uint32 { return z.serial }

func (z *Zone) service(key string) *service { return z.shards[shardOf(key)].services[key] }

func (z *Zone) hasNamespace(name string) bool {
	_, ok := z.shards[shardOf(name)].namespaces[name]
	return ok
}
