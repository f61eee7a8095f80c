package syncd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/peer"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
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
	importsDesc = prometheus.NewDesc("mcs_syncd_imports",
		"ServiceImports in this cluster.", nil, nil)
)

// stateCollector reads at scrape time what is known anyway.
type stateCollector struct{ s *syncer }

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{peerStateDesc, peerProblemDesc, peerExportsDesc, importsDesc} {
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
	for _, p := range c.s.peers.Statuses() {
		problems(p.Cluster, p.Secret, p.Problems)
		if p.Cluster == "" {
			continue // a Secret that stands for no peer
		}
		for _, state := range peer.States {
			v := 0.0
			if state == p.State {
				v = 1
			}
			gauge(peerStateDesc, v, string(p.Cluster), string(state))
		}
		gauge(peerExportsDesc, float64(p.Exports), string(p.Cluster))
	}
	gauge(importsDesc, float64(c.s.cache.Imports.Len()))
}
