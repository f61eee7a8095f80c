package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
	"github.com/k8s-mcs/k8s-mcs/test/bench/load"
	"github.com/k8s-mcs/k8s-mcs/test/bench/server"
	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// bench is a run.
type bench struct {
	options
	goals   []verdict.Goal
	rows    []verdict.Row
	out     io.Writer // what happens, line by line
	rig     *server.Rig
	writer  *data.Writer
	cluster *kubetest.Cluster
	cpus    processors
	set     *data.Set // what the API server holds
	fresh   addresses
}

// measure fills an API server with one size after the other, and measures the
// rows of each.
func measure(ctx context.Context, o options, cpus processors, goals []verdict.Goal, out io.Writer) ([]verdict.Row, error) {
	bed, err := kubetest.NewBed(ctx, out)
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	b, err := newBench(ctx, bed, o, cpus, goals, out)
	if err != nil {
		return nil, err
	}
	for _, size := range data.Sizes {
		if !b.wantsFamily("", size) {
			continue
		}
		if err := b.fill(ctx, size); err != nil {
			return nil, err
		}
		if err := b.size(ctx); err != nil {
			return nil, err
		}
	}
	return b.rows, nil
}

// newBench starts an API server with nothing in it.
func newBench(ctx context.Context, bed *kubetest.Bed, o options, cpus processors, goals []verdict.Goal, out io.Writer) (*bench, error) {
	clusters, err := bed.StartClusters(ctx, kubetest.ClusterConfig{Name: "bench"})
	if err != nil {
		return nil, err
	}
	if err := clusters[0].InstallCRDs(ctx); err != nil {
		return nil, err
	}
	b := &bench{options: o, goals: goals, out: out, cluster: clusters[0], cpus: cpus}
	if b.writer, err = data.NewWriter(clusters[0].Config()); err != nil {
		return nil, err
	}
	b.rig, err = server.NewRig(ctx, bed, clusters[0], o.binary, cpus.first)
	return b, err
}

// size measures all rows of the set that is there.
func (b *bench) size(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		b.allocations, b.starts, b.chain(server.GKE), b.chain(server.Own), b.alone,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wantsFamily reports whether a row of a size is asked for whose name begins so.
func (b *bench) wantsFamily(prefix string, size data.Size) bool {
	return slices.ContainsFunc(b.goals, func(g verdict.Goal) bool {
		return strings.HasPrefix(g.Name, prefix) && strings.HasSuffix(g.Name, "/"+string(size))
	})
}

// fill writes what the set of a size has more than the one that is there, with
// all processors: there is no server then.
func (b *bench) fill(ctx context.Context, size data.Size) error {
	busy := append(b.cluster.Pids(), os.Getpid())
	if err := move(ctx, b.cpus.all, busy...); err != nil {
		return err
	}
	begin := time.Now()
	set := data.Build(size)
	namespaces, services := set.Namespaces, set.Services
	if b.set != nil {
		namespaces, services = namespaces[len(b.set.Namespaces):], services[len(b.set.Services):]
	}
	if err := b.writer.Namespaces(ctx, namespaces); err != nil {
		return err
	}
	if err := b.writer.Write(ctx, services); err != nil {
		return err
	}
	b.set = set
	fmt.Fprintf(b.out, "size %s: %d services, %d endpoints, written in %.1f s\n",
		size, len(set.Services), set.Endpoints(), time.Since(begin).Seconds())
	return move(ctx, b.cpus.others, busy...)
}

// goal finds a row that is asked for.
func (b *bench) goal(family string, mix data.Mix) (*verdict.Goal, bool) {
	name := verdict.Name(family, mix, b.set.Size)
	i := slices.IndexFunc(b.goals, func(g verdict.Goal) bool { return g.Name == name })
	if i < 0 {
		return nil, false
	}
	return &b.goals[i], true
}

// mixes lists the mixes of a family's rows that are asked for.
func (b *bench) mixes(family string) []data.Mix {
	var mixes []data.Mix
	for i := range b.goals {
		parts := strings.Split(b.goals[i].Name, "/")
		if len(parts) == 3 && parts[0] == family && parts[2] == string(b.set.Size) {
			mixes = append(mixes, data.Mix(parts[1]))
		}
	}
	return mixes
}

func (b *bench) add(row verdict.Row) {
	b.rows = append(b.rows, row)
	fmt.Fprintf(b.out, "  %-28s %10.4g %10.4g %-10s ratio %.3f (goal %.3g) %s\n", row.Name, row.Ours, row.Stock, row.Unit, row.Ratio, row.Goal, row.Void)
}

// start starts a server and waits until it answers right what is asked for in set.
func (b *bench) start(ctx context.Context, set *data.Set, who server.Who, chain server.Chain, lines ...string) (*server.Server, error) {
	s, err := b.rig.Start(ctx, who, chain, lines...)
	if err != nil {
		return nil, err
	}
	_, err = untilRight(ctx, s, set.Sample(), false)
	return s, err
}

// pair starts ours and stock.
func (b *bench) pair(ctx context.Context, chain server.Chain) (ours, stock *server.Server, stop func(), err error) {
	if ours, err = b.start(ctx, b.set, server.Ours, chain); err != nil {
		return nil, nil, nil, err
	}
	if stock, err = b.start(ctx, b.set, server.Stock, chain); err != nil {
		return nil, nil, nil, err
	}
	return ours, stock, func() { b.kill(ours, stock) }, nil
}

func (b *bench) kill(servers ...*server.Server) {
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			fmt.Fprintln(b.out, "  warning:", err)
		}
	}
}

