package k8smcs

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/k8s-mcs/k8s-mcs/plugin/source"
)

// gaugeValues are the values of our gauges that have one series.
func gaugeValues(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if m := f.GetMetric(); strings.HasPrefix(f.GetName(), "coredns_k8s_mcs_") && len(m) == 1 && m[0].GetGauge() != nil {
			out[f.GetName()] = m[0].GetGauge().GetValue()
		}
	}
	return out
}

func TestMetricsFollowTheLifeOfAServer(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(3))
	s := startServer(t, block(ours(kubeconfig)))
	if r := s.ask(t, "pear.orchard.svc.clusterset.local.", dns.TypeA); len(r.Answer) != 1 {
		t.Fatalf("got\n%v", r)
	}
	got := gaugeValues(t)
	for name, want := range map[string]float64{"imports": 2, "endpoints": 3, "synced": 1, "snapshot_serving": 0} {
		if v, ok := got["coredns_k8s_mcs_"+name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if age, ok := got["coredns_k8s_mcs_data_age_seconds"]; !ok || age < 0 || age > 60 {
		t.Errorf("the age of the data is %v", age)
	}
	for _, err := range s.instance.ShutdownCallbacks() {
		t.Error(err)
	}
	if got := gaugeValues(t); len(got) != 0 {
		t.Errorf("after the end there are still %v", got)
	}
	startServer(t, block(ours(kubeconfig))) // registers nothing twice
}

// metricNames are the names of all metrics of this package.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	all := []prometheus.Collector{
		gauges{&sources}, publishDuration, programmingDuration, watchFailures, rejectedObjects, snapshotReads, snapshotWrites,
	}
	for _, c := range all {
		descs := make(chan *prometheus.Desc, 16)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			_, name, _ := strings.Cut(d.String(), `fqName: "`)
			name, _, _ = strings.Cut(name, `"`)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestMetricNamesAreByTheRules(t *testing.T) {
	o := newObserver("lint.example.")
	o.Published(0)
	o.Programmed(0)
	o.WatchFailed("x")
	o.Rejected("x", source.BadAddress)
	o.SnapshotRead(source.SnapshotGood)
	o.SnapshotWritten(true)
	_, kubeconfig := newAPI(t)
	startServer(t, block(ours(kubeconfig))) // for the gauges
	problems, err := testutil.GatherAndLint(prometheus.DefaultGatherer, metricNames(t)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNoMetricHasAServiceInItsLabels(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(3), strings.Replace(plumObject, "10.96.7.20", "127.0.0.1", 1))
	s := startServer(t, block("prometheus 127.0.0.1:0", ours(kubeconfig)))
	s.ask(t, pear, dns.TypeA)
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"zone", "resource", "reason", "result"}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "coredns_k8s_mcs_") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed, l.GetName()) {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
				for _, word := range []string{"pear", "fig", "plum", "orchard", "garden", "basil"} {
					if strings.Contains(l.GetValue(), word) {
						t.Errorf("%s has the label %s=%q", f.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
	}
	rejected := rejectedObjects.WithLabelValues("clusterset.local.", "serviceimports.multicluster.x-k8s.io", string(source.BadAddress))
	if testutil.ToFloat64(rejected) == 0 {
		t.Error("the import with an address that may not be served is not counted")
	}
}
