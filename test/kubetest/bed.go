package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Bed is one run: its folder, its children and its ports. It may be used by
// several goroutines.
type Bed struct {
	log     io.Writer
	root    string // of the repository
	dir     string // of this run, removed by Close
	owner   *fileLock
	kube    string // the control-plane binary
	spawner *spawner
	ports   portPool

	mu        sync.Mutex
	closed    bool
	builds    map[string]*build
	processes []*Process
	clusters  []*Cluster
	links     []*Link
}

// errClosed answers calls after Close.
var errClosed = errors.New("the test bed is closed")

// NewBed prepares a run: it removes what dead runs left behind, makes the
// folder of this one and builds the control-plane binary unless this version
// of it is there already. The first build of all takes minutes; log is told.
func NewBed(ctx context.Context, log io.Writer) (*Bed, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	home, err := homeDir()
	if err != nil {
		return nil, err
	}
	log = &syncWriter{w: log}
	sweep(filepath.Join(home, "runs"), log)
	dir, owner, err := makeRunDir(filepath.Join(home, "runs"))
	if err != nil {
		return nil, err
	}
	b := &Bed{
		log:     log,
		root:    root,
		dir:     dir,
		owner:   owner,
		spawner: newSpawner(),
		ports:   portPool{dir: filepath.Join(home, "ports")},
		builds:  map[string]*build{},
	}
	if b.kube, err = buildKube(ctx, root, log); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// ForTest is NewBed for one test: it is closed when the test ends, and when
// the test failed, the ends of all logs are printed first.
func ForTest(t testing.TB) *Bed {
	t.Helper()
	b, err := NewBed(t.Context(), t.Output())
	if err != nil {
		t.Fatalf("prepare test bed: %v", err)
	}
	t.Cleanup(func() {
		for _, p := range b.allProcesses() {
			if _, report, found := strings.Cut(p.Log(), "WARNING: DATA RACE"); found {
				t.Errorf("%s has a data race:%s", p.name, report)
			}
		}
		if t.Failed() {
			for _, p := range b.allProcesses() {
				t.Logf("---- %s (%s), last lines:\n%s", p.name, p.state(), tail(p.Log(), 40))
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("close test bed: %v", err)
		}
	})
	return b
}

// Close kills every child, gives the ports back and removes the folder.
func (b *Bed) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	clusters, links := b.clusters, b.links
	b.mu.Unlock()

	var errs []error
	for _, link := range links {
		link.Close()
	}
	for _, c := range clusters {
		c.superviseEnd()
	}
	// No child is started any more, so this list is complete.
	b.spawner.close()
	processes := b.allProcesses()
	for _, p := range processes {
		_ = p.signalKill() // an error says that it has ended already
	}
	for _, p := range processes {
		p.Wait()
	}
	b.ports.release()
	if err := os.RemoveAll(b.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove folder of the run: %w", err))
	}
	errs = append(errs, b.owner.unlock())
	return errors.Join(errs...)
}

// Port reserves a port of 127.0.0.1, TCP and UDP, until Close. It lies outside
// the range from which the kernel serves itself, and no other run of this user
// gets it meanwhile, whether or not something listens on it.
func (b *Bed) Port() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errClosed
	}
	return b.ports.take()
}

// Dir is the folder of this run; Close removes it.
func (b *Bed) Dir() string { return b.dir }

// Root is the folder of the repository.
func (b *Bed) Root() string { return b.root }

func (b *Bed) allProcesses() []*Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.processes)
}

// syncWriter lets clusters that start side by side share one log.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
