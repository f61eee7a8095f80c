package syncd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// metrics are syncd's counters. No label is the name of a service.
type metrics struct {
	writes *prometheus.CounterVec
	syncs  *prometheus.HistogramVec
}

func newMetrics() *metrics {
	return &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcs_syncd_writes_total",
			Help: "Writes to the local API server.",
		}, []string{"resource", "verb", "result"}),
		syncs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mcs_syncd_sync_duration_seconds",
			Help:    "Time to bring one service to where it should be, API calls included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"result"}),
	}
}

func (m *metrics) wrote(resource string, verb plan.Verb, err error) {
	m.writes.WithLabelValues(resource, string(verb), result(err)).Inc()
}

func (m *metrics) synced(took time.Duration, err error) {
	m.syncs.WithLabelValues(result(err)).Observe(took.Seconds())
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

func (m *metrics) register(r prometheus.Registerer, s *syncer) {
	r.MustRegister(m.writes, m.syncs, stateCollector{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

var (
	peerStateDesc = prometheus.NewDesc("mcs_syncd_peer_state",
		"1 for the state that a peer is in, 0 for the others.", []string{"cluster", "state"}, nil)
	peerProblemDesc = prometheus.NewDesc("mcs_syncd_problem",
		"1 for each thing that cannot be read or used now, in a peer or in this cluster.", []string{"cluster", "secret", "resource", "reason"}, nil)
	peerExportsDesc = prometheus.NewDesc("mcs_syncd_peer_exports",
		"ServiceExports that a peer declares.", []string{"cluster"}, nil)
	peerWithheldDesc = prometheus.NewDesc("mcs_syncd_peer_withheld_exports",
		"Exports that stand here although the peer withdrew them.", []string{"cluster"}, nil)
	peerParkedDesc = prometheus.NewDesc("mcs_syncd_peer_parked_slices",
		"EndpointSlices of a peer that are out of their service because it is lost.", []string{"cluster"}, nil)
	peerSkewDesc = prometheus.NewDesc("mcs_syncd_peer_clock_skew_seconds",
		"How far the clock of a peer's API server is ahead of ours.", []string{"cluster"}, nil)
	peerDeniedDesc = prometheus.NewDesc("mcs_syncd_peer_denied_exports",
		"Exports of a peer that are not taken over, because of their namespace or the bounds.", []string{"cluster"}, nil)
	peerDroppedDesc = prometheus.NewDesc("mcs_syncd_peer_dropped_addresses_total",
		"Addresses of a peer's endpoints that were left out.", []string{"cluster"}, nil)
	leaderDesc = prometheus.NewDesc("mcs_syncd_leader",
		"1 for the replica that writes, 0 for one that stands by.", nil, nil)
	importsDesc = prometheus.NewDesc("mcs_syncd_imports",
		"ServiceImports in this cluster.", nil, nil)
)

// stateCollector reads at scrape time what is known anyway.
type stateCollector struct{ s *syncer }

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{peerStateDesc, peerProblemDesc, peerExportsDesc, peerWithheldDesc, peerParkedDesc, peerSkewDesc, peerDeniedDesc, peerDroppedDesc, leaderDesc, importsDesc, conflictsDesc, noticedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	problems := func(cluster mcs.ClusterID, secret string, all []peer.Problem) {
		for _, p := range all {
			gauge(peerProblemDesc, 1, string(cluster), secret, p.Resource, p.Reason)
		}
	}
	problems(c.s.config.ClusterID, "", c.s.own.Problems())
	c.s.collectConditions(gauge)
	parked := c.s.parked()
	for _, p := range c.s.peers.Statuses() {
		problems(p.Cluster, p.Secret, p.Problems)
		if p.Cluster == "" {
			continue // a Secret that stands for no peer
		}
		for _, state := range policy.States {
			v := 0.0
			if state == p.State {
				v = 1
			}
			gauge(peerStateDesc, v, string(p.Cluster), string(state))
		}
		gauge(peerExportsDesc, float64(p.Exports), string(p.Cluster))
		gauge(peerWithheldDesc, float64(p.Withheld), string(p.Cluster))
		gauge(peerParkedDesc, float64(parked[p.Cluster]), string(p.Cluster))
		gauge(peerDeniedDesc, float64(p.Denied), string(p.Cluster))
		ch <- prometheus.MustNewConstMetric(peerDroppedDesc, prometheus.CounterValue, float64(p.Dropped), string(p.Cluster))
		gauge(peerSkewDesc, p.Skew.Seconds(), string(p.Cluster))
	}
	leader := 0.0
	if c.s.lead.leads() {
		leader = 1
	}
	gauge(leaderDesc, leader)
	gauge(importsDesc, float64(c.s.cache.Imports.Len()))
}
