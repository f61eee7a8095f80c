package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
	"github.com/k8s-mcs/k8s-mcs/test/bench/load"
	"github.com/k8s-mcs/k8s-mcs/test/bench/server"
	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
)

const (
	// churnRate is how many slices change per second besides the one that is watched.
	churnRate = 50
	// gap is the pause between two changes of the one that is watched.
	gap = 20 * time.Millisecond
	// changeTime is how long a change may take until it is seen.
	changeTime = 30 * time.Second
)

// addresses gives addresses that no endpoint has had before, so that services
// keep their number of different ones. It is safe for concurrent use.
type addresses struct{ last atomic.Int64 }

func (a *addresses) next() string {
	n := a.last.Add(1)
	return fmt.Sprintf("11.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// churn changes slices at random, but never those of the probe, until the
// returned function is called, which tells how many it changed.
func (b *bench) churn(ctx context.Context) (stop func() (changes int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	others := slices.DeleteFunc(slices.Clone(b.set.Services), func(s *data.Service) bool { return s == b.probe() })
	pick := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same choice in every run
	changes, done := 0, make(chan error, 1)
	go func() {
		ticker := time.NewTicker(time.Second / churnRate)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-ticker.C:
			}
			s := others[pick.IntN(len(others))]
			slice := pick.IntN(len(s.Slices))
			err := b.writer.SetAddress(ctx, s, slice, pick.IntN(len(s.Slices[slice].Endpoints)), b.fresh.next())
			if err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			if err == nil {
				changes++
			}
		}
	}()
	return func() (int, error) {
		cancel()
		err := <-done
		return changes, err
	}
}

// probe is the service whose changes are timed.
func (b *bench) probe() *data.Service { return b.set.Of(data.Headless3)[0] }

// changeCPU measures a server's CPU per change of a slice, beyond what it uses
// when nothing happens. Both servers see the same changes.
func (b *bench) changeCPU(ctx context.Context, ours, stock *server.Server) error {
	goal, ok := b.goal("change-cpu", "")
	if !ok {
		return nil
	}
	window := 8 * b.sample
	var pairs []verdict.Pair
	for range b.pairs {
		idle, err := used(ctx, window, ours, stock)
		if err != nil {
			return err
		}
		stop := b.churn(ctx)
		busy, err := used(ctx, window, ours, stock)
		changes, err2 := stop()
		if err := errors.Join(err, err2); err != nil || changes == 0 {
			return b.judge(ctx, goal, nil, errors.Join(err, fmt.Errorf("%d changes", changes)))
		}
		pairs = append(pairs, verdict.Pair{
			Ours:  micros(busy[0]-idle[0]) / float64(changes),
			Stock: micros(busy[1]-idle[1]) / float64(changes),
		})
	}
	return b.judge(ctx, goal, pairs, nil)
}

// used is the CPU time that servers use in a window.
func used(ctx context.Context, window time.Duration, servers ...*server.Server) ([]time.Duration, error) {
	read := func() ([]time.Duration, error) {
		var times []time.Duration
		for _, s := range servers {
			t, err := s.CPU()
			if err != nil {
				return nil, err
			}
			times = append(times, t)
		}
		return times, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(window):
	}
	after, err := read()
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i] -= before[i]
	}
	return after, nil
}

// propagation measures from when a plain watch shows a changed slice until DNS
// answers with it.
func (b *bench) propagation(ctx context.Context, ours, stock *server.Server) error {
	for _, state := range []string{"idle", "churn"} {
		p50, wants50 := b.goal("propagation-p50-"+state, "")
		p99, wants99 := b.goal("propagation-p99-"+state, "")
		if !wants50 && !wants99 {
			continue
		}
		var fast, slow []verdict.Pair
		stop := func() (int, error) { return 0, nil }
		if state == "churn" {
			stop = b.churn(ctx)
		}
		err := func() error {
			for i := range b.pairs + 1 {
				a, err := b.delays(ctx, ours, stock)
				if err != nil {
					return fmt.Errorf("ours: %w", err)
				}
				s, err := b.delays(ctx, stock, ours)
				if err != nil {
					return fmt.Errorf("stock: %w", err)
				}
				if i > 0 {
					fast = append(fast, verdict.Pair{Ours: quantile(a, 0.5), Stock: quantile(s, 0.5)})
					slow = append(slow, verdict.Pair{Ours: quantile(a, 0.99), Stock: quantile(s, 0.99)})
				}
			}
			return nil
		}()
		_, churnErr := stop()
		err = errors.Join(err, churnErr)
		if wants50 {
			if err := b.judge(ctx, p50, fast, err); err != nil {
				return err
			}
		}
		if wants99 {
			if err := b.judge(ctx, p99, slow, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// quantile is in milliseconds; the list is sorted.
func quantile(sorted []time.Duration, q float64) float64 {
	return micros(sorted[int(q*float64(len(sorted)-1)+0.5)]) / 1000
}

// delays makes one round of changes while the other server stands still, which
// would take processor time for the same changes.
func (b *bench) delays(ctx context.Context, s, other *server.Server) ([]time.Duration, error) {
	if err := syscall.Kill(other.Pid(), syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop %s: %w", other.Name, err)
	}
	defer func() { _ = syscall.Kill(other.Pid(), syscall.SIGCONT) }() // a server that is gone fails the next round
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := b.watchProbe(ctx)
	if err != nil {
		return nil, err
	}
	var delays []time.Duration
	for range b.changes {
		d, err := b.delay(ctx, s, seen)
		if err != nil {
			return nil, err
		}
		delays = append(delays, d)
		time.Sleep(gap)
	}
	slices.Sort(delays)
	return delays, nil
}

// sighting is when an address was first seen.
type sighting struct {
	address string
	at      time.Time
}

// watchProbe follows the EndpointSlices as a program with a plain watch does.
func (b *bench) watchProbe(ctx context.Context) (<-chan sighting, error) {
	probe := b.probe()
	all := b.writer.Kube().DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	now, err := all.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	// From now on: without a version, every slice would come first.
	w, err := all.Watch(ctx, metav1.ListOptions{LabelSelector: data.SliceSelector, ResourceVersion: now.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watch EndpointSlices: %w", err)
	}
	seen := make(chan sighting, 1000)
	go func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok || slice.Namespace != probe.Namespace || slice.Name != probe.Slices[0].Name {
				continue
			}
			select {
			case seen <- sighting{slice.Endpoints[0].Addresses[0], time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return seen, nil
}

// delay changes the probe once.
func (b *bench) delay(ctx context.Context, s *server.Server, seen <-chan sighting) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	address := b.fresh.next()
	var answered time.Time
	var askErr error
	var wait sync.WaitGroup
	wait.Go(func() { answered, askErr = load.Await(ctx, s.Addr, b.probe().FQDN(), dns.TypeA, address) })
	err := b.writer.SetAddress(ctx, b.probe(), 0, 0, address)
	if err != nil {
		cancel()
	}
	wait.Wait()
	if err := errors.Join(err, askErr); err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the watch does not show %s: %w", address, context.Cause(ctx))
		case at := <-seen:
			if at.address == address {
				return answered.Sub(at.at), nil
			}
		}
	}
}
