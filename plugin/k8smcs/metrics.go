package k8smcs

import (
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The metrics of all k8s_mcs plugins of the process, registered once, so that
// a reload neither registers twice nor starts again from zero. The label zone
// is the first zone of the plugin.
var (
	importsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "imports",
		Help:      "Gauge of ServiceImports that are served.",
	}, []string{"zone"})
	endpointsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "endpoints",
		Help:      "Gauge of ready endpoint addresses in imported EndpointSlices.",
	}, []string{"zone"})
	syncedGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "synced",
		Help:      "Gauge that is 1 once every watch has delivered its first list, and 0 before.",
	}, []string{"zone"})
	publishDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace:                   plugin.Namespace,
		Subsystem:                   pluginName,
		Name:                        "publish_duration_seconds",
		Help:                        "Histogram of the time in seconds from the start of building a changed zone until it is served.",
		Buckets:                     prometheus.ExponentialBuckets(0.000_01, 4, 10), // from 10 us to 2.6 s
		NativeHistogramBucketFactor: plugin.NativeHistogramBucketFactor,
	}, []string{"zone"})
	watchFailures = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "watch_failures_total",
		Help:      "Counter of failed list and watch requests to the API server.",
	}, []string{"zone", "resource"})
	rejectedObjects = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "rejected_objects_total",
		Help:      "Counter of objects read of which something cannot be served.",
	}, []string{"zone", "resource"})
)

// observer writes the metrics of one plugin.
type observer struct {
	zone    string
	publish prometheus.Observer
	stopped bool // guarded by running
}

func newObserver(zone string) *observer {
	return &observer{zone: zone, publish: publishDuration.WithLabelValues(zone)}
}

// running counts the plugins per zone, so that the gauges of a zone go when its
// last plugin stops. During a reload the old and the new one overlap.
var running = struct {
	sync.Mutex
	plugins map[string]int
}{plugins: map[string]int{}}

func (o *observer) start() {
	running.Lock()
	defer running.Unlock()
	running.plugins[o.zone]++
	syncedGauge.WithLabelValues(o.zone).Set(0)
}

func (o *observer) stop() {
	running.Lock()
	defer running.Unlock()
	o.stopped = true
	if running.plugins[o.zone]--; running.plugins[o.zone] > 0 {
		return
	}
	delete(running.plugins, o.zone)
	for _, gauge := range []*prometheus.GaugeVec{importsGauge, endpointsGauge, syncedGauge} {
		gauge.DeleteLabelValues(o.zone)
	}
}

// Published implements source.Observer.
func (o *observer) Published(imports, endpoints int, took time.Duration) {
	running.Lock()
	defer running.Unlock()
	if o.stopped { // a zone that was in the making
		return
	}
	o.publish.Observe(took.Seconds())
	importsGauge.WithLabelValues(o.zone).Set(float64(imports))
	endpointsGauge.WithLabelValues(o.zone).Set(float64(endpoints))
	syncedGauge.WithLabelValues(o.zone).Set(1)
}

// WatchFailed implements source.Observer.
func (o *observer) WatchFailed(resource string) {
	watchFailures.WithLabelValues(o.zone, resource).Inc()
}

// Rejected implements source.Observer.
func (o *observer) Rejected(resource string) {
	rejectedObjects.WithLabelValues(o.zone, resource).Inc()
}
