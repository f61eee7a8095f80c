// Package syncd keeps one cluster's ServiceImports, derived Services and
// mirrored EndpointSlices equal to what the clusters of its clusterset export.
package syncd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/apply"
	"github.com/k8s-mcs/k8s-mcs/syncd/config"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// Client limits. client-go's default of 5 requests a second makes a first sync
// take minutes; what is asked of a peer is a list and a watch of each resource, and
// a list of the slices of each service that becomes exported later.
const (
	localQPS, localBurst = 200, 400
	peerQPS, peerBurst   = 100, 200
)

// syncTimeout bounds the work on one service.
const syncTimeout = 30 * time.Second

// Run runs syncd until ctx ends. It returns an error only for what cannot mend
// itself: a configuration that is wrong, or an address that cannot be listened on.
func Run(ctx context.Context, c config.Config, log *slog.Logger) error {
	local, err := localConfig(c.Kubeconfig)
	if err != nil {
		return err
	}
	local.QPS, local.Burst, local.UserAgent = localQPS, localBurst, "syncd"
	clients, err := watch.NewClients(local)
	if err != nil {
		return fmt.Errorf("make clients for this cluster: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for --listen: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registry := prometheus.NewRegistry()
	log.Info("listening", "addr", listener.Addr().String())

	var (
		running atomic.Pointer[syncer] // nil until the id is known
		done    sync.WaitGroup
	)
	done.Go(func() {
		if c.ClusterID == "" {
			id, ok := ownID(ctx, clients.Dynamic, log)
			if !ok {
				return
			}
			c.ClusterID = id
		}
		s := newSyncer(c, clients, log)
		s.metrics.register(registry, s)
		running.Store(s)
		s.run(ctx)
	})
	err = serve(ctx, listener, registry, func() []string {
		switch s := running.Load(); {
		case s == nil:
			return []string{"cluster id"}
		case s.ready.Load():
			return nil
		default:
			return append(s.waitingFor(), "services of this cluster")
		}
	})
	cancel()
	done.Wait()
	return err
}

// localConfig is the configuration for this cluster's API server.
func localConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("read in-cluster configuration: %w: outside a pod, give --kubeconfig FILE", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig %s: %w", kubeconfig, err)
	}
	return c, nil
}

// newSyncer wires the parts: own cluster, peers, cache, writer and queue.
func newSyncer(c config.Config, clients watch.Clients, log *slog.Logger) *syncer {
	s := &syncer{
		config: c, log: log, metrics: newMetrics(), clients: clients,
		queue: newQueue(), lead: newLead(),
	}
	s.cache = apply.NewCache(s.changed, c.GKECompat)
	s.refusals = newRefusals(s.queue.Add)
	also := peer.Stores{Exports: s.cache.Exports, Services: watch.Tee{s.cache.Services, s.refusals}, Slices: s.cache.Slices}
	if c.GKECompat {
		also.GKEExports = s.cache.GKEExports
	}
	s.own = peer.NewCluster(peer.Options{
		ID: c.ClusterID, Clients: clients, Role: "deploy/rbac/syncd.yaml",
		Log:       log.With("cluster", c.ClusterID, "own", true),
		GKECompat: c.GKECompat, Namespaces: c.Namespaces,
		Changed: s.changed, Synced: func() {},
		Also: also,
	})
	s.leases = peer.NewLeases(clients.Kube, c.Namespace, func(verb string, err error) {
		s.metrics.wrote("leases", plan.Verb(verb), err)
	})
	timing, brake, defaults := peerRules(c)
	s.peers = peer.NewRegistry(peer.RegistryOptions{
		Timing: timing, Brake: brake, Defaults: defaults, Prefer: c.Prefer, Bounds: c.Bounds, Namespaces: c.Namespaces,
		LocalRead: s.localRead, Stored: s.stored, Remembered: s.leases.Remembered, Tell: s.tellPeer,
		Own:       s.own,
		Secrets:   watch.Secrets(clients.Kube, c.Namespace),
		Connect:   connectPeer,
		GKECompat: c.GKECompat,
		Log:       log, Changed: s.changed, Reset: s.enqueueAll,
	})
	s.writer = apply.NewWriter(clients, s.cache, s.metrics.wrote)
	return s
}

// connectPeer makes the clients of a peer and its probe.
func connectPeer(config *rest.Config) (watch.Clients, peer.Probe, error) {
	config.QPS, config.Burst, config.UserAgent = peerQPS, peerBurst, "syncd"
	clients, err := watch.NewClients(config)
	if err != nil {
		return watch.Clients{}, nil, err
	}
	probe, err := peer.NewProbe(config)
	return clients, probe, err
}

// run follows everything and works off the queue until ctx ends. It does not
// wait for the watches to end: one that is between two tries takes its time.
func (s *syncer) run(ctx context.Context) {
	go s.own.Run(ctx)
	go s.peers.Run(ctx)
	go s.leases.Run(ctx, s.own.Report)
	go s.followFamilies(ctx)
	follow := func(resource watch.Resource, store cache.ReflectorStore) {
		go resource.Run(ctx, store, func(err error) { s.own.Report(resource.Name, err) })
	}
	follow(watch.ServiceImports(s.clients.MCS, ""), s.cache.Imports)
	follow(watch.Namespaces(s.clients.Kube), s.cache.Namespaces)
	if s.config.GKECompat {
		follow(watch.Endpoints(s.clients.Kube, "").Selecting(mcs.LabelManagedBy+"="+mcs.ManagedBy), s.cache.Endpoints)
	}
	s.work(ctx)
}

// work waits until this cluster and the set of its peers are known, and never
// for a peer, and then works off the queue.
func (s *syncer) work(ctx context.Context) {
	if !s.waitReady(ctx) {
		return
	}
	s.log.Info("own cluster and set of peers are known", "peers", len(s.peers.Statuses()))
	s.peers.BoundOwn(time.Now())
	s.ready.Store(true)
	s.enqueueAll()

	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	resigned := make(chan struct{})
	go func() { defer close(resigned); s.elect(electing) }()
	var workers sync.WaitGroup
	workers.Go(func() { s.keepLeases(ctx) })
	for range workerCount {
		workers.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	workers.Wait()
	resign() // only now: who leads next must find nobody else writing
	select {
	case <-resigned:
	case <-time.After(resignTimeout):
	}
}

// waitReady looks every 20 ms, which is cheap and happens once.
func (s *syncer) waitReady(ctx context.Context) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if len(s.waitingFor()) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// waitingFor names what of this cluster has not been read yet.
func (s *syncer) waitingFor() []string {
	missing := s.cache.Missing()
	if len(missing) == 0 && !s.own.HasSynced() {
		missing = append(missing, "exports of this cluster") // the second reader of the same watches
	}
	if !s.peers.HasSynced() {
		missing = append(missing, "peer secrets")
	}
	if !s.leases.HasSynced() {
		missing = append(missing, "leases")
	}
	if s.families.Load() == nil {
		missing = append(missing, "IP families")
	}
	return missing
}

// next works off one service while this replica leads; false means that the
// queue is shut down.
func (s *syncer) next(ctx context.Context) bool {
	key, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(key)
	term, ok := s.lead.wait(ctx)
	if !ok {
		return false
	}
	// A write in hand is finished when syncd ends; one that hangs is given up, and
	// so is one that outlives the term: another replica may write the same.
	writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncTimeout)
	defer cancel()
	defer context.AfterFunc(term, cancel)()
	start := time.Now()
	err := s.sync(writeCtx, key)
	s.metrics.synced(time.Since(start), err)
	switch {
	case err == nil, errors.Is(err, apply.ErrNamespaceGone), ctx.Err() != nil:
		s.queue.Forget(key)
		s.refusals.forget(key)
	case errors.Is(err, apply.ErrStale):
		s.log.Debug("plan again", "service", key.String(), "err", err)
		s.queue.AddRateLimited(key)
	case isRefusal(err):
		wait := s.refusals.add(key)
		s.log.Error("cannot sync service", "service", key.String(), "err", err, "again", wait)
		s.queue.Forget(key)
		s.queue.AddAfter(key, wait)
	default:
		s.log.Error("cannot sync service", "service", key.String(), "attempt", s.queue.NumRequeues(key)+1, "err", err)
		s.queue.AddRateLimited(key)
	}
	return true
}

// changed puts a service into the queue, or all services of a namespace.
func (s *syncer) changed(key mcs.ServiceKey) {
	if key.Name != "" {
		s.queue.Add(key)
		return
	}
	for _, k := range s.allKeys() {
		if k.Namespace == key.Namespace {
			s.queue.Add(k)
		}
	}
}

func (s *syncer) enqueueAll() {
	for _, key := range s.allKeys() {
		s.queue.Add(key)
	}
}

func (s *syncer) allKeys() []mcs.ServiceKey { return append(s.peers.Keys(), s.cache.Keys()...) }
