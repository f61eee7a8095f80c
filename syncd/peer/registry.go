package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// State is how far a peer can be read.
type State string

// The states of a peer.
const (
	// Connecting: not read whole yet.
	Connecting State = "Connecting"
	// Synced: read whole; what comes is followed.
	Synced State = "Synced"
	// Held: the API server answers but refuses something; what is known is kept.
	Held State = "Held"
	// Refused: the Secret cannot be used.
	Refused State = "Refused"
)

// States are all states, for metrics.
var States = []State{Connecting, Synced, Held, Refused}

// RegistryOptions make a Registry.
type RegistryOptions struct {
	// Own is the cluster that syncd runs in; a Secret with its id is refused.
	Own *Cluster
	// Secrets are the peer Secrets to follow.
	Secrets watch.Resource
	// Connect makes the clients of a peer.
	Connect func(*rest.Config) (watch.Clients, error)
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
}

// entry is one peer: the Secret that stands for it and what became of it.
type entry struct {
	secret     string
	kubeconfig []byte
	cluster    *Cluster // nil when refused
	problem    *Problem // why refused
	stop       func()   // ends the cluster's watches, soon
}

// NewRegistry makes a Registry without peers.
func NewRegistry(o RegistryOptions) *Registry {
	r := &Registry{options: o, peers: map[mcs.ClusterID]*entry{}, refused: map[string]Problem{}}
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
	if offer, problem, ok := r.options.Own.Offer(key); ok && problem == nil {
		view.Exports = append(view.Exports, offer)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, e := range r.peers {
		if e.cluster == nil || !e.cluster.HasSynced() {
			view.Unknown = append(view.Unknown, id)
			for _, s := range stored {
				if s.Cluster == id {
					view.Exports = append(view.Exports, s)
				}
			}
			continue
		}
		if offer, problem, ok := e.cluster.Offer(key); ok && problem == nil {
			view.Exports = append(view.Exports, offer)
		}
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

// Status is the state of one peer Secret.
type Status struct {
	// Cluster is empty for a Secret whose label is no cluster id.
	Cluster  mcs.ClusterID
	Secret   string
	State    State
	Problems []Problem
	// Exports is the number of services the peer declares exported.
	Exports int
}

// Statuses are the states of all peers, by cluster id, then of Secrets that have
// no place.
func (r *Registry) Statuses() []Status {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Status
	for _, id := range slices.Sorted(maps.Keys(r.peers)) {
		e := r.peers[id]
		s := Status{Cluster: id, Secret: e.secret, State: Refused}
		if e.cluster == nil {
			s.Problems = []Problem{*e.problem}
		} else {
			s.Problems, s.Exports = e.cluster.Problems(), e.cluster.Exports()
			s.State = e.cluster.state()
		}
		all = append(all, s)
	}
	for _, secret := range slices.Sorted(maps.Keys(r.refused)) {
		all = append(all, Status{Secret: secret, State: Refused, Problems: []Problem{r.refused[secret]}})
	}
	return all
}

func (c *Cluster) state() State {
	if slices.ContainsFunc(c.Problems(), Problem.lives) {
		return Held
	}
	if c.HasSynced() {
		return Synced
	}
	return Connecting
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
	winners, refused := assign(secrets, r.options.Own.ID())

	r.mu.RLock()
	next := make(map[mcs.ClusterID]*entry, len(winners))
	for id, secret := range winners {
		if have := r.peers[id]; have != nil && have.secret == nameOf(secret) && bytes.Equal(have.kubeconfig, secret.Data[mcs.SecretKeyKubeconfig]) {
			next[id] = have
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
			r.options.Log.Info("peer is removed", "cluster", id, "secret", e.secret)
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
		if next[id] != e {
			gone[id] = e
		}
	}
	r.peers, r.refused = next, refused
	return gone
}

// connect starts to read the peer of a Secret, or tells why it cannot.
func (r *Registry) connect(ctx context.Context, id mcs.ClusterID, secret *corev1.Secret) *entry {
	e := &entry{secret: nameOf(secret), kubeconfig: secret.Data[mcs.SecretKeyKubeconfig], stop: func() {}}
	log := r.options.Log.With("cluster", id, "secret", e.secret)
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
	clients, err := r.options.Connect(config)
	if err != nil {
		return refuse(bad(err))
	}
	e.cluster = NewCluster(Options{
		ID: id, Clients: clients, Role: "deploy/rbac/peer.yaml in the peer", Log: log,
		GKECompat: r.options.GKECompat,
		Changed:   r.options.Changed, Synced: r.options.Reset,
	})
	// A Reflector that waits between two tries notices the end only after the
	// pause, so nobody waits for it.
	ctx, e.stop = context.WithCancel(ctx)
	go e.cluster.Run(ctx)
	log.Info("peer is added", "server", config.Host)
	return e
}

// assign gives each cluster id to one Secret: the oldest that names it.
func assign(secrets []*corev1.Secret, own mcs.ClusterID) (winners map[mcs.ClusterID]*corev1.Secret, refused map[string]Problem) {
	slices.SortFunc(secrets, func(a, b *corev1.Secret) int {
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
