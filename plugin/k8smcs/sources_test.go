package k8smcs

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/plugin/internal/apitest"
)

const (
	pear = "pear.orchard.svc.clusterset.local."
	plum = "plum.garden.svc.clusterset.local."
)

const plumObject = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: plum, namespace: garden}
spec: {type: ClusterSetIP, ips: [10.96.7.20], ports: []}`

// serves waits until the server answers on both sockets. One that is stopped
// before it has begun to serve is not stopped at all, and goes on beside the
// new one.
func (s *server) serves(t *testing.T) {
	t.Helper()
	for network, addr := range map[string]string{"udp": s.udp, "tcp": s.tcp} {
		exchange(t, network, addr, question("clusterset.local.", dns.TypeSOA))
	}
}

func (s *server) reload(t *testing.T, text string) {
	t.Helper()
	s.serves(t)
	again, err := s.instance.Restart(input(text))
	if err != nil {
		t.Fatalf("reload: %v\n%s", err, text)
	}
	s.instance = again
	s.findAddresses()
}

// requests is the number of requests to an API server so far.
func requests(api *apitest.Server) (n int) {
	for _, verb := range []string{"list", "watch"} {
		n += api.Requests(verb, "serviceimports") + api.Requests(verb, "endpointslices")
	}
	return n
}

// askOn asks for pear until stop is called, which returns how many answers
// there were and how many were wrong.
func (s *server) askOn(t *testing.T) (stop func() (asked, wrong int32)) {
	t.Helper()
	var asked, wrong atomic.Int32
	done := make(chan struct{})
	addr := s.udp
	var wg sync.WaitGroup
	wg.Go(func() {
		c := &dns.Client{Timeout: 5 * time.Second}
		for {
			select {
			case <-done:
				return
			default:
			}
			r, _, err := c.ExchangeContext(t.Context(), question(pear, dns.TypeA), addr)
			asked.Add(1)
			if err != nil || len(r.Answer) != 1 {
				wrong.Add(1)
			}
		}
	})
	return func() (int32, int32) {
		close(done)
		wg.Wait()
		return asked.Load(), wrong.Load()
	}
}

// names: N47.
func TestReloadHandsOverWhatIsReadAlready(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	s := startServer(t, block(ours(kubeconfig)))
	before := requests(api)
	stop := s.askOn(t)
	for i := range 3 {
		s.reload(t, block(ours(kubeconfig, fmt.Sprintf("ttl %d", i+10), "fallthrough"), "errors"))
		if r := s.ask(t, pear, dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != uint32(i+10) {
			t.Errorf("after reload %d: got\n%v", i+1, r)
		}
	}
	if asked, wrong := stop(); wrong > 0 {
		t.Errorf("%d of %d answers were lost or wrong", wrong, asked)
	}
	if n := requests(api) - before; n != 0 {
		t.Errorf("the API server was asked %d times", n)
	}
	api.Apply(t, strings.Replace(pearObject, "10.96.7.10", "10.96.7.11", 1))
	eventually(t, "a change after the reloads", func() bool { return onlyAnswer(s.ask(t, pear, dns.TypeA)) == "10.96.7.11" })
}

func TestReloadStartsAnewAndEndsTheOld(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	s := startServer(t, block(ours(kubeconfig)))
	for i := range 3 {
		s.reload(t, block(ours(kubeconfig, fmt.Sprint("nameserver 10.96.0.", i+1))))
		if r := s.ask(t, pear, dns.TypeA); len(r.Answer) != 1 {
			t.Errorf("after reload %d: got\n%v", i+1, r)
		}
	}
	eventually(t, "the old sources have ended their watches", func() bool { return api.Watches() == 2 })
	if got := gaugeValues(t)["coredns_k8s_mcs_imports"]; got != 1 {
		t.Errorf("after the reloads the gauge of imports is %v, want 1", got)
	}
}

func TestReloadServesFromTheOldDataUntilThereIsNew(t *testing.T) {
	old, oldKubeconfig := newAPI(t, pearObject)
	api, kubeconfig := newAPI(t, pearObject, plumObject)
	api.Fail("endpointslices", http.StatusServiceUnavailable)
	s := startServer(t, block(ours(oldKubeconfig)))
	stop := s.askOn(t)
	begin := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.reload(t, block(ours(kubeconfig, "startup_timeout 60s")))
	}()
	eventually(t, "the new source asks", func() bool { return api.Requests("watch", "endpointslices") >= 1 })
	if got := gaugeValues(t); got["coredns_k8s_mcs_imports"] != 1 || got["coredns_k8s_mcs_synced"] != 1 {
		t.Errorf("while the old data is served the gauges are %v", got)
	}
	api.Fail("endpointslices", 0)
	<-done
	if asked, wrong := stop(); wrong > 0 || asked == 0 {
		t.Errorf("%d of %d answers were lost or wrong in %s", wrong, asked, time.Since(begin))
	}
	if r := s.ask(t, plum, dns.TypeA); onlyAnswer(r) != "10.96.7.20" {
		t.Errorf("new data: got\n%v", r)
	}
	if got := gaugeValues(t)["coredns_k8s_mcs_imports"]; got != 2 {
		t.Errorf("the gauge of imports is %v, want 2", got)
	}
	eventually(t, "the old watches have ended", func() bool { return old.Watches() == 0 })
}

func TestReloadWhileUnsyncedCanStillBecomeReady(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	api.Fail("serviceimports", http.StatusServiceUnavailable)
	text := block("errors", ours(kubeconfig, "startup_timeout 1s"))
	s := startServer(t, text)
	for range 2 {
		for network, addr := range map[string]string{"udp": s.udp, "tcp": s.tcp} {
			if r := exchange(t, network, addr, question(pear, dns.TypeA)); r.Rcode != dns.RcodeServerFailure {
				t.Fatalf("before the first list: got\n%v", r)
			}
		}
		begin := time.Now()
		s.reload(t, text)
		if took := time.Since(begin); took > 900*time.Millisecond {
			t.Errorf("the reload took %s: it waited again for what the start had waited for", took)
		}
	}
	api.Fail("serviceimports", 0)
	eventually(t, "the right answer", func() bool { return len(s.ask(t, pear, dns.TypeA).Answer) == 1 })
}

func TestAReloadThatFailsLeavesNothingRunning(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	clash := "other.example:" + port + " {\n bind 127.0.0.1\n whoami\n}\n"
	old, oldKubeconfig := newAPI(t, pearObject)
	api, kubeconfig := newAPI(t, pearObject, plumObject)

	s := startServer(t, block(ours(oldKubeconfig)))
	s.serves(t)
	if _, err := s.instance.Restart(input(block(ours(kubeconfig)) + clash)); err == nil {
		t.Fatal("the reload worked, though its port is taken")
	}
	if n := api.Requests("watch", "serviceimports"); n == 0 {
		t.Error("the reload failed before our start: this tests nothing")
	}
	eventually(t, "the new watches have ended", func() bool { return api.Watches() == 0 })
	if n := len(sources.serving()); n != 1 || old.Watches() != 2 {
		t.Errorf("%d sources run and the old one has %d watches, want 1 and 2", n, old.Watches())
	}
	if r := s.ask(t, pear, dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("the old server: got\n%v", r)
	}

	before := requests(old)
	if _, err := s.instance.Restart(input(block(ours(oldKubeconfig, "ttl 30")) + clash)); err == nil {
		t.Fatal("the reload worked, though its port is taken")
	}
	s.reload(t, block(ours(oldKubeconfig, "ttl 31")))
	if r := s.ask(t, pear, dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 31 {
		t.Errorf("after a good reload: got\n%v", r)
	}
	if n := requests(old) - before; n != 0 {
		t.Errorf("the API server was asked %d times for a block that says the same", n)
	}
}

func TestTheFirstBlockOfAReloadThatFailsIsEndedByTheNextReload(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	api, kubeconfig := newAPI(t, pearObject)
	other, otherKubeconfig := newAPI(t, pearObject)
	s := startServer(t, block("whoami"))
	if _, err := s.instance.Restart(input(block(ours(kubeconfig)) + "other.example:" + port + " {\n bind 127.0.0.1\n whoami\n}\n")); err == nil {
		t.Fatal("the reload worked, though its port is taken")
	}
	s.reload(t, block(ours(otherKubeconfig)))
	eventually(t, "the watches of the failed one have ended", func() bool { return api.Watches() == 0 && other.Watches() == 2 })
}

// twoBlocks are two server blocks on one port.
func twoBlocks(first, second string) string {
	return "clusterset.local:0 {\n bind 127.0.0.1\n " + first + "\n}\nmcs.example:0 {\n bind 127.0.0.1\n " + second + "\n}\n"
}

func TestBlocksThatReadTheSameShareOneSource(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	one := "k8s_mcs clusterset.local mcs.example {\n kubeconfig " + kubeconfig + "\n ttl "
	s := startServer(t, twoBlocks(one+"10\n }", one+"20\n }"))
	for name, ttl := range map[string]uint32{pear: 10, "pear.orchard.svc.mcs.example.": 20} {
		if r := s.ask(t, name, dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != ttl {
			t.Errorf("%s: got\n%v", name, r)
		}
	}
	if n := api.Watches(); n != 2 {
		t.Errorf("%d watches, want 2", n)
	}
	if got := gaugeValues(t)["coredns_k8s_mcs_imports"]; got != 1 {
		t.Errorf("the gauge of imports is %v, want 1", got)
	}
}

// names: N48.
func TestBlocksWithOneZoneAndOtherDataAreAddedInTheMetrics(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, plumObject)
	one := "k8s_mcs clusterset.local mcs.example {\n kubeconfig " + kubeconfig + "\n namespaces "
	s := startServer(t, twoBlocks(one+"orchard\n }", one+"garden\n }"))
	if r := s.ask(t, pear, dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("pear: got\n%v", r)
	}
	if r := s.ask(t, "plum.garden.svc.mcs.example.", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("plum: got\n%v", r)
	}
	if got := gaugeValues(t); got["coredns_k8s_mcs_imports"] != 2 || got["coredns_k8s_mcs_synced"] != 1 {
		t.Errorf("the gauges are %v", got)
	}
}

// names: N55.
func TestBlocksDoNotWaitForDataOneAfterTheOther(t *testing.T) {
	api, kubeconfig := newAPI(t)
	api.Fail("endpointslices", http.StatusServiceUnavailable)
	a := "k8s_mcs clusterset.local {\n kubeconfig " + kubeconfig + "\n startup_timeout 1s\n }"
	b := strings.Replace(a, "clusterset.local", "mcs.example", 1)
	begin := time.Now()
	startServer(t, twoBlocks(a, b))
	if took := time.Since(begin); took < time.Second || took > 1900*time.Millisecond {
		t.Errorf("the start took %s, want the startup_timeout once", took)
	}
}

func TestTheEndOfAServerWaitsForItsLastSnapshot(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	file := filepath.Join(t.TempDir(), "snapshot")
	s := startServer(t, block(ours(kubeconfig, "snapshot "+file)))
	var first []byte
	eventually(t, "the first snapshot", func() bool {
		first, _ = os.ReadFile(file)
		return len(first) > 0
	})
	api.Apply(t, strings.Replace(pearObject, "10.96.7.10", "10.96.7.11", 1))
	eventually(t, "the change", func() bool { return onlyAnswer(s.ask(t, pear, dns.TypeA)) == "10.96.7.11" })
	for _, err := range s.instance.ShutdownCallbacks() {
		t.Error(err)
	}
	if last, err := os.ReadFile(file); err != nil || bytes.Equal(first, last) {
		t.Errorf("the snapshot is that of before the change (%v)", err)
	}
}

func TestDataThatIsThereIsNotMissedWithoutPatience(t *testing.T) {
	there, missing := make(chan struct{}), make(chan struct{})
	close(there)
	for range 100 {
		if !within(there, 0) || within(missing, 0) {
			t.Fatal("what is there was missed, or what is missing was there")
		}
	}
}

func TestOneSnapshotIsNotForTwo(t *testing.T) {
	inPod(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	a := "k8s_mcs clusterset.local {\n snapshot " + file + "\n }"
	err := caddy.ValidateAndExecuteDirectives(input(twoBlocks(a, strings.Replace(a, "clusterset.local", "mcs.example", 1))), nil, true)
	if err == nil {
		t.Fatal("two blocks that read other data write one file")
	}
	for _, w := range []string{"plugin/k8s_mcs: ", "Corefile:10 ", file, "Corefile:3", "want another file"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if err := caddy.ValidateAndExecuteDirectives(input(twoBlocks(a, a)), nil, true); err != nil {
		t.Errorf("two blocks that read the same: %v", err)
	}
}
