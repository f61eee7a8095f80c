package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/plugin/snapshot"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestSnapshotServesAStartWhileTheAPIServerIsAway is about the started program:
// its API server's port is closed when it starts, and there is a snapshot.
//
// names: N32 N34 N35 N53 N54
func TestSnapshotServesAStartWhileTheAPIServerIsAway(t *testing.T) {
	m := clusterset(t, "amber")[0]
	m.namespace(t, "orchard")
	m.apply(t, clusterSetIPImport("pear", "10.96.7.10"), headlessImport(3))
	link, err := m.NewLink()
	must(t, err)
	t.Cleanup(link.Close)
	kubeconfig := m.dnsKubeconfig(t, link)
	file := filepath.Join(t.TempDir(), "snapshot")
	options := []string{"snapshot " + file + " 1h", "extended_errors", "startup_timeout 500ms"}

	d := startDNS(t, m.bed, corefile.MCSCoreDNS, kubeconfig, options...)
	eventually(t, "a snapshot of live data", func() error {
		_, err := snapshot.Read(file)
		return all(d.want(t, "A "+pearName, "NOERROR", "10.96.7.10"), d.metric(t, `coredns_k8s_mcs_snapshot_serving{zone="clusterset.local."} 0`), err)
	})
	m.asksOnlyForItsCluster(t)
	must(t, d.Kill())
	must(t, os.WriteFile(filepath.Join(filepath.Dir(file), ".snapshot.tmp-1"), []byte("the half of one"), 0o600))
	good, err := os.ReadFile(file)
	must(t, err)

	link.Cut()
	right := func() error {
		return all(
			d.want(t, "A "+pearName, "NOERROR", "10.96.7.10"),
			d.want(t, "A fig-2.basil."+figName, "NOERROR", "10.64.0.3"),
			d.want(t, "A "+plumName, "NXDOMAIN"),
		)
	}
	// The fastest of three: other tests share this machine.
	fastest := time.Hour
	for range 3 {
		start := time.Now()
		d = startDNS(t, m.bed, corefile.MCSCoreDNS, kubeconfig, options...)
		eventually(t, "answers from the snapshot", right)
		fastest = min(fastest, time.Since(start))
		if fastest < time.Second {
			break
		}
		must(t, d.Kill())
	}
	if t.Logf("answers after %v", fastest); fastest > time.Second {
		t.Errorf("right answers after %v, want within 1 s of the start", fastest)
	}
	must(t, all(
		d.wantReady(t, http.StatusOK),
		d.wantExtended(t, int(dns.ExtendedErrorCodeStaleAnswer)),
		d.metric(t, `coredns_k8s_mcs_snapshot_serving{zone="clusterset.local."} 1`),
		d.metric(t, `coredns_k8s_mcs_snapshot_reads_total{result="good",zone="clusterset.local."} 1`),
		d.metric(t, `coredns_k8s_mcs_data_age_seconds{zone="clusterset.local."}`),
	))
	if left, err := os.ReadFile(file); err != nil || !bytes.Equal(left, good) {
		t.Errorf("the file has changed while it was served (%v)", err)
	}

	t.Run("bad snapshots", func(t *testing.T) { badSnapshots(t, m.bed, kubeconfig, good) })

	m.apply(t, clusterSetIPImport("pear", "10.96.7.11"))
	link.Restore()
	eventually(t, "live data", func() error {
		return all(d.want(t, "A "+pearName, "NOERROR", "10.96.7.11"), d.wantExtended(t, none),
			d.metric(t, `coredns_k8s_mcs_snapshot_serving{zone="clusterset.local."} 0`))
	})
	link.Cut()
	eventually(t, "the last state, and its age", func() error {
		return all(d.want(t, "A "+pearName, "NOERROR", "10.96.7.11"), d.wantExtended(t, int(dns.ExtendedErrorCodeStaleAnswer)),
			d.metric(t, `coredns_k8s_mcs_data_age_seconds{zone="clusterset.local."}`))
	})
	link.Restore()
	must(t, d.Stop(t.Context()))
	if left, err := os.ReadFile(file); err != nil || bytes.Equal(left, good) {
		t.Errorf("the file is still the old one after live data came and the program was stopped (%v)", err)
	}

	write(t, file, rewritten(t, good, func(h *snapshot.Header) { h.Cluster = "of-another-cluster" }))
	d = startDNS(t, m.bed, corefile.MCSCoreDNS, kubeconfig, options...)
	eventually(t, "live data, and a line about the other cluster", func() error {
		if len(logLines(d.Log(), "[ERROR]", "another cluster", "of-another-cluster")) == 0 {
			return errors.New("no line about the cluster")
		}
		return d.want(t, "A "+pearName, "NOERROR", "10.96.7.11")
	})
}