// chain measures the rows of a chain of plugins.
func (b *bench) chain(chain server.Chain) func(context.Context) error {
	return func(ctx context.Context) error {
		if len(b.mixes(string(chain))) == 0 {
			return nil
		}
		ours, stock, stop, err := b.pair(ctx, chain)
		if err != nil {
			return err
		}
		defer stop()
		return b.queries(ctx, string(chain), ours, stock)
	}
}

// queries measures a family of rows on server CPU per query. Both servers
// have to give the same answers first.
func (b *bench) queries(ctx context.Context, family string, ours, stock *server.Server) error {
	for _, mix := range b.mixes(family) {
		goal, _ := b.goal(family, mix)
		queries := b.set.Queries(mix)
		if family == "growth" {
			queries = data.Build(data.S).Queries(mix)
		}
		if family != "floor" {
			if err := load.Compare(ctx, ours.Addr, stock.Addr, queries); err != nil {
				if ctx.Err() != nil {
					return err
				}
				b.add(goal.Void(err.Error()))
				continue
			}
		}
		pairs, err := b.rounds(
			func() (float64, error) { return b.perQuery(ctx, ours, queries) },
			func() (float64, error) { return b.perQuery(ctx, stock, queries) },
		)
		if err := b.judge(ctx, goal, pairs, err); err != nil {
			return err
		}
	}
	return nil
}

// judge adds a row. What went wrong with the measurement makes it void; only
// the end of ctx ends the run.
func (b *bench) judge(ctx context.Context, goal *verdict.Goal, pairs []verdict.Pair, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case err != nil:
		b.add(goal.Void(err.Error()))
	default:
		b.add(goal.Judge(pairs))
	}
	return nil
}

// rounds measures in alternation. The first round warms up and does not count.
func (b *bench) rounds(ours, stock func() (float64, error)) ([]verdict.Pair, error) {
	var pairs []verdict.Pair
	for i := range b.pairs + 1 {
		a, err := ours()
		if err != nil {
			return nil, fmt.Errorf("ours: %w", err)
		}
		s, err := stock()
		if err != nil {
			return nil, fmt.Errorf("stock: %w", err)
		}
		if i > 0 {
			pairs = append(pairs, verdict.Pair{Ours: a, Stock: s})
		}
	}
	return pairs, nil
}

