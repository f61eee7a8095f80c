package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// RegistryOptions make a Registry.
type RegistryOptions struct {
	// Own is the cluster that syncd runs in; a Secret with its id is refused.
	Own *Cluster
	// Secrets are the peer Secrets to follow.
	Secrets watch.Resource
	// Connect makes the clients of a peer, and its probe.
	Connect func(*rest.Config) (watch.Clients, Probe, error)
	// Timing, Brake and Defaults are for peers whose Secrets say nothing else.
	Timing   policy.Timing
	Brake    policy.Brake
	Defaults policy.PeerOptions
	// Bounds are for each peer.
	Bounds policy.Bounds
	// Namespaces are those that take no part.
	Namespaces policy.Namespaces
	// Prefer is for services whose export here says nothing else.
	Prefer policy.Prefer
	// LocalRead reports whether this cluster has been read; Stored are the services
	// that stand here and name a cluster, once it has.
	LocalRead func() bool
	Stored    func(mcs.ClusterID) []mcs.ServiceKey
	// Remembered is what the Lease of a peer says from before a restart.
	Remembered func(mcs.ClusterID) Record
	// Tell is told news about a peer for its Secret's events.
	Tell func(secret *corev1.Secret, warning bool, reason, message string)
	// GKECompat reads the ServiceExports of net.gke.io of peers too.
	GKECompat bool
	Log       *slog.Logger
	// Changed is told of each service whose offer may have changed; Reset that
	// many may have: a peer came, went or was read for the first time.
	Changed func(mcs.ServiceKey)
	Reset   func()
}

// Registry holds the clusters of the clusterset as this cluster knows them.
type Registry struct {
	options RegistryOptions
	secrets *watch.Table[*corev1.Secret]

	// synced is set once the first set of peers stands: before, no peer at all
	// would look like all peers gone.
	synced atomic.Bool

	mu    sync.RWMutex // guards the fields below; the entries do not change once stored
	peers map[mcs.ClusterID]*entry
	// refused are Secrets without a place of their own: a bad id, our own, or
	// one that another Secret has.
	refused map[string]Problem

	// states are the states of the peers, replaced by each decision, and decided
	// when that was; both are those of the goroutine that decides, which is the
	// only one to write.
	states  atomic.Pointer[map[mcs.ClusterID]policy.Status]
	decided time.Time
	kick    chan struct{}
}

// entry is one peer: the Secret that stands for it and what became of it.
type entry struct {
	secret  *corev1.Secret
	options policy.PeerOptions
	cluster *Cluster // nil when refused
	problem *Problem // why refused
	stop    func()   // ends the cluster's watches, soon
}

func (e *entry) name() string { return nameOf(e.secret) }

// told reports whether the peer's offers are known.
func (e *entry) told() bool { return e.cluster != nil && e.cluster.Told() }

// NewRegistry makes a Registry without peers.
func NewRegistry(o RegistryOptions) *Registry {
	r := &Registry{
		options: o, peers: map[mcs.ClusterID]*entry{}, refused: map[string]Problem{},
		kick: make(chan struct{}, 1),
	}
	r.states.Store(&map[mcs.ClusterID]policy.Status{})
	r.secrets = watch.NewTable(watch.TableOptions[*corev1.Secret]{
		Convert: func(object any) (mcs.ServiceKey, *corev1.Secret, bool) {
			secret, ok := object.(*corev1.Secret)
			if !ok {
				return mcs.ServiceKey{}, nil, false
			}
			return mcs.ServiceKey{Namespace: secret.Namespace, Name: secret.Name}, secret, true
		},
	})
	return r
}

// Run follows the Secrets, and the peers they stand for, until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	go r.watchOver(ctx)
	follow := r.options.Secrets.Selecting(mcs.LabelPeer)
	follow.Run(ctx, watch.Tee{r.secrets, after(func() { r.reconcile(ctx) })}, func(err error) {
		r.options.Own.Report(follow.Name, err)
	})
}

// HasSynced reports whether the set of peers is known.
func (r *Registry) HasSynced() bool { return r.synced.Load() }

