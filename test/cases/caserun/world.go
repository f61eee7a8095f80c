package caserun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// home is the cluster whose DNS server is asked unless a query says otherwise.
const home = "amber"

// world is what one case runs in.
type world struct {
	c       *Case
	bed     *kubetest.Bed
	dir     string
	members map[string]*member // by cluster id

	mu sync.Mutex // guards refused while the state is loaded
	// refused are objects that the API server does not take; a proxy shows them.
	refused   map[string]map[string]*refusal // by cluster, then by kind/namespace/name
	ways      []*way
	dns       *dnsServer
	dnsBinary string
	syncds    map[string]*syncdProcess
	stub      *stub

	begin     time.Time
	marks     map[int]time.Time     // when the checks of a step had passed
	scrapes   map[int]*page         // metrics of the DNS server after a step
	snapshots map[string][]snapshot // of unchanged checks, by their keys
	serials   map[string]uint32
	tokens    map[string][][]byte // kubeconfigs with a token, the newest last, by cluster and peer
	change    *change
	changed   map[*member]bool // roles or CRDs are not as they were
	stopAsk   context.CancelFunc
	asking    sync.WaitGroup
}

// SkipError says why a case cannot be run.
type SkipError struct{ Reason string }

// Error implements error.
func (e *SkipError) Error() string { return e.Reason }

func skipf(format string, args ...any) error { return &SkipError{fmt.Sprintf(format, args...)} }

// clusterIDs are the clusters of a case in the order of their names.
func (c *Case) clusterIDs() []string {
	ids := map[string]bool{}
	for id := range c.Clusters {
		ids[id] = true
	}
	if c.needsDNS() || len(c.Config.SyncdVariants) > 0 || c.Layer == "sync" {
		ids[home] = true
	}
	for _, q := range c.Queries {
		ids[q.At] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// needsDNS reports whether mcs-core-dns has to run.
func (c *Case) needsDNS() bool {
	about := func(process string) bool { return process == "dns" }
	return len(c.Queries) > 0 || c.Layer == "dns" || c.Expect.Start != "" ||
		slices.ContainsFunc(c.Expect.HTTP, func(x HTTPCheck) bool { return about(x.Process) }) ||
		slices.ContainsFunc(c.Expect.Process, func(x ProcessCheck) bool { return about(x.Process) }) ||
		slices.ContainsFunc(c.Expect.Logs, func(x LogCheck) bool { return about(x.Process) }) ||
		slices.ContainsFunc(c.Expect.Metrics, func(x MetricCheck) bool { return about(x.Process) })
}

// needsControllers reports whether a cluster needs kube-controller-manager:
// when an event deletes what the garbage collector or the namespace controller
// would look at.
func (c *Case) needsControllers(id string) bool {
	if c.Layer != "sync" {
		return false
	}
	for _, e := range c.Events {
		if e.Cluster != id || e.Do != "delete" {
			continue
		}
		for _, ref := range e.Refs {
			if kind, _ := splitRef(ref); kind == "Namespace" || kind == "ServiceImport" {
				return true
			}
		}
	}
	return false
}

func newWorld(c *Case, bed *kubetest.Bed, members map[string]*member) (*world, error) {
	dir := filepath.Join(bed.Dir(), "cases", c.ID)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("make folder of the case: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the case: %w", err)
	}
	return &world{
		c: c, bed: bed, dir: dir, members: members, begin: time.Now(),
		refused: map[string]map[string]*refusal{}, syncds: map[string]*syncdProcess{},
		marks: map[int]time.Time{}, scrapes: map[int]*page{}, snapshots: map[string][]snapshot{},
		serials: map[string]uint32{}, changed: map[*member]bool{}, tokens: map[string][][]byte{},
	}, nil
}

// member is a cluster of the case.
func (w *world) member(id string) (*member, error) {
	m, ok := w.members[id]
	if !ok {
		return nil, fmt.Errorf("the case has no cluster %q", id)
	}
	return m, nil
}

// stopGrace is how long a process has to end by itself.
const stopGrace = 10 * time.Second

// close ends the processes of the case.
func (w *world) close(ctx context.Context) error {
	if w.stopAsk != nil {
		w.stopAsk()
	}
	w.asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	var errs []error
	var all sync.WaitGroup
	for _, p := range w.processes() {
		all.Go(func() { _ = p.Kill() }) // nothing is asked of it any more
	}
	all.Wait()
	if w.stub != nil {
		w.stub.close()
	}
	for _, way := range w.ways {
		way.link.Close()
		if way.proxy != nil {
			way.proxy.Close()
		}
	}
	errs = append(errs, ctx.Err())
	return errors.Join(errs...)
}

func (w *world) processes() []*kubetest.Process {
	var list []*kubetest.Process
	if w.dns != nil {
		list = append(list, w.dns.Process)
	}
	for _, s := range w.syncds {
		list = append(list, s.Process)
	}
	return list
}

// way is how a process reaches an API server: over a link that can be cut, and
// through a proxy where the case needs one.
type way struct {
	from, to string // cluster ids
	link     *kubetest.Link
	proxy    *tamper.Proxy // nil if nothing is altered
	blocks   []*tamper.Added
}

// route makes a way and the kubeconfig that leads along it.
func (w *world) route(from, to, user string) (*way, []byte, error) {
	m, err := w.member(to)
	if err != nil {
		return nil, nil, err
	}
	kubeconfig, err := m.UserKubeconfig(user, group)
	if err != nil {
		return nil, nil, err
	}
	link, err := m.NewLink()
	if err != nil {
		return nil, nil, err
	}
	r := &way{from: from, to: to, link: link}
	w.ways = append(w.ways, r)
	if to == home && w.c.Config.APIAtStart == "unreachable" {
		link.Cut()
	}
	if kubeconfig, err = link.Kubeconfig(kubeconfig); err != nil {
		return nil, nil, err
	}
	if !w.altered(to) {
		return r, kubeconfig, nil
	}
	r.proxy = tamper.New()
	for _, o := range w.refused[to] {
		r.show(o)
	}
	if kubeconfig, err = r.proxy.Kubeconfig(kubeconfig); err != nil {
		return nil, nil, err
	}
	return r, kubeconfig, nil
}

// altered reports whether what an API server says has to be altered on the way.
func (w *world) altered(cluster string) bool {
	if len(w.refused[cluster]) > 0 || len(w.c.Config.APIBlock) > 0 {
		return true
	}
	return slices.ContainsFunc(w.c.Events, func(e Event) bool { return e.Cluster == cluster && e.ExpireWatches })
}

// to are the ways that end at a cluster's API server.
func (w *world) to(cluster string) []*way {
	var list []*way
	for _, r := range w.ways {
		if r.to == cluster {
			list = append(list, r)
		}
	}
	return list
}

// writeFile writes a file of the case and returns its path.
func (w *world) writeFile(name string, content []byte) (string, error) {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}
