package k8smcs

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
)

// gauges reads what the Sources that serve now hold, when it is asked: so a
// series goes with its Source, and one that gets ready during a reload is not
// seen before it serves. Sources with the same first zone are one series.
type gauges struct{ sources *registry }

var (
	importsGauge   = gauge("imports", "Gauge of ServiceImports that are served.")
	endpointsGauge = gauge("endpoints", "Gauge of ready endpoint addresses in imported EndpointSlices.")
	syncedGauge    = gauge("synced", "Gauge that is 1 once every watch has delivered its first list, and 0 before.")
	snapshotGauge  = gauge("snapshot_serving", "Gauge that is 1 while answers come from the snapshot.")
	ageGauge       = gauge("data_age_seconds", "Gauge of the time in seconds since the slowest watch was last heard of.")
)

func gauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, name), help, []string{"zone"}, nil)
}

func init() { prometheus.MustRegister(gauges{&sources}) }

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{importsGauge, endpointsGauge, syncedGauge, snapshotGauge, ageGauge} {
		to <- d
	}
}

// series are the values of one zone.
type series struct {
	imports, endpoints float64
	unsynced, snapshot bool
	age                float64 // seconds
	ageKnown           bool
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	zones := map[string]*series{}
	for _, r := range g.sources.serving() {
		s := zones[r.observer.zone]
		if s == nil {
			s = &series{}
			zones[r.observer.zone] = s
		}
		s.add(r)
	}
	for zone, s := range zones {
		send := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, zone)
		}
		send(importsGauge, s.imports)
		send(endpointsGauge, s.endpoints)
		send(syncedGauge, oneIf(!s.unsynced))
		send(snapshotGauge, oneIf(s.snapshot))
		if s.ageKnown {
			send(ageGauge, s.age)
		}
	}
}

// add takes in a Source: the numbers are added, and of the rest the worst counts.
func (s *series) add(r *running) {
	imports, endpoints := r.source.Counts()
	s.imports += float64(imports)
	s.endpoints += float64(endpoints)
	live, fromSnapshot := r.source.Serving()
	s.unsynced = s.unsynced || !live
	s.snapshot = s.snapshot || fromSnapshot
	if age, known := r.source.Age(); known {
		s.age, s.ageKnown = max(s.age, age.Seconds()), true
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
