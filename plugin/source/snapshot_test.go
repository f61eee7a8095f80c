package source

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/plugin/internal/apitest"
	"github.com/k8s-mcs/k8s-mcs/plugin/snapshot"
)

// closedPort is the configuration of a client whose API server is away.
func closedPort(t *testing.T) *rest.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &rest.Config{Host: "http://" + l.Addr().String()}
}

// snapshotOf runs a Source until it has written a snapshot of pear and fig.
func snapshotOf(t *testing.T, server *apitest.Server) (file string, serial uint32) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "snapshot")
	server.Apply(t, pearImport+"\n---\n"+figImport+"\n---\n"+figSlice)
	s, n, stop := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	eventually(t, "a snapshot is written", func() bool { return len(n.matching("written true")) > 0 })
	serial = s.Zone().Serial()
	stop()
	return file, serial
}

func wantServed(t *testing.T, s *Source, n *notes, live bool, times int) {
	t.Helper()
	if got := n.matching("warning", "Serving the snapshot"); len(got) != times {
		t.Errorf("lines %q, want %d of a snapshot that is served", got, times)
	}
	if isLive, fromSnapshot := s.Serving(); isLive != live || fromSnapshot {
		t.Errorf("live data is served: %v, want %v; the snapshot: %v, want that it is not any more", isLive, live, fromSnapshot)
	}
}

// taken rewrites a snapshot as if it had been taken at another time.
func taken(t *testing.T, file string, at time.Time) {
	t.Helper()
	s, err := snapshot.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Inputs()
	if err != nil {
		t.Fatal(err)
	}
	s.Taken = at
	if err := snapshot.NewFile(file).Write(snapshot.Encode(&s.Header, in)); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotIsServedWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	file, serial := snapshotOf(t, apitest.New(t))
	start := time.Now()
	s, n, stop := runWith(t, Options{Config: closedPort(t), SnapshotFile: file, SnapshotMaxAge: time.Hour})
	select {
	case <-s.Synced():
	case <-time.After(10 * time.Second):
		t.Fatal("the snapshot is not served")
	}
	t.Logf("served after %v", time.Since(start))
	for name, want := range map[string]string{
		"pear.orchard.svc": "[[10 96 7 10]]", "fig-0.basil.fig.orchard.svc": "[[10 22 0 4]]", "plum.orchard.svc": "none",
	} {
		if got := answer(s, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := s.Zone().Serial(); got <= serial {
		t.Errorf("serial %d is not above that of the snapshot, %d", got, serial)
	}
	age, known := s.Age()
	if !s.Stale() || !known || age <= 0 || age > time.Minute {
		t.Errorf("stale %v, age %v (%v)", s.Stale(), age, known)
	}
	eventually(t, "metric and log line", func() bool {
		live, fromSnapshot := s.Serving()
		return !live && fromSnapshot && len(n.matching("metric read good")) == 1 &&
			len(n.matching("warning", "Serving the snapshot "+file, "with 2 imports and 1 endpoints")) == 1
	})
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) || len(n.matching("written")) > 0 {
		t.Errorf("the file was written while it was served (%v): %q", err, n.matching("written"))
	}
}

func TestSnapshotIsServedWhileTheAPIServerIsSilent(t *testing.T) {
	t.Parallel()
	file, _ := snapshotOf(t, apitest.New(t))
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s, _, _ := runWith(t, Options{Config: &rest.Config{Host: "http://" + l.Addr().String()}, SnapshotFile: file})
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
}

func TestLiveDataTakesTheSnapshotsPlace(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	file, _ := snapshotOf(t, server)
	server.Apply(t, strings.ReplaceAll(pearImport, "10.96.7.10", "10.96.7.11"))
	for _, resource := range []string{"serviceimports", "endpointslices", "namespaces"} {
		server.Fail(resource, http.StatusServiceUnavailable)
	}
	s, n, _ := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	restored := s.Zone().Serial()
	server.Fail("serviceimports", 0)
	eventually(t, "one of two resources is followed", func() bool { return server.Watches() == 1 })
	if got := answer(s, "pear.orchard.svc"); got != "[[10 96 7 10]]" {
		t.Errorf("pear is %s before every watch has synced, want the snapshot's", got)
	}
	server.Fail("endpointslices", 0)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 11]]")
	if s.Zone().Serial() <= restored {
		t.Errorf("serial %d is not above that of the snapshot, %d", s.Zone().Serial(), restored)
	}
	wantServed(t, s, n, true, 1)
	eventually(t, "the data is fresh", func() bool { return !s.Stale() })
	server.Fail("namespaces", 0)
	eventually(t, "a snapshot of the live data", func() bool { return len(n.matching("written true")) > 0 })
	in := read(t, file)
	if in.Serial != s.Zone().Serial() {
		t.Errorf("the snapshot has serial %d, want %d", in.Serial, s.Zone().Serial())
	}
}

