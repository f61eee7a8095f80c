package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

const dnsUser = "system:serviceaccount:kube-system:mcs-core-dns"

// dnsProcess is a running mcs-core-dns.
type dnsProcess struct {
	*kubetest.Process
	addr  string // of UDP and TCP
	conf  string // path of its Corefile
	ready string // URL
}

// dnsKubeconfig is what mcs-core-dns is given to read this cluster; through a
// link when there is one.
func (m *member) dnsKubeconfig(t *testing.T, link *kubetest.Link) []byte {
	t.Helper()
	kubeconfig, err := m.UserKubeconfig(dnsUser, "system:serviceaccounts")
	must(t, err)
	if link != nil {
		kubeconfig, err = link.Kubeconfig(kubeconfig)
		must(t, err)
	}
	return kubeconfig
}

// startDNS starts mcs-core-dns with a Corefile of package corefile, and more
// options of k8s_mcs.
func startDNS(t *testing.T, bed *kubetest.Bed, text string, kubeconfig []byte, options ...string) *dnsProcess {
	t.Helper()
	binary, err := bed.Build(t.Context(), "./cmd/mcs-core-dns")
	must(t, err)
	address := func() string {
		port, err := bed.Port()
		must(t, err)
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	must(t, os.WriteFile(file, kubeconfig, 0o600))
	d := &dnsProcess{addr: address()}
	ready := address()
	d.ready = "http://" + ready + "/ready"
	text, err = corefile.Local{DNS: d.addr, Kubeconfig: file, Health: address(), Ready: ready, Metrics: address()}.Adapt(text)
	must(t, err)
	for _, option := range options {
		text = strings.Replace(text, "kubeconfig "+file+"\n", "kubeconfig "+file+"\n        "+option+"\n", 1)
	}
	text = strings.Replace(text, "        lameduck 5s\n", "", 1) // nobody here needs the time
	d.conf = filepath.Join(dir, "Corefile")
	must(t, os.WriteFile(d.conf, []byte(text), 0o600))
	d.Process, err = bed.Run(t.Context(), "mcs-core-dns", []string{binary, "-conf", d.conf})
	must(t, err)
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := d.Stop(stop); err != nil {
			t.Errorf("stop mcs-core-dns: %v", err)
		}
		if t.Failed() {
			t.Logf("log of mcs-core-dns:\n%s", tail(d.Log(), 60))
		}
	})
	return d
}

// ask asks over udp or tcp.
func (d *dnsProcess) ask(t *testing.T, network, name, qtype string) (*dns.Msg, error) {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, dns.StringToType[qtype])
	r, _, err := (&dns.Client{Net: network, Timeout: 5 * time.Second}).ExchangeContext(t.Context(), m, d.addr)
	return r, err
}

// want checks the rcode and the answers' data, over both transports.
func (d *dnsProcess) want(t *testing.T, question, rcode string, data ...string) error {
	t.Helper()
	qtype, name, _ := strings.Cut(question, " ")
	for _, network := range []string{"udp", "tcp"} {
		r, err := d.ask(t, network, name, qtype)
		if err != nil {
			return fmt.Errorf("%s over %s: %w", question, network, err)
		}
		var got []string
		for _, rr := range r.Answer {
			got = append(got, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		slices.Sort(got)
		slices.Sort(data)
		if dns.RcodeToString[r.Rcode] != rcode || !slices.Equal(got, data) {
			return fmt.Errorf("%s over %s is %s %q, want %s %q", question, network, dns.RcodeToString[r.Rcode], got, rcode, data)
		}
	}
	return nil
}

// dig is the answer of the real dig, sorted.
func (d *dnsProcess) dig(t *testing.T, args ...string) []string {
	t.Helper()
	host, port, _ := strings.Cut(d.addr, ":")
	out, err := exec.CommandContext(t.Context(), "dig", append([]string{"@" + host, "-p", port, "+short"}, args...)...).Output()
	if err != nil {
		t.Fatalf("dig %v: %v", args, err)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return lines
}

// wantReady checks the page of the ready plugin.
func (d *dnsProcess) wantReady(t *testing.T, status int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.ready, http.NoBody)
	must(t, err)
	response, err := pages.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		return fmt.Errorf("%s is %d, want %d", d.ready, response.StatusCode, status)
	}
	return nil
}

// all joins checks.
func all(checks ...error) error { return errors.Join(checks...) }
