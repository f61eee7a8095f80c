package syncd

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/config"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// brakeSettle is how long an un-export of a peer with several exports waits for
// more of its kind.
const brakeSettle = time.Second

// tellTimeout bounds the call for one event.
const tellTimeout = 10 * time.Second

// peerRules are the rules for peers that the configuration gives.
func peerRules(c config.Config) (policy.Timing, policy.Brake, policy.PeerOptions) {
	return policy.Timing{ProbeInterval: c.ProbeInterval, RecoverHold: c.RecoverHold},
		policy.Brake{Window: c.BrakeWindow, Settle: min(brakeSettle, c.BrakeWindow), Release: c.BrakeRelease},
		policy.PeerOptions{OnLost: c.OnLost, StaleAfter: c.StaleAfter}
}

// localRead reports whether this cluster and what is stored of its peers have been
// read.
func (s *syncer) localRead() bool {
	return s.own.HasSynced() && len(s.cache.Missing()) == 0 && s.leases.HasSynced()
}

// stored are the services that stand here and name a cluster as an exporter.
func (s *syncer) stored(id mcs.ClusterID) []mcs.ServiceKey {
	var keys []mcs.ServiceKey
	for _, key := range s.cache.Imports.Keys() {
		imp, ok := s.cache.Imports.One(key)
		if ok && plan.OwnsImport(imp) && slices.ContainsFunc(imp.Status.Clusters, func(c api.ClusterStatus) bool { return c.Cluster == string(id) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// tellPeer makes an event of news about a peer. The replica that writes tells it;
// nobody waits for that.
func (s *syncer) tellPeer(secret *corev1.Secret, warning bool, reason, message string) {
	term := s.lead.present()
	if term == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(term, tellTimeout)
		defer cancel()
		s.writer.TellPeer(ctx, secret, plan.Event{Warning: warning, Reason: reason, Message: message})
	}()
}

// keepLeases keeps the Leases of peers while this replica writes, until ctx ends.
func (s *syncer) keepLeases(ctx context.Context) {
	every := s.config.ProbeInterval / 5
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		records := s.peers.Records()
		if records == nil || !s.lead.leads() {
			continue
		}
		if err := s.leases.Keep(ctx, records, 2*s.config.ProbeInterval); err != nil && ctx.Err() == nil {
			s.log.Error("cannot keep Leases of peers", "err", err)
		}
	}
}

// visible are the slices that kube-proxy may see.
func visible(standing []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(standing, func(s *discoveryv1.EndpointSlice) bool {
		_, hidden := s.Labels[mcs.LabelHeadless]
		return hidden
	})
}

// parked counts the slices that are out of their service, by cluster.
func (s *syncer) parked() map[mcs.ClusterID]int {
	count := map[mcs.ClusterID]int{}
	for _, key := range s.cache.Slices.Keys() {
		for _, slice := range s.cache.Slices.Of(key) {
			if cluster, ok := slice.Labels[mcs.LabelParkedCluster]; ok {
				count[mcs.ClusterID(cluster)]++
			}
		}
	}
	return count
}