func read(t *testing.T, file string) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotIsNotServedWhenTheAPIServerIsThere(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	file, serial := snapshotOf(t, server)
	server.Delete("ServiceImport", "orchard", "pear")
	s, n, _ := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	<-s.Synced()
	if got := answer(s, "pear.orchard.svc"); got != "none" {
		t.Errorf("the first answer is %s, which is the snapshot's", got)
	}
	if s.Zone().Serial() <= serial {
		t.Errorf("serial %d is not above that of the snapshot, %d", s.Zone().Serial(), serial)
	}
	wantServed(t, s, n, true, 0)
}

func TestSnapshotsThatAreNotServed(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(first(snapshotOf(t, apitest.New(t))))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		file   []byte
		opts   Options
		result SnapshotResult
		words  []string
	}{
		"none":             {nil, Options{}, SnapshotAbsent, []string{"info", "There is no snapshot"}},
		"truncated":        {whole[:len(whole)-7], Options{}, SnapshotTruncated, []string{"error", "truncated"}},
		"empty":            {[]byte{}, Options{}, SnapshotTruncated, []string{"error", "truncated: 0 bytes"}},
		"a flipped byte":   {flipped, Options{}, SnapshotDamaged, []string{"error", "checksum"}},
		"too old":          {whole, Options{SnapshotMaxAge: time.Nanosecond}, SnapshotTooOld, []string{"error", "too old", "1ns"}},
		"other namespaces": {whole, Options{Namespaces: []string{"orchard"}}, SnapshotFingerprint, []string{"error", "another configuration", "namespaces"}},
		"other pod names":  {whole, Options{PodNames: true}, SnapshotFingerprint, []string{"error", "another configuration", "endpoint_pod_names"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := c.opts
			opts.SnapshotFile = filepath.Join(t.TempDir(), "snapshot")
			if c.file != nil {
				if err := os.WriteFile(opts.SnapshotFile, c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			opts.Config = closedPort(t)
			s, n, _ := runWith(t, opts)
			eventually(t, "the reason", func() bool {
				return len(n.matching(append(c.words, opts.SnapshotFile)...)) == 1 && len(n.matching("metric read "+string(c.result))) == 1
			})
			eventually(t, "the API server is found away", func() bool { return n.read(&n.failures) > 0 })
			if s.Zone() != nil || s.Stale() {
				t.Errorf("zone %v, stale %v", s.Zone(), s.Stale())
			}
			wantServed(t, s, n, false, 0)
		})
	}
}

func first(file string, _ uint32) string { return file }

func TestSnapshotOfAnotherClusterIsDropped(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"the API server answers at once": false, "it was away first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := apitest.New(t)
			file, _ := snapshotOf(t, server)
			server.SetUID("another")
			server.Fail("serviceimports", http.StatusForbidden)
			if late {
				server.Fail("namespaces", http.StatusServiceUnavailable)
			}
			s, n, _ := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
			if late {
				wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
				server.Fail("namespaces", 0)
			}
			eventually(t, "a line about the cluster", func() bool {
				return len(n.matching("error", "another cluster", "test-cluster", "another")) == 1
			})
			wantAnswer(t, s, "pear.orchard.svc", "unsynced")
			if s.Stale() {
				t.Error("no data is stale")
			}
			times := 0
			if late {
				times = 1
			}
			wantServed(t, s, n, false, times)
			server.Fail("serviceimports", 0)
			wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
			eventually(t, "the file is that of the other cluster", func() bool { return read(t, file).Cluster == "another" })
		})
	}
}

