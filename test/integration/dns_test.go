package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

const (
	pearName = "pear.orchard.svc.clusterset.local."
	plumName = "plum.orchard.svc.clusterset.local."
	figName  = "fig.orchard.svc.clusterset.local."
)

func clusterSetIPImport(name, ip string) string {
	return fmt.Sprintf(`apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: orchard, name: %s}
spec: {type: ClusterSetIP, ips: [%s], ports: [{name: http, protocol: TCP, port: 80}]}
`, name, ip)
}

// headlessImport is fig with n endpoints in cluster basil.
func headlessImport(n int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: orchard, name: fig}
spec: {type: Headless, ports: [{name: http, protocol: TCP, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: orchard
  name: fig-b
  labels: {multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 80}]
endpoints:
`)
	for i := range n {
		fmt.Fprintf(&b, "- {addresses: [10.64.%d.%d], hostname: fig-%d}\n", i/250, i%250+1, i)
	}
	return b.String()
}

func TestDNSFollowsTheAPIServerAndOutlivesIt(t *testing.T) {
	m := clusterset(t, "amber")[0]
	m.namespace(t, "orchard")
	m.apply(t, clusterSetIPImport("pear", "10.96.7.10"), headlessImport(400))
	link, err := m.NewLink()
	must(t, err)
	t.Cleanup(link.Close)

	link.Cut()
	d := startDNS(t, m.bed, corefile.MCSCoreDNS, m.dnsKubeconfig(t, link), "startup_timeout 500ms")
	eventually(t, "SERVFAIL while there is no data", func() error {
		return all(d.want(t, "A "+pearName, "SERVFAIL"), d.want(t, "A "+plumName, "SERVFAIL"),
			d.want(t, "SOA clusterset.local.", "SERVFAIL"), d.wantReady(t, http.StatusServiceUnavailable))
	})

	link.Restore()
	eventually(t, "the first answers", func() error { return d.want(t, "A "+pearName, "NOERROR", "10.96.7.10") })
	must(t, all(
		d.wantReady(t, http.StatusOK),
		d.want(t, "AAAA "+pearName, "NOERROR"),
		d.want(t, "A "+plumName, "NXDOMAIN"),
		d.want(t, "A fig-399.basil."+figName, "NOERROR", "10.64.1.150"),
		d.want(t, "SRV _http._tcp."+pearName, "NOERROR", "0 100 80 "+pearName),
	))
	udp, tcp := d.dig(t, figName), d.dig(t, "+tcp", figName)
	if len(udp) != 400 || !slices.Equal(udp, tcp) {
		t.Errorf("dig found %d addresses over UDP, where it comes back over TCP by itself, and %d over TCP, want 400 each", len(udp), len(tcp))
	}
	if cut := d.dig(t, "+ignore", figName); len(cut) < 10 || len(cut) >= 400 {
		t.Errorf("dig found %d addresses in a packet that was cut, want some of 400", len(cut))
	}

	m.apply(t, clusterSetIPImport("pear", "10.96.7.11"), clusterSetIPImport("plum", "10.96.7.12"))
	eventually(t, "a change", func() error {
		return all(d.want(t, "A "+pearName, "NOERROR", "10.96.7.11"), d.want(t, "A "+plumName, "NOERROR", "10.96.7.12"))
	})

	m.onlyReads(t)

	must(t, m.Kill())
	eventually(t, "the outage is noticed", func() error {
		if len(logLines(d.Log(), "[ERROR]", "Cannot watch")) == 0 {
			return fmt.Errorf("no line about it")
		}
		return nil
	})
	must(t, all(
		d.want(t, "A "+pearName, "NOERROR", "10.96.7.11"),
		d.want(t, "A "+strings.ToLower("nope."+figName), "NXDOMAIN"),
		d.wantReady(t, http.StatusOK),
	))
	must(t, m.Start(t.Context()))
	m.apply(t, clusterSetIPImport("pear", "10.96.7.13"))
	eventually(t, "a change after the outage", func() error { return d.want(t, "A "+pearName, "NOERROR", "10.96.7.13") })
}

// onlyReads checks what the audit log has of mcs-core-dns: that it asks for no
// more than its role allows, and the role for no more than it asks for.
func (m *member) onlyReads(t *testing.T) {
	t.Helper()
	events, err := m.AuditEvents()
	must(t, err)
	seen := map[string]bool{}
	for _, e := range events {
		if e.User != dnsUser || e.Resource == "" {
			continue
		}
		seen[e.Resource] = true
		if (e.Verb != "list" && e.Verb != "watch") || (e.Resource != "serviceimports" && e.Resource != "endpointslices") || e.Code == http.StatusForbidden {
			t.Errorf("mcs-core-dns did %s %s: %d", e.Verb, e.Resource, e.Code)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the audit log has mcs-core-dns with %v, want both resources", seen)
	}
}

func TestDNSWithoutRightsAndCRDsSaysSoOnceAndHeals(t *testing.T) {
	bed := kubetest.ForTest(t)
	m := start(t, bed, kubetest.ClusterConfig{Name: "amber"})[0]
	m.namespace(t, "orchard")
	m.apply(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: imports-only}
rules: [{apiGroups: [multicluster.x-k8s.io], resources: [serviceimports], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: imports-only}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: imports-only}
subjects: [{kind: ServiceAccount, name: mcs-core-dns, namespace: kube-system}]
`)
	d := startDNS(t, bed, corefile.MCSCoreDNS, m.dnsKubeconfig(t, nil), "startup_timeout 500ms")
	slices := []string{"[ERROR]", "endpointslices.discovery.k8s.io", "forbidden", "deploy/rbac/mcs-core-dns.yaml"}
	imports := []string{"[ERROR]", "serviceimports.multicluster.x-k8s.io", "CustomResourceDefinition"}
	eventually(t, "both causes in the log", func() error {
		if len(logLines(d.Log(), slices...)) == 0 || len(logLines(d.Log(), imports...)) == 0 {
			return fmt.Errorf("log:\n%s", grep(d.Log(), "k8s_mcs"))
		}
		return nil
	})
	// Some attempts later it has not said it again.
	forbidden := func() int {
		events, err := m.AuditEvents()
		must(t, err)
		n := 0
		for _, e := range events {
			if e.User == dnsUser && e.Resource == "endpointslices" && e.Code == http.StatusForbidden {
				n++
			}
		}
		return n
	}
	eventually(t, "several attempts", func() error {
		if n := forbidden(); n < 5 {
			return fmt.Errorf("%d so far", n)
		}
		return nil
	})
	must(t, all(d.want(t, "A "+figName, "SERVFAIL"), d.wantReady(t, http.StatusServiceUnavailable)))
	if got := logLines(d.Log(), "[ERROR]", "k8s_mcs"); len(got) != 2 {
		t.Errorf("errors in the log, want one for each cause:\n%s", strings.Join(got, "\n"))
	}

	must(t, m.InstallCRDs(t.Context()))
	m.apply(t, headlessImport(1))
	eventually(t, "the CRD is noticed", func() error {
		if len(logLines(d.Log(), "Following serviceimports.multicluster.x-k8s.io again")) == 0 {
			return fmt.Errorf("no line about it")
		}
		return nil
	})
	must(t, all(d.want(t, "A "+figName, "SERVFAIL"), d.wantReady(t, http.StatusServiceUnavailable)))

	granted := time.Now()
	m.applyRoles(t)
	eventually(t, "the right answer", func() error {
		return all(d.want(t, "A "+figName, "NOERROR", "10.64.0.1"), d.wantReady(t, http.StatusOK))
	})
	if took := time.Since(granted); took > 20*time.Second {
		t.Errorf("it took %v to notice the rights, want seconds", took)
	}
}