// warm is how long a server is asked before each measurement.
const warm = 50 * time.Millisecond

// perQuery is a server's CPU per query in microseconds.
func (b *bench) perQuery(ctx context.Context, s *server.Server, queries []data.Query) (float64, error) {
	var begin, end time.Duration
	var errs [2]error
	result, err := load.Run(ctx, s.Addr, queries, load.Options{
		Warm: warm, For: b.sample, AnyAnswer: strings.HasPrefix(s.Name, "floor"),
		Begin: func() { begin, errs[0] = s.CPU() },
		End:   func() { end, errs[1] = s.CPU() },
	})
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return 0, err
	}
	if err := result.Err(); err != nil {
		return 0, err
	}
	return micros(end-begin) / float64(result.Replies), nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// alone measures all that is measured on the plugin alone.
func (b *bench) alone(ctx context.Context) error {
	families := []string{"plugin/", "floor/", "growth/", "p99/", "heap-per-endpoint/", "propagation", "change-cpu/"}
	if !slices.ContainsFunc(families, func(f string) bool { return b.wantsFamily(f, b.set.Size) }) {
		return nil
	}
	ours, stock, stop, err := b.pair(ctx, server.Alone)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.queries(ctx, "plugin", ours, stock); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *server.Server, *server.Server) error{
		b.floor, b.growth, b.p99, b.heap, b.changeCPU, b.propagation,
	} {
		if err := part(ctx, ours, stock); err != nil {
			return err
		}
	}
	return nil
}

// floor measures ours against a bare server.
func (b *bench) floor(ctx context.Context, ours, _ *server.Server) error {
	if len(b.mixes("floor")) == 0 {
		return nil
	}
	floor, err := b.rig.StartFloor(ctx)
	if err != nil {
		return err
	}
	defer b.kill(floor)
	return b.queries(ctx, "floor", ours, floor)
}

// growth measures ours against ours with the smallest set, which is the same
// program beside it that looks at the namespaces of that set only.
func (b *bench) growth(ctx context.Context, ours, _ *server.Server) error {
	if len(b.mixes("growth")) == 0 {
		return nil
	}
	set := data.Build(data.S)
	small, err := b.start(ctx, set, server.Ours, server.Alone, "namespaces "+strings.Join(set.Namespaces, " "))
	if err != nil {
		return err
	}
	defer b.kill(small)
	return b.queries(ctx, "growth", ours, small)
}

// p99 measures the latency that clients see at a fixed rate.
func (b *bench) p99(ctx context.Context, ours, stock *server.Server) error {
	for _, mix := range b.mixes("p99") {
		goal, _ := b.goal("p99", mix)
		queries := b.set.Queries(mix)
		latency := func(s *server.Server) func() (float64, error) {
			return func() (float64, error) {
				result, err := load.Run(ctx, s.Addr, queries, load.Options{Warm: warm, For: 4 * b.sample, Rate: fixedRate})
				if err != nil {
					return 0, err
				}
				return micros(result.Quantile(0.99)), result.Err()
			}
		}
		pairs, err := b.rounds(latency(ours), latency(stock))
		if err := b.judge(ctx, goal, pairs, err); err != nil {
			return err
		}
	}
	return nil
}

// fixedRate is in queries per second.
const fixedRate = 5000

// heap measures what is alive on the heap, per endpoint.
func (b *bench) heap(ctx context.Context, ours, stock *server.Server) error {
	goal, ok := b.goal("heap-per-endpoint", "")
	if !ok {
		return nil
	}
	perEndpoint := func(s *server.Server) func() (float64, error) {
		return func() (float64, error) {
			heap, err := s.Heap(ctx)
			return float64(heap) / float64(b.set.Endpoints()), err
		}
	}
	pairs, err := b.rounds(perEndpoint(ours), perEndpoint(stock))
	return b.judge(ctx, goal, pairs, err)
}
