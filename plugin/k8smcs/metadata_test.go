package k8smcs

import (
	"bytes"
	"io"
	golog "log"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// logBuffer is a log that is written and read at once.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// captureLog is what CoreDNS logs until the test ends.
func captureLog(t *testing.T) *logBuffer {
	t.Helper()
	b := &logBuffer{}
	golog.SetOutput(b)
	t.Cleanup(func() { golog.SetOutput(io.Discard) })
	return b
}

func TestMetadata(t *testing.T) {
	p := testPlugin()
	for name, want := range map[string]map[string]string{
		"orchard.svc.clusterset.local.":      {"namespace": "orchard"},
		"PEAR.Orchard.svc.clusterset.local.": {"namespace": "orchard", "service": "pear", "type": "ClusterSetIP"},
		"fig.orchard.svc.clusterset.local.":  {"namespace": "orchard", "service": "fig", "type": "Headless"},
		"nope.orchard.svc.clusterset.local.": {"namespace": "orchard", "service": "nope"},
		"_http._tcp.fig.orchard.svc.clusterset.local.": {
			"namespace": "orchard", "service": "fig", "type": "Headless", "port-name": "http", "protocol": "tcp",
		},
		"_tcp.fig.orchard.svc.clusterset.local.":      {"namespace": "orchard", "service": "fig", "type": "Headless", "protocol": "tcp"},
		"basil.fig.orchard.svc.clusterset.local.":     {"namespace": "orchard", "service": "fig", "type": "Headless", "cluster": "basil"},
		"h.basil.fig.orchard.svc.clusterset.local.":   {"namespace": "orchard", "service": "fig", "type": "Headless", "cluster": "basil", "endpoint": "h"},
		"h.a.basil.fig.orchard.svc.clusterset.local.": {"namespace": "orchard", "service": "fig", "type": "Headless", "cluster": "a.basil", "endpoint": "h"},
		"clusterset.local.":                           {},
		"a.b.c.d.e.f.svc.clusterset.local.":           {},
		"elsewhere.example.":                          {},
		"1.2.3.10.in-addr.arpa.":                      {},
	} {
		ctx := p.Metadata(metadata.ContextWithMetadata(t.Context()), request.Request{Req: question(name, dns.TypeA)})
		got := map[string]string{}
		for label, value := range metadata.ValueFuncs(ctx) {
			if v := value(); v != "" {
				got[strings.TrimPrefix(label, "k8s_mcs/")] = v
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: metadata %v, want %v", name, got, want)
		}
	}
}

func TestLogAndViewAndTraceKnowOurMetadata(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, plumObject, figObjects(1))
	written := captureLog(t)
	one := func(ttl string, lines ...string) string {
		return ".:0 {\n bind 127.0.0.1\n metadata\n " + strings.Join(lines, "\n ") + "\n " + ours(kubeconfig, "ttl "+ttl) + "\n}\n"
	}
	s := startServer(t, one("10", "view orchard {\n expr metadata('k8s_mcs/namespace') == 'orchard' && metadata('k8s_mcs/type') == 'ClusterSetIP'\n }")+
		one("20", "trace 127.0.0.1:1", "view headless {\n expr metadata('k8s_mcs/type') == 'Headless'\n }",
			`log . "{name} is {/k8s_mcs/endpoint} in {/k8s_mcs/cluster} of {/k8s_mcs/service} in {/k8s_mcs/namespace}, trace {/trace/traceid}"`)+
		one("30"))
	for name, ttl := range map[string]uint32{
		pear: 10, "fig.orchard.svc.clusterset.local.": 20, "fig-0.basil.fig.orchard.svc.clusterset.local.": 20, plum: 30,
	} {
		if r := s.ask(t, name, dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != ttl {
			t.Errorf("%s: want the block with TTL %d, got\n%v", name, ttl, r)
		}
	}
	line := regexp.MustCompile(`fig-0\.basil\.fig\.orchard\.svc\.clusterset\.local\. is fig-0 in basil of fig in orchard, trace [0-9a-f]{8,}\n`)
	eventually(t, "the line of the log", func() bool { return line.MatchString(written.String()) })
}
