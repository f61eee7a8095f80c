package caserun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// Outcome is how a case ended.
type Outcome int

// The outcomes.
const (
	Passed Outcome = iota + 1
	Failed
	Skipped
)

// String implements fmt.Stringer.
func (o Outcome) String() string {
	switch o {
	case Passed:
		return "passed"
	case Failed:
		return "FAILED"
	case Skipped:
		return "skipped"
	default:
		return "unknown"
	}
}

// Result is one case's outcome.
type Result struct {
	Case    *Case
	Outcome Outcome
	// Why is the reason of a skip, or what failed with file and line.
	Why string
	// Inverted lists the expectations that were inverted after they had held;
	// all of them failed in a case that passed.
	Inverted []string
	Took     time.Duration
}

// Runner runs cases.
type Runner struct {
	Bed *kubetest.Bed
	// Clusters is how many control planes may run at a time.
	Clusters int
	// Out gets a line for each case as it ends.
	Out io.Writer

	mu sync.Mutex
}

// memoryEach is what a control plane needs, in bytes, with the processes on it.
const memoryEach = 350 << 20

// DefaultClusters is how many control planes this machine runs well: as many
// as four fifths of the memory hold, and five for each processor, for most of a
// case's time is waiting.
func DefaultClusters(available uint64) int {
	byMemory := int(available / 5 * 4 / memoryEach) //nolint:gosec // a few hundred at most
	return max(3, min(byMemory, 5*runtime.NumCPU()))
}

// Run runs cases, the long ones first, and returns the results in the order of
// the cases. An error is about the runner itself.
func (r *Runner) Run(ctx context.Context, cases []*Case) ([]Result, error) {
	results := make([]Result, len(cases))
	order := make([]int, 0, len(cases))
	for i, c := range cases {
		if len(c.Skips) > 0 {
			results[i] = Result{Case: c, Outcome: Skipped, Why: c.Skips[0]}
			r.report(results[i])
			continue
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(cases[b].waits(), cases[a].waits()), cmp.Compare(len(cases[b].clusterIDs()), len(cases[a].clusterIDs())))
	})
	pool := newPool(r.Bed, r.Clusters)
	var (
		all  sync.WaitGroup
		errs []error
	)
	for _, i := range order {
		c := cases[i]
		ids := c.clusterIDs()
		// Those with controllers come first, as the pool gives them.
		slices.SortStableFunc(ids, func(a, b string) int {
			return cmp.Compare(bit(c.needsControllers(b)), bit(c.needsControllers(a)))
		})
		controllers := len(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !c.needsControllers(id) }))
		members, err := pool.take(ctx, len(ids), controllers)
		if err != nil {
			errs = append(errs, err)
			break
		}
		all.Go(func() {
			named := map[string]*member{}
			for n, id := range ids {
				named[id] = members[n]
			}
			result, changed := runOne(ctx, r.Bed, c, named)
			if err := pool.put(ctx, members, changed); err != nil {
				// The control planes are gone; what the case has shown stays true.
				r.printf("after %s: %v\n", c.ID, err)
			}
			results[i] = result
			r.report(result)
		})
	}
	all.Wait()
	return results, errors.Join(errs...)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// generatedPerSecond is about how many objects come to be in a second.
const generatedPerSecond = 100

// waits is for how many seconds a case needs at least, much of it waiting.
func (c *Case) waits() float64 {
	sum := 0.0
	for _, e := range c.Events {
		if e.Do == "wait" {
			sum += e.Seconds
		}
	}
	for _, g := range c.Generate {
		sum += float64(g.Count*max(1, g.SlicesEach)) / generatedPerSecond
	}
	for _, o := range c.Expect.SameEverywhere {
		sum += o.StableFor
	}
	return sum
}

func (r *Runner) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Out, format, args...)
}

func (r *Runner) report(result Result) {
	switch c := result.Case; result.Outcome {
	case Passed:
		r.printf("%s passed in %.1f s, and failed with each of %d expectations inverted\n", c.ID, result.Took.Seconds(), len(result.Inverted))
	case Skipped:
		r.printf("%s skipped: %s\n", c.ID, result.Why)
	case Failed:
		r.printf("%s FAILED in %.1f s: %s\n  %s\n", c.ID, result.Took.Seconds(), c.Title, result.Why)
	default:
	}
}

// caseTimeout bounds a case beyond what it waits for.
const caseTimeout = 5 * time.Minute

