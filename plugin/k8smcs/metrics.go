package k8smcs

import (
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/k8s-mcs/k8s-mcs/plugin/source"
)

// The counters and histograms of all k8s_mcs plugins of the process, registered
// once, so that a reload neither registers twice nor starts again from zero.
// The label zone is the first zone of the plugin.
var (
	publishDuration = histogram("publish_duration_seconds",
		"Histogram of the time in seconds from the start of building a changed zone until it is served.",
		prometheus.ExponentialBuckets(0.000_01, 4, 10)) // from 10 us to 2.6 s
	programmingDuration = histogram("programming_duration_seconds",
		"Histogram of the time in seconds from the change that led to an EndpointSlice, as its annotation says, until it is served.",
		prometheus.ExponentialBuckets(0.01, 2, 15)) // from 10 ms to 164 s
	watchFailures   = counter("watch_failures_total", "Counter of failed list and watch requests to the API server.", "resource")
	rejectedObjects = counter("rejected_objects_total", "Counter of objects read of which something cannot be served.", "resource", "reason")
	snapshotReads   = counter("snapshot_reads_total", "Counter of starts with a snapshot, by how its reading ended.", "result")
	snapshotWrites  = counter("snapshot_writes_total", "Counter of writes of the snapshot.", "result")
)

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help,
		Buckets: buckets, NativeHistogramBucketFactor: plugin.NativeHistogramBucketFactor,
	}, []string{"zone"})
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help,
	}, append([]string{"zone"}, labels...))
}

// observer counts for one Source.
type observer struct {
	zone               string
	publish, programme prometheus.Observer
}

var _ source.Observer = &observer{}

func newObserver(zone string) *observer {
	return &observer{zone: zone, publish: publishDuration.WithLabelValues(zone), programme: programmingDuration.WithLabelValues(zone)}
}

// Published implements source.Observer.
func (o *observer) Published(took time.Duration) { o.publish.Observe(took.Seconds()) }

// Programmed implements source.Observer.
func (o *observer) Programmed(delay time.Duration) { o.programme.Observe(delay.Seconds()) }

// WatchFailed implements source.Observer.
func (o *observer) WatchFailed(resource string) {
	watchFailures.WithLabelValues(o.zone, resource).Inc()
}

// Rejected implements source.Observer.
func (o *observer) Rejected(resource string, reason source.Reason) {
	rejectedObjects.WithLabelValues(o.zone, resource, string(reason)).Inc()
}

// SnapshotRead implements source.Observer.
func (o *observer) SnapshotRead(result source.SnapshotResult) {
	snapshotReads.WithLabelValues(o.zone, string(result)).Inc()
}

// SnapshotWritten implements source.Observer.
func (o *observer) SnapshotWritten(ok bool) {
	result := "ok"
	if !ok {
		result = "error"
	}
	snapshotWrites.WithLabelValues(o.zone, result).Inc()
}
