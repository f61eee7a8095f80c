package caserun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// dnsServer is a running mcs-core-dns.
type dnsServer struct {
	*kubetest.Process
	cluster  string
	addr     string            // of UDP and TCP
	pages    map[string]string // path to ADDRESS:PORT
	conf     string            // path of the Corefile
	text     string            // of the Corefile
	zones    []string          // of the plugin, absolute and in lower case
	forwards bool              // something stands behind the plugin
	reloads  int
	stopped  bool   // by the case
	earlier  string // the logs of those before
}

const (
	defaultCorefile = ".:{{PORT}} {\n  k8s_mcs clusterset.local {\n    kubeconfig {{KUBECONFIG}}\n  }\n}\n"
	// startTimeout bounds a start: the plugin waits 5 s for an API server.
	startTimeout = 30 * time.Second
)

// pageOf maps the paths that checks ask for to the placeholder of their port,
// and to the line that serves them.
var pageOf = map[string]struct{ placeholder, line string }{
	"/ready":   {"{{READY_PORT}}", "ready 127.0.0.1:{{READY_PORT}}"},
	"/health":  {"{{HEALTH_PORT}}", "health 127.0.0.1:{{HEALTH_PORT}}"},
	"/metrics": {"{{METRICS_PORT}}", "prometheus 127.0.0.1:{{METRICS_PORT}}"},
}

// corefile is the case's Corefile with all placeholders replaced. Pages that
// checks ask for and that the Corefile does not serve are added to it.
func (w *world) corefile(text string, d *dnsServer, kubeconfig string) (string, error) {
	if text == "" {
		text = defaultCorefile
	}
	for _, check := range w.c.Expect.HTTP {
		page, known := pageOf[check.Path]
		if check.Process == "dns" && known && !strings.Contains(text, page.placeholder) {
			text = strings.Replace(text, "{\n", "{\n  "+page.line+"\n", 1)
		}
	}
	replacements := []string{"{{KUBECONFIG}}", kubeconfig}
	port := func() (string, error) {
		n, err := w.bed.Port()
		return strconv.Itoa(n), err
	}
	dnsPort, err := port()
	if err != nil {
		return "", err
	}
	d.addr = net.JoinHostPort("127.0.0.1", dnsPort)
	replacements = append(replacements, "{{PORT}}", dnsPort, "{{DNS_ADDR}}", d.addr)
	d.pages = map[string]string{}
	for path, page := range pageOf {
		n, err := port()
		if err != nil {
			return "", err
		}
		d.pages[path] = net.JoinHostPort("127.0.0.1", n)
		replacements = append(replacements, page.placeholder, n)
	}
	if upstream, err := w.startUpstream(d.addr); err != nil {
		return "", err
	} else if upstream != "" {
		replacements = append(replacements, "{{UPSTREAM}}", upstream, "{{CLUSTER_DNS}}", upstream)
	}
	text = strings.NewReplacer(replacements...).Replace(text)
	if at := strings.Index(text, "{{"); at >= 0 {
		return "", fmt.Errorf("the Corefile has a placeholder without a value: %.30s", text[at:])
	}
	return text, nil
}

// startUpstream starts the stub server that the case asks for, if any.
func (w *world) startUpstream(dnsAddr string) (string, error) {
	up, cluster := w.c.Config.Upstream, w.c.Config.ClusterDNS
	if up == nil && cluster == nil {
		return "", nil
	}
	if up == nil {
		up = &Upstream{}
	}
	domains := map[string][]string{}
	if cluster != nil {
		for zone, servers := range cluster.StubDomains {
			for _, server := range servers {
				domains[zone] = append(domains[zone], strings.ReplaceAll(server, "{{DNS_ADDR}}", dnsAddr))
			}
		}
	}
	port, err := w.bed.Port()
	if err != nil {
		return "", err
	}
	w.stub, err = startStub(port, up.Records, up.DefaultRcode, domains)
	if err != nil {
		return "", err
	}
	return w.stub.addr, nil
}

var (
	pluginLine    = regexp.MustCompile(`(?m)^\s*k8s_mcs([^{\n]*)`)
	unknownOption = regexp.MustCompile(`unknown option "([^"]+)"`)
)

// startDNS starts mcs-core-dns in a cluster, under its own role.
func (w *world) startDNS(ctx context.Context, cluster string) error {
	binary, err := w.bed.Build(ctx, "./cmd/mcs-core-dns")
	if err != nil {
		return err
	}
	w.dnsBinary = binary
	way, kubeconfig, err := w.route(cluster, cluster, dnsUser)
	if err != nil {
		return err
	}
	w.block(way)
	file, err := w.writeFile("dns.kubeconfig", kubeconfig)
	if err != nil {
		return err
	}
	d := &dnsServer{cluster: cluster}
	if d.text, err = w.corefile(w.c.Config.Corefile, d, file); err != nil {
		return err
	}
	if d.conf, err = w.writeFile("Corefile", []byte(d.text)); err != nil {
		return err
	}
	d.forwards = strings.Contains(d.text, "forward ")
	for _, match := range pluginLine.FindAllStringSubmatch(d.text, -1) {
		zones := strings.Fields(match[1])
		if len(zones) == 0 {
			zones = []string{"clusterset.local"}
		}
		for _, zone := range zones {
			d.zones = append(d.zones, dns.CanonicalName(zone))
		}
	}
	if d.Process, err = w.bed.Run(ctx, "mcs-core-dns of "+w.c.ID, []string{binary, "-conf", d.conf}); err != nil {
		return err
	}
	w.dns = d
	return d.waitListening(ctx)
}