func TestDNSStopsAtACorefileMistake(t *testing.T) {
	bed := kubetest.ForTest(t)
	binary, err := bed.Build(t.Context(), "./cmd/mcs-core-dns")
	must(t, err)
	for name, c := range map[string]struct {
		block string
		want  []string
	}{
		"an unknown option":              {"fallthru", []string{":3 ", `"fallthru"`, "want one of", "fallthrough"}},
		"a kubeconfig that is not there": {"kubeconfig /no/such/file", []string{":3 ", "/no/such/file", "want the path"}},
		"a TTL out of range":             {"ttl 3601", []string{":3 ", "0 to 3600"}},
	} {
		t.Run(name, func(t *testing.T) {
			conf := filepath.Join(t.TempDir(), "Corefile")
			must(t, os.WriteFile(conf, []byte(".:1053 {\n  k8s_mcs clusterset.local {\n    "+c.block+"\n  }\n}\n"), 0o600))
			p, err := bed.Run(t.Context(), "mcs-core-dns-mistake", []string{binary, "-conf", conf})
			must(t, err)
			select {
			case <-p.Exited():
			case <-time.After(patience):
				t.Fatal("it did not stop")
			}
			if p.ExitCode() != 1 {
				t.Errorf("exit status %d, want 1", p.ExitCode())
			}
			for _, w := range append(c.want, "plugin/k8s_mcs: "+conf) {
				if !strings.Contains(p.Log(), w) {
					t.Errorf("the log does not say %q:\n%s", w, p.Log())
				}
			}
			if strings.Contains(p.Log(), "goroutine ") {
				t.Errorf("it panicked:\n%s", p.Log())
			}
		})
	}
}