func TestSnapshotIsDroppedWhenItBecomesTooOld(t *testing.T) {
	t.Parallel()
	file, _ := snapshotOf(t, apitest.New(t))
	taken(t, file, time.Now().Add(-time.Hour+3*time.Second))
	s, n, _ := runWith(t, Options{Config: closedPort(t), SnapshotFile: file, SnapshotMaxAge: time.Hour})
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	wantAnswer(t, s, "pear.orchard.svc", "unsynced")
	if got := n.matching("error", "no longer served", "older than 1h0m0s"); len(got) != 1 {
		t.Errorf("lines about it: %q, want one", got)
	}
	wantServed(t, s, n, false, 1)
	if _, known := s.Age(); known || s.Stale() {
		t.Error("there is no data, and it has an age or is stale")
	}
}

func TestWithoutTheRightToAskForItsUIDNoSnapshotIsWritten(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	server.Fail("namespaces", http.StatusForbidden)
	file := filepath.Join(t.TempDir(), "snapshot")
	s, n, stop := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	eventually(t, "a line about it", func() bool { return len(n.matching("error", "Cannot take snapshots")) > 0 })
	said := server.Requests("get", "namespaces")
	eventually(t, "another attempt", func() bool { return server.Requests("get", "namespaces") > said })
	if got := n.matching("error", "Cannot take snapshots", "verb get on namespaces", "kube-system"); len(got) != 1 {
		t.Errorf("lines about the right: %q, want one", got)
	}
	stop()
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a snapshot, and nobody knows of which cluster")
	}
}

func TestARefusalIsToldOnceAndNotOfAnAPIServerThatHasJustStarted(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var r refusal
	for i, c := range []struct {
		after  time.Duration
		reason watch.Reason
		want   bool
	}{
		{0, watch.Unreachable, false},
		{time.Minute, watch.Unreachable, false},
		{time.Minute, watch.Forbidden, false},
		{time.Minute + settled, watch.Forbidden, true},
		{2 * time.Minute, watch.Forbidden, false},
		{3 * time.Minute, watch.Missing, false},
		{4 * time.Minute, watch.Missing, true},
	} {
		if got := r.tell(c.reason, start.Add(c.after)); got != c.want {
			t.Errorf("step %d, %s after %v: told %v, want %v", i, c.reason, c.after, got, c.want)
		}
	}
}

func TestLastChangesAreSavedAtTheEnd(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	server.Apply(t, pearImport)
	s, n, stop := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	eventually(t, "a snapshot", func() bool { return len(n.matching("written true")) == 1 })
	server.Apply(t, strings.ReplaceAll(pearImport, "10.96.7.10", "10.96.7.11"))
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 11]]")
	stop()
	select {
	case <-s.Saved():
	default:
		t.Error("Run has ended, and Saved is open")
	}
	in, err := read(t, file).Inputs()
	if err != nil || len(in.Imports) != 1 || in.Imports[0].Addresses[0].String() != "10.96.7.11" {
		t.Errorf("the snapshot has %v (%v), want the last state", in, err)
	}
	if got := n.matching("written true"); len(got) != 2 {
		t.Errorf("%d writes, want one at the start and one at the end", len(got))
	}
}

func TestAFileThatAnotherSourceHasTakenOverIsLeftToIt(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	server.Apply(t, pearImport)
	s, n, stop := runWith(t, Options{Config: server.Config(), SnapshotFile: file})
	eventually(t, "a snapshot", func() bool { return len(n.matching("written true")) == 1 })
	_, next, _ := runWith(t, Options{Config: server.Config(), SnapshotFile: file, PodNames: true})
	eventually(t, "a snapshot of the other configuration", func() bool { return len(next.matching("written true")) == 1 })
	server.Apply(t, strings.ReplaceAll(pearImport, "10.96.7.10", "10.96.7.11"))
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 11]]")
	stop()
	if !read(t, file).PodNames {
		t.Error("the Source that ended has written over the file of the next one")
	}
}

func TestAWriteThatFailsIsToldOnceAndTriedAgain(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	folder := filepath.Join(t.TempDir(), "late")
	_, n, _ := runWith(t, Options{Config: server.Config(), SnapshotFile: filepath.Join(folder, "snapshot")})
	eventually(t, "two attempts", func() bool { return len(n.matching("written false")) == 2 })
	if got := n.matching("error", "Cannot write the snapshot", folder); len(got) != 1 {
		t.Errorf("lines about it: %q, want one", got)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write", func() bool { return len(n.matching("info", "Writing the snapshot", "again")) == 1 })
}