// View is what is known of a service. stored are the offers that the import
// keeps; they speak for clusters that cannot be told now.
func (r *Registry) View(key mcs.ServiceKey, stored []model.Export) model.View {
	view := model.View{Key: key}
	if r.options.Namespaces.Closed(key.Namespace) {
		return view // what stands there from before goes, of peers that are away too
	}
	unknown := func(id mcs.ClusterID) {
		view.Unknown = append(view.Unknown, id)
		for _, s := range stored {
			if s.Cluster == id {
				view.Exports = append(view.Exports, s)
			}
		}
	}
	offered := func(c *Cluster) {
		offer, problem, declared, known := c.offer(key)
		switch {
		case !declared, problem != nil:
		case !known:
			unknown(c.ID())
		default:
			view.Exports = append(view.Exports, offer)
		}
	}
	offered(r.options.Own)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, e := range r.peers {
		if !e.told() {
			unknown(id)
			continue
		}
		if e.cluster.withholds(key) {
			at := slices.IndexFunc(stored, func(s model.Export) bool { return s.Cluster == id })
			now, known := e.cluster.slices.Of(key) // they go on following the peer
			if at < 0 || !known {
				unknown(id)
				continue
			}
			withheld := stored[at]
			withheld.Slices = now
			view.Exports = append(view.Exports, withheld)
			continue
		}
		offered(e.cluster)
	}
	return view
}

// Keys are the services that any cluster declares exported; some may repeat.
func (r *Registry) Keys() []mcs.ServiceKey {
	keys := r.options.Own.Keys()
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.peers {
		if e.cluster != nil {
			keys = append(keys, e.cluster.Keys()...)
		}
	}
	return keys
}

// The reasons of a Secret without a place.
const (
	ReasonBadID       = "BadID"
	ReasonOwnID       = "OwnID"
	ReasonDuplicateID = "DuplicateID"
)

// reconcile makes the peers those that the Secrets name. It runs on the
// goroutine of the Secrets' watch, so never twice at once.
func (r *Registry) reconcile(ctx context.Context) {
	secrets := make([]*corev1.Secret, 0, r.secrets.Len())
	for _, key := range r.secrets.Keys() {
		if s, ok := r.secrets.One(key); ok {
			secrets = append(secrets, s)
		}
	}
	r.mu.RLock()
	inUse := make(map[mcs.ClusterID]string, len(r.peers))
	for id, e := range r.peers {
		inUse[id] = e.name()
	}
	winners, refused := assign(secrets, r.options.Own.ID(), inUse)
	next := make(map[mcs.ClusterID]*entry, len(winners))
	for id, secret := range winners {
		if have := r.peers[id]; have != nil && have.name() == nameOf(secret) && maps.EqualFunc(have.secret.Data, secret.Data, bytes.Equal) && sameAnnotation(have.secret, secret, mcs.AnnotationAllowCIDRs) {
			kept := *have
			kept.secret = secret
			next[id] = &kept
		}
	}
	told := r.refused
	r.mu.RUnlock()

	for name, p := range refused {
		if before, had := told[name]; !had || before.Reason != p.Reason {
			r.options.Log.Error("cannot use peer Secret", "secret", name, "reason", p.Reason, "err", p.Err, "remedy", p.Remedy)
		}
	}
	changed := !r.synced.Load()
	for _, e := range next {
		if r.configure(e) {
			changed = true
		}
	}
	for id, secret := range winners {
		if next[id] == nil {
			next[id] = r.connect(ctx, id, secret)
			changed = true
		}
	}
	gone := r.take(next, refused)
	r.synced.Store(true)
	for id, e := range gone {
		e.stop()
		if next[id] == nil {
			r.options.Log.Info("peer is removed", "cluster", id, "secret", e.name())
		}
	}
	if changed || len(gone) > 0 {
		r.options.Reset()
	}
}

// after is a store that keeps nothing and calls a function at each event.
type after func()

func (f after) Add(any) error               { f(); return nil }
func (f after) Update(any) error            { f(); return nil }
func (f after) Delete(any) error            { f(); return nil }
func (f after) Replace([]any, string) error { f(); return nil }
func (f after) Resync() error               { return nil }

// take stores a new set of peers and returns the entries that are not in it.
func (r *Registry) take(next map[mcs.ClusterID]*entry, refused map[string]Problem) map[mcs.ClusterID]*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := map[mcs.ClusterID]*entry{}
	for id, e := range r.peers {
		if n := next[id]; n == nil || n.cluster != e.cluster || n.problem != e.problem {
			gone[id] = e
		}
	}
	r.peers, r.refused = next, refused
	return gone
}