// waitListening waits until the server takes questions. A Corefile that it
// refuses for an option that it does not know skips the case.
func (d *dnsServer) waitListening(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	for {
		select {
		case <-d.Exited():
			if match := unknownOption.FindStringSubmatch(d.Log()); match != nil {
				return skipf("option %s is not implemented", match[1])
			}
			return fmt.Errorf("mcs-core-dns ended at its start:\n%s", tail(d.Log(), 10))
		default:
		}
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", d.addr)
		if err == nil {
			_ = conn.Close() // it was there, that is all
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("mcs-core-dns takes no questions after %v: %w:\n%s", startTimeout, err, tail(d.Log(), 10))
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// reload changes the Corefile by a comment and makes the server read it.
func (d *dnsServer) reload(ctx context.Context, w *world) error {
	d.reloads++
	text := fmt.Sprintf("%s# %d\n", d.text, d.reloads)
	if _, err := w.writeFile("Corefile", []byte(text)); err != nil {
		return err
	}
	if err := syscall.Kill(d.Pid(), syscall.SIGUSR1); err != nil {
		return fmt.Errorf("reload mcs-core-dns: %w", err)
	}
	deadline := time.Now().Add(startTimeout)
	for strings.Count(d.Log(), "Reloading complete") < d.reloads {
		switch {
		case d.ended():
			return fmt.Errorf("mcs-core-dns ended at reload %d:\n%s", d.reloads, tail(d.Log(), 10))
		case time.Now().After(deadline):
			return fmt.Errorf("reload %d of mcs-core-dns is not complete after %v:\n%s", d.reloads, startTimeout, tail(d.Log(), 10))
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (d *dnsServer) ended() bool {
	select {
	case <-d.Exited():
		return true
	default:
		return false
	}
}

// corefileVariant starts mcs-core-dns with one Corefile and looks how that ends.
func (w *world) corefileVariant(ctx context.Context, number int, v Variant) error {
	binary, err := w.bed.Build(ctx, "./cmd/mcs-core-dns")
	if err != nil {
		return err
	}
	text := v.Corefile
	if v.Block != "" {
		text = ".:{{PORT}} {\n" + v.Block + "\n}\n"
	}
	kubeconfig := ""
	if strings.Contains(text, "{{KUBECONFIG}}") {
		_, content, err := w.route(home, home, dnsUser)
		if err != nil {
			return err
		}
		if kubeconfig, err = w.writeFile("variant.kubeconfig", content); err != nil {
			return err
		}
	}
	d := &dnsServer{}
	if text, err = w.corefile(text, d, kubeconfig); err != nil {
		return err
	}
	if d.conf, err = w.writeFile(fmt.Sprintf("Corefile.%d", number), []byte(text)); err != nil {
		return err
	}
	if d.Process, err = w.bed.Run(ctx, fmt.Sprintf("mcs-core-dns variant %d of %s", number, w.c.ID), []string{binary, "-conf", d.conf}); err != nil {
		return err
	}
	started := d.waitListening(ctx)
	_ = d.Kill() // it has shown what it does
	if unknown := (*SkipError)(nil); v.ExpectStart == "ok" && errors.As(started, &unknown) {
		return started
	}
	return judgeBoth(v, started == nil, d.ExitCode(), d.Log())
}

// judgeBoth judges a start, and makes sure that the opposite would fail.
func judgeBoth(v Variant, started bool, code int, log string) error {
	if err := judgeStart(v, started, code, log); err != nil {
		return err
	}
	other := v
	other.ExpectStart = map[string]string{"ok": "error", "error": "ok"}[v.ExpectStart]
	if judgeStart(other, started, code, log) == nil {
		return errors.New("the runner is wrong: it also passes with expect_start inverted")
	}
	other = v
	other.ErrorContains = "no line has this text"
	if judgeStart(other, started, code, log) == nil {
		return errors.New("the runner is wrong: it also passes with error_contains inverted")
	}
	return nil
}

// judgeStart compares a start with what a variant expects of it.
func judgeStart(v Variant, started bool, code int, log string) error {
	if started != (v.ExpectStart == "ok") {
		return fmt.Errorf("started is %t, want %s; log:\n%s", started, v.ExpectStart, tail(log, 5))
	}
	if trouble := crash(log); trouble != "" {
		return fmt.Errorf("it crashed: %s", trouble)
	}
	if !started && code < 1 {
		return fmt.Errorf("it ended with code %d, want a clean end with another code than 0", code)
	}
	if v.ErrorContains == "" {
		return nil
	}
	if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, v.ErrorContains) && (v.ExpectStart != "ok" || levelOf(line) == "error")
	}) {
		return fmt.Errorf("no error speaks of %q; log:\n%s", v.ErrorContains, tail(log, 10))
	}
	return nil
}

// crash is the line of a log that a dying Go program leaves.
func crash(log string) string {
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.Contains(line, "[PANIC]") || strings.Contains(line, "Recovered from panic") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