// runOne runs one case in clusters with nothing in them.
func runOne(ctx context.Context, bed *kubetest.Bed, c *Case, members map[string]*member) (Result, map[*member]bool) {
	begin := time.Now()
	result := Result{Case: c, Outcome: Passed}
	limited, cancel := context.WithTimeout(ctx, caseTimeout+time.Duration(c.waits()*float64(time.Second)))
	defer cancel()
	w, err := newWorld(c, bed, members)
	if err == nil {
		result.Inverted, err = w.run(limited)
		err = c.throughGaps(err)
		_ = w.close(ctx) // what a case leaves does not change what it has shown
	}
	result.Took = time.Since(begin)
	skip := (*SkipError)(nil)
	switch {
	case errors.As(err, &skip):
		result.Outcome, result.Why = Skipped, skip.Reason
	case err != nil:
		result.Outcome, result.Why = Failed, err.Error()
	}
	if w == nil {
		return result, nil
	}
	return result, w.changed
}

// run goes through the steps of the case.
func (w *world) run(ctx context.Context) ([]string, error) {
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	checks := w.c.checks()
	known := map[int]bool{0: true, last: true}
	for _, e := range w.c.Events {
		known[e.Step] = true
	}
	for _, c := range checks {
		if !known[c.after] {
			return nil, w.failed(c, fmt.Errorf("there is no step %d", c.after))
		}
	}
	var inverted []string
	step := func(n int) error {
		names, err := w.checkStep(ctx, checks, n)
		inverted = append(inverted, names...)
		return err
	}
	if err := step(0); err != nil {
		return nil, err
	}
	events := slices.Clone(w.c.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Step, b.Step) })
	for i, e := range events {
		if err := verbs[e.Do].run(ctx, w, e); err != nil {
			return nil, fmt.Errorf("%s:%d: step %d: %s: %w", w.c.File, e.Line, e.Step, e.Do, err)
		}
		if i+1 < len(events) && events[i+1].Step == e.Step {
			continue
		}
		if err := step(e.Step); err != nil {
			return nil, err
		}
	}
	return inverted, step(last)
}

// start loads the state and starts the processes.
func (w *world) start(ctx context.Context) error {
	for i, v := range w.c.Config.CorefileVariants {
		if err := w.corefileVariant(ctx, i, v); err != nil {
			return fmt.Errorf("%s:%d: variant %d: %w", w.c.File, v.Line, i, err)
		}
	}
	for i, v := range w.c.Config.SyncdVariants {
		if err := w.syncdVariant(ctx, i, v); err != nil {
			return fmt.Errorf("%s:%d: variant %d: %w", w.c.File, v.Line, i, err)
		}
	}
	if err := w.load(ctx); err != nil {
		return err
	}
	if err := w.denyAtStart(ctx); err != nil {
		return err
	}
	if err := w.crdsAtStart(ctx); err != nil {
		return err
	}
	if w.c.Layer == "sync" {
		if err := w.startSyncds(ctx); err != nil {
			return err
		}
	}
	if w.c.needsDNS() {
		if err := w.startDNS(ctx, home); err != nil {
			return err
		}
	}
	// Without a question that says so, nobody knows when syncd has done its part.
	if w.c.Layer == "sync" {
		return w.settle(ctx, defaultSettle)
	}
	return nil
}

// checkStep holds the checks of a step, looks at each with one thing inverted,
// and notes what later checks look back at.
func (w *world) checkStep(ctx context.Context, all []check, step int) ([]string, error) {
	var due []check
	for _, c := range all {
		if c.after == step {
			due = append(due, c)
		}
	}
	if err := w.hold(ctx, due); err != nil {
		return nil, err
	}
	if slices.Contains(w.c.snapshotSteps(), step) {
		if err := w.settle(ctx, defaultSettle); err != nil {
			return nil, err
		}
	}
	if err := w.remember(ctx, step); err != nil {
		return nil, err
	}
	if w.dns != nil && slices.ContainsFunc(w.c.Expect.Metrics, func(m MetricCheck) bool { return m.Process == "dns" }) {
		p, err := w.scrape(ctx, "dns", w.dns.cluster)
		if err != nil {
			return nil, err
		}
		w.scrapes[step] = p
	}
	w.marks[step] = time.Now()
	var names []string
	for _, c := range due {
		for _, inv := range c.inverted {
			if err := inv.eval(ctx, w); err == nil {
				return nil, w.failed(c, fmt.Errorf("the runner is wrong: it also passes with %s inverted", inv.kind))
			}
			names = append(names, inv.kind)
		}
	}
	return names, nil
}