// badSnapshots starts the program with files that it must not serve.
func badSnapshots(t *testing.T, bed *kubetest.Bed, kubeconfig, good []byte) {
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		file   []byte
		option string
		result string
		words  []string
	}{
		"truncated":      {good[:len(good)-20], "ttl 5", "truncated", []string{"it is truncated"}},
		"a flipped byte": {flipped, "ttl 5", "damaged", []string{"its checksum does not match"}},
		"too old": {
			rewritten(t, good, func(h *snapshot.Header) { h.Taken = h.Taken.Add(-2 * time.Hour) }),
			"ttl 5", "too_old",
			[]string{"it is too old", "1h0m0s"},
		},
		"other namespaces": {good, "namespaces orchard", "fingerprint", []string{"another configuration", "option namespaces"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "snapshot")
			write(t, file, c.file)
			d := startDNS(t, bed, corefile.MCSCoreDNS, kubeconfig, "snapshot "+file+" 1h", "extended_errors", c.option, "startup_timeout 500ms")
			eventually(t, "SERVFAIL, and the reason in the log", func() error {
				if len(logLines(d.Log(), append(c.words, "[ERROR]", "Cannot serve the snapshot", file)...)) != 1 {
					return fmt.Errorf("log:\n%s", grep(d.Log(), "k8s_mcs"))
				}
				return all(
					d.want(t, "A "+pearName, "SERVFAIL"), d.wantExtended(t, int(dns.ExtendedErrorCodeNotReady)), d.wantReady(t, http.StatusServiceUnavailable),
					d.metric(t, fmt.Sprintf(`coredns_k8s_mcs_snapshot_reads_total{result=%q,zone="clusterset.local."} 1`, c.result)),
				)
			})
		})
	}
}

// rewritten is a snapshot with another header.
func rewritten(t *testing.T, good []byte, change func(*snapshot.Header)) []byte {
	t.Helper()
	s, err := snapshot.Decode(good)
	must(t, err)
	in, err := s.Inputs()
	must(t, err)
	change(&s.Header)
	return snapshot.Encode(&s.Header, in)
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(file, content, 0o600)) //nolint:gosec // a folder of this test
}

// asksOnlyForItsCluster checks the one request that the option snapshot adds.
func (m *member) asksOnlyForItsCluster(t *testing.T) {
	t.Helper()
	events, err := m.AuditEvents()
	must(t, err)
	asked := 0
	for _, e := range events {
		if e.User != dnsUser || e.Resource == "serviceimports" || e.Resource == "endpointslices" || e.Resource == "" {
			continue
		}
		asked++
		if e.Verb != "get" || e.Resource != "namespaces" || e.Name != "kube-system" || e.Code != http.StatusOK {
			t.Errorf("mcs-core-dns did %s %s %s: %d", e.Verb, e.Resource, e.Name, e.Code)
		}
	}
	if asked != 1 {
		t.Errorf("mcs-core-dns asked %d times for kube-system, want once", asked)
	}
}

var metricsAddress = regexp.MustCompile(`prometheus (\S+)`)

// metric reports whether a line of /metrics begins so.
func (d *dnsProcess) metric(t *testing.T, line string) error {
	t.Helper()
	conf, err := os.ReadFile(d.conf)
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+string(metricsAddress.FindSubmatch(conf)[1])+"/metrics", http.NoBody)
	must(t, err)
	response, err := pages.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(body)) {
		if strings.HasPrefix(l, line) {
			return nil
		}
	}
	return fmt.Errorf("no metric %q in:\n%s", line, grep(string(body), "coredns_k8s_mcs"))
}

// none is no Extended DNS Error.
const none = -1

// wantExtended checks for an Extended DNS Error (RFC 8914).
func (d *dnsProcess) wantExtended(t *testing.T, code int) error {
	t.Helper()
	query := new(dns.Msg)
	query.SetQuestion(pearName, dns.TypeA)
	query.SetEdns0(1232, false)
	r, _, err := (&dns.Client{Timeout: 5 * time.Second}).ExchangeContext(t.Context(), query, d.addr)
	if err != nil {
		return err
	}
	said := none
	if opt := r.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				said = int(e.InfoCode)
			}
		}
	}
	if said != code {
		return fmt.Errorf("the Extended DNS Error is %d, want %d", said, code)
	}
	return nil
}
