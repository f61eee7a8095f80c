package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8s-mcs/k8s-mcs/plugin/internal/apitest"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	pearImport = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: pear, namespace: orchard}
spec: {type: ClusterSetIP, ips: [10.96.7.10], ports: [{port: 80, name: http}]}`
	figImport = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: fig, namespace: orchard}
spec: {type: Headless, ports: []}`
	figSlice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: fig-b
  namespace: orchard
  labels: {multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [10.22.0.4], hostname: fig-0}]`
)

// notes is a Logger and Observer that remembers.
type notes struct {
	mu       sync.Mutex
	lines    []string
	failures int
	rejected int

	programmed int
}

func (n *notes) add(level, format string, v []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, level+" "+fmt.Sprintf(format, v...))
}

func (n *notes) Infof(format string, v ...any)    { n.add("info", format, v) }
func (n *notes) Warningf(format string, v ...any) { n.add("warning", format, v) }
func (n *notes) Errorf(format string, v ...any)   { n.add("error", format, v) }

func (n *notes) Published(time.Duration) {}
func (n *notes) WatchFailed(string)      { n.count(&n.failures) }
func (n *notes) Rejected(_ string, reason Reason) {
	n.count(&n.rejected)
	n.add("rejected", "%s", []any{reason})
}
func (n *notes) Programmed(time.Duration)      { n.count(&n.programmed) }
func (n *notes) SnapshotRead(r SnapshotResult) { n.add("metric", "read %v", []any{r}) }
func (n *notes) SnapshotWritten(ok bool)       { n.add("metric", "written %v", []any{ok}) }

func (n *notes) count(what *int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*what++
}

func (n *notes) read(what *int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return *what
}

func (n *notes) matching(words ...string) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			out = append(out, line)
		}
	}
	return out
}

// run starts a Source that ends with the test.
func run(t *testing.T, server *apitest.Server, namespaces ...string) (*Source, *notes) {
	t.Helper()
	s, n, _ := runWith(t, Options{Config: server.Config(), Namespaces: namespaces})
	return s, n
}

// runWith is run with more options; stop ends the Source before the test ends.
func runWith(t *testing.T, opts Options) (s *Source, n *notes, stop func()) {
	t.Helper()
	n = &notes{}
	opts.Zone, opts.UserAgent, opts.Log, opts.Observer = zone.Options{Origins: []string{"clusterset.local."}}, "test", n, n
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the goroutines of the source did not end")
		}
	}
	t.Cleanup(stop)
	return s, n, stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// answer is the first address of a name; "none" when it does not exist.
func answer(s *Source, name string) string {
	z := s.Zone()
	if z == nil {
		return "unsynced"
	}
	a := z.Lookup(zone.Parse(name), zone.TypeA, 0)
	if len(a.V4) == 0 {
		return "none"
	}
	return fmt.Sprint(a.V4)
}

func wantAnswer(t *testing.T, s *Source, name, want string) {
	t.Helper()
	eventually(t, name+" is "+want, func() bool { return answer(s, name) == want })
}

func TestChangesBecomeAnswers(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	s, n := run(t, server)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	wantAnswer(t, s, "fig.orchard.svc", "none")

	server.Apply(t, figImport+"\n---\n"+figSlice)
	wantAnswer(t, s, "fig-0.basil.fig.orchard.svc", "[[10 22 0 4]]")
	server.Apply(t, strings.ReplaceAll(figSlice, "10.22.0.4", "10.22.0.5"))
	wantAnswer(t, s, "fig.orchard.svc", "[[10 22 0 5]]")
	server.Apply(t, strings.ReplaceAll(figSlice, "service-name: fig", "service-name: pear"))
	wantAnswer(t, s, "fig.orchard.svc", "none")
	server.Delete("ServiceImport", "orchard", "pear")
	wantAnswer(t, s, "pear.orchard.svc", "none")
	if got := n.matching("error"); len(got) > 0 {
		t.Errorf("errors in the log: %q", got)
	}
}

func TestEndpointsAreCountedWhetherAnAnswerHasThemOrNot(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	s, _ := run(t, server)
	counts := func(wantImports, wantEndpoints int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d imports and %d endpoints", wantImports, wantEndpoints), func() bool {
			imports, endpoints := s.Counts()
			return imports == wantImports && endpoints == wantEndpoints
		})
	}
	counts(1, 0)
	before := s.Zone()
	server.Apply(t, strings.ReplaceAll(figSlice, "service-name: fig", "service-name: pear"))
	counts(1, 1)
	if s.Zone() != before {
		t.Error("a zone was published, although no answer has changed")
	}
	server.Apply(t, figImport)
	counts(2, 1)
	server.Delete("EndpointSlice", "orchard", "fig-b")
	counts(2, 0)
}

func TestNothingIsServedBeforeEveryWatchHasSynced(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	server.Fail("endpointslices", http.StatusForbidden)
	s, n := run(t, server)
	eventually(t, "an error in the log", func() bool { return len(n.matching("error")) > 0 })
	said := n.read(&n.failures)
	eventually(t, "an attempt after that", func() bool { return n.read(&n.failures) > said })
	if s.Zone() != nil {
		t.Error("a zone was published without EndpointSlices")
	}
	if got := n.matching("error", "endpointslices.discovery.k8s.io", "grant"); len(got) != 1 {
		t.Errorf("log lines about the forbidden resource: %q, want one that names it and the remedy", got)
	}
	if got := n.matching("error"); len(got) != 1 {
		t.Errorf("errors in the log: %q, want one", got)
	}
	server.Fail("endpointslices", 0)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	if got := n.matching("info", "Following endpointslices.discovery.k8s.io again"); len(got) != 1 {
		t.Errorf("log lines about the recovery: %q, want one", got)
	}
}

func TestHealthSaysEachKindOfTroubleOnce(t *testing.T) {
	t.Parallel()
	n := &notes{}
	h := &health{resource: "things", log: n, failed: func() {}}
	refused := fmt.Errorf("list things: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no role")))
	away := fmt.Errorf("watch things: %w", &url.Error{Op: "Get", URL: "https://east.example/things?watch=1", Err: errors.New("connection refused")})
	for _, err := range []error{nil, refused, refused, away, away, nil, nil} {
		h.report(err)
	}
	want := []string{
		`error Cannot list things: things is forbidden: no role: grant the verbs list and watch on things to this client (deploy/rbac/mcs-core-dns.yaml); trying again until it works`,
		"error Cannot watch things: https://east.example/things: connection refused: check that the API server runs and that its address in the kubeconfig is right; trying again until it works",
		"info Following things again",
	}
	if got := n.matching("things"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMissingCRDIsNamedAndHeals(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Fail("serviceimports", http.StatusNotFound)
	s, n := run(t, server)
	eventually(t, "an error that names the CRD", func() bool {
		return len(n.matching("error", "serviceimports.multicluster.x-k8s.io", "CustomResourceDefinition")) == 1
	})
	server.Fail("serviceimports", 0)
	server.Apply(t, pearImport)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
}

func TestDeletionsDuringAnOutageAreFound(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport+"\n---\n"+figImport+"\n---\n"+figSlice)
	s, n := run(t, server)
	wantAnswer(t, s, "fig.orchard.svc", "[[10 22 0 4]]")

	server.Fail("serviceimports", http.StatusServiceUnavailable)
	server.Fail("endpointslices", http.StatusServiceUnavailable)
	server.CutWatches()
	eventually(t, "the outage is noticed", func() bool { return n.read(&n.failures) >= 2 })
	server.Delete("ServiceImport", "orchard", "pear")
	server.Delete("EndpointSlice", "orchard", "fig-b")
	if got := answer(s, "pear.orchard.svc"); got != "[[10 96 7 10]]" {
		t.Errorf("during the outage pear is %s, want the last state", got)
	}
	server.Fail("serviceimports", 0)
	server.Fail("endpointslices", 0)
	wantAnswer(t, s, "pear.orchard.svc", "none")
	wantAnswer(t, s, "fig.orchard.svc", "none")
}

func TestOnlyTheNamedNamespacesAreFollowed(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	other := strings.NewReplacer("namespace: orchard", "namespace: meadow", "10.96.7.10", "10.96.7.11")
	third := strings.NewReplacer("namespace: orchard", "namespace: creek", "10.96.7.10", "10.96.7.12")
	server.Apply(t, pearImport+"\n---\n"+other.Replace(pearImport)+"\n---\n"+third.Replace(pearImport))
	s, _ := run(t, server, "orchard", "meadow")
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	wantAnswer(t, s, "pear.meadow.svc", "[[10 96 7 11]]")
	wantAnswer(t, s, "pear.creek.svc", "none")
	if got := server.Watches(); got != 4 {
		t.Errorf("%d watches are open, want 4: two resources in two namespaces", got)
	}
}

func TestBadObjectsAreReportedAndDoNotHarmGoodOnes(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, figImport+"\n---\n"+figSlice+"\n---\n"+
		strings.NewReplacer("name: fig-b", "name: fig-x", ", multicluster.kubernetes.io/source-cluster: basil", "").Replace(figSlice)+"\n---\n"+
		strings.NewReplacer("name: fig-b", "name: fig-y", "10.22.0.4", "169.254.169.254").Replace(figSlice))
	s, n := run(t, server)
	wantAnswer(t, s, "fig.orchard.svc", "[[10 22 0 4]]")
	for _, words := range [][]string{{"warning", "orchard/fig-x", "source-cluster"}, {"warning", "orchard/fig-y", "169.254.169.254"}} {
		if got := n.matching(words...); len(got) != 1 {
			t.Errorf("lines with %q: %q, want one", words, got)
		}
	}
	if got := n.read(&n.rejected); got != 2 {
		t.Errorf("%d rejected objects were counted, want 2", got)
	}
	// An object that turns bad takes its good state with it.
	server.Apply(t, strings.Replace(figSlice, "source-cluster: basil", "source-cluster: a.b.c", 1))
	wantAnswer(t, s, "fig.orchard.svc", "none")
}

func TestProblemLogSaysThingsOnceAndNeverFloods(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	n := &notes{}
	p := newProblemLog(n, func() time.Time { return now })
	for range 3 {
		p.warn("the same")
	}
	if got := n.matching("the same"); len(got) != 1 {
		t.Errorf("said %d times, want once", len(got))
	}
	for i := range 100 {
		p.warn(fmt.Sprint("thing ", i))
	}
	if got := n.matching("thing"); len(got) != linesPerMinute-1 {
		t.Errorf("%d lines in a minute, want %d", len(got)+1, linesPerMinute)
	}
	now = now.Add(time.Minute)
	p.warn("later")
	if got := n.matching("later", "95 other warnings"); len(got) != 1 {
		t.Errorf("the next line does not count what was left out: %q", n.matching("later"))
	}
	now = now.Add(sayAgainAfter)
	p.warn("the same")
	if got := n.matching("the same"); len(got) != 2 {
		t.Errorf("after an hour said %d times in all, want twice", len(got))
	}
}