// connect starts to read the peer of a Secret, or tells why it cannot.
func (r *Registry) connect(ctx context.Context, id mcs.ClusterID, secret *corev1.Secret) *entry {
	e := &entry{secret: secret, stop: func() {}}
	r.configure(e)
	log := r.options.Log.With("cluster", id, "secret", e.name())
	refuse := func(err error) *entry {
		p := Problem{Resource: "secret", Reason: ReasonBadKubeconfig, Err: err}
		if credential, ok := errors.AsType[*CredentialError](err); ok {
			p.Reason, p.Remedy = credential.Reason, credential.Remedy
		}
		log.Error("cannot use peer Secret", "reason", p.Reason, "err", err, "remedy", p.Remedy)
		e.problem = &p
		return e
	}
	config, err := Credential(secret)
	if err != nil {
		return refuse(err)
	}
	clients, probe, err := r.options.Connect(config)
	if err != nil {
		return refuse(bad(err))
	}
	e.cluster = NewCluster(Options{
		ID: id, Clients: clients, Role: "deploy/rbac/peer.yaml in the peer", Log: log,
		GKECompat: r.options.GKECompat, Namespaces: r.options.Namespaces,
		Allows:  e.options.AllowsAddress,
		Changed: r.options.Changed, Synced: func() {},
		Peer: &PeerParts{Probe: probe, ProbeInterval: r.options.Timing.ProbeInterval, Judge: r.judgeSoon},
	})
	// A Reflector that waits between two tries notices the end only after the
	// pause, so nobody waits for it.
	ctx, e.stop = context.WithCancel(ctx)
	go e.cluster.Run(ctx)
	log.Info("peer is added", "server", config.Host)
	return e
}

// configure reads the annotations of a peer's Secret; it reports a change.
func (r *Registry) configure(e *entry) bool {
	options, err := policy.ParsePeerOptions(e.secret.Annotations, r.options.Defaults)
	changed := !reflect.DeepEqual(e.options, options)
	if err != nil && changed {
		r.options.Log.Error("cannot read annotations of peer Secret", "secret", e.name(), "err", err, "remedy", "correct them: until then the defaults count, and a wrong allow-list allows nothing")
	}
	e.options = options
	if changed && e.cluster != nil {
		e.cluster.bounded.touch()
	}
	return changed
}

// sameAnnotation reports that two Secrets agree in an annotation that decides what
// is kept of a peer's objects: when it changes, the peer is read anew.
func sameAnnotation(a, b *corev1.Secret, name string) bool {
	before, had := a.Annotations[name]
	now, has := b.Annotations[name]
	return before == now && had == has
}

// assign gives each cluster id to one Secret: the one in use, else the oldest that
// names it.
func assign(secrets []*corev1.Secret, own mcs.ClusterID, inUse map[mcs.ClusterID]string) (winners map[mcs.ClusterID]*corev1.Secret, refused map[string]Problem) {
	used := func(s *corev1.Secret) int {
		if inUse[mcs.ClusterID(s.Labels[mcs.LabelPeer])] == nameOf(s) {
			return 0
		}
		return 1
	}
	slices.SortFunc(secrets, func(a, b *corev1.Secret) int {
		if c := used(a) - used(b); c != 0 {
			return c
		}
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	winners, refused = map[mcs.ClusterID]*corev1.Secret{}, map[string]Problem{}
	for _, secret := range secrets {
		refuse := func(reason, remedy string, err error) {
			refused[nameOf(secret)] = Problem{Resource: "secret", Reason: reason, Remedy: remedy, Err: err}
		}
		id, err := mcs.ParseClusterID(secret.Labels[mcs.LabelPeer])
		switch {
		case err != nil:
			refuse(ReasonBadID, "label the Secret "+mcs.LabelPeer+"=<cluster id>", err)
		case id == own:
			refuse(ReasonOwnID, "give the Secret the peer's id, or this cluster another one", errors.New("cluster id "+string(id)+" is this cluster's own"))
		case winners[id] != nil:
			refuse(ReasonDuplicateID, "remove one of the two Secrets, or correct its label", errors.New("cluster id "+string(id)+" is that of Secret "+nameOf(winners[id])))
		default:
			winners[id] = secret
		}
	}
	return winners, refused
}

func nameOf(s *corev1.Secret) string { return s.Namespace + "/" + s.Name }
