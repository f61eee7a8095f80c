package k8smcs

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// gauges are the values of our gauges that have one series.
func gauges(t *testing.T) map[string]float64 {
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
	got := gauges(t)
	for name, want := range map[string]float64{"imports": 2, "endpoints": 3, "synced": 1} {
		if got["coredns_k8s_mcs_"+name] != want {
			t.Errorf("%s is %v, want %v", name, got["coredns_k8s_mcs_"+name], want)
		}
	}
	for _, err := range s.instance.ShutdownCallbacks() {
		t.Error(err)
	}
	if got := gauges(t); len(got) != 0 {
		t.Errorf("after the end there are still %v", got)
	}
	startServer(t, block(ours(kubeconfig))) // registers nothing twice
}

// metricNames are the names of all metrics of this package.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	for _, c := range []prometheus.Collector{importsGauge, endpointsGauge, syncedGauge, publishDuration, watchFailures, rejectedObjects} {
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		_, name, _ := strings.Cut((<-descs).String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestMetricNamesAreByTheRules(t *testing.T) {
	o := newObserver("lint.example.")
	o.Published(1, 1, 0)
	o.WatchFailed("x")
	o.Rejected("x")
	t.Cleanup(func() {
		for _, vec := range []interface{ DeleteLabelValues(...string) bool }{importsGauge, endpointsGauge, syncedGauge} {
			vec.DeleteLabelValues("lint.example.")
		}
	})
	problems, err := testutil.GatherAndLint(prometheus.DefaultGatherer, metricNames(t)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
