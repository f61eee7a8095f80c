package caserun

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// checks makes the checks of everything outside DNS.
func (e *Expect) checks(c *Case) []check {
	var list []check
	add := func(line int, what string, after int, within time.Duration, eval evalFunc, inverted ...inversion) {
		list = append(list, check{line: line, what: what, after: after, within: within, eval: eval, inverted: inverted})
	}
	for _, o := range e.Objects {
		add(o.Line, "objects", c.stepOf(o.After), withinOf(o.Within), o.eval, o.inversions()...)
	}
	for _, o := range e.Conditions {
		add(o.Line, "conditions", c.stepOf(o.After), withinOf(o.Within), o.eval, o.inversions()...)
		list[len(list)-1].gap = gapOf("conditions.type=" + o.Type)
	}
	for _, o := range e.LocalEndpoints {
		add(o.Line, "local_endpoints", c.stepOf(o.After), defaultWithin, o.eval, o.inversions()...)
	}
	for _, o := range e.Consistent {
		not := o
		not.inverted = true
		add(o.Line, "consistent", c.stepOf(o.After), defaultWithin, o.eval, inversion{"consistent", not.eval})
	}
	for _, o := range e.HTTP {
		not := o
		not.Status = 418
		add(o.Line, "http", c.stepOf(o.After), defaultWithin, o.eval, inversion{"http.status", not.eval})
	}
	for _, o := range e.Metrics {
		add(o.Line, "metrics", c.stepOf(o.After), defaultWithin, o.eval, o.inversions()...)
	}
	for _, o := range e.SameEverywhere {
		not := o
		not.inverted, not.StableFor = true, 0
		add(o.Line, "same_everywhere", c.stepOf(o.After), defaultWithin+withinOf(o.StableFor), o.eval, inversion{"same_everywhere", not.eval})
	}
	for _, o := range e.Unchanged {
		not := o
		not.inverted = true
		add(o.Line, "unchanged", last, 0, o.eval, inversion{"unchanged", not.eval})
	}
	for _, o := range e.Writes {
		not := o
		not.Max = -1
		add(o.Line, "writes", last, 0, o.eval, inversion{"writes.max", not.eval})
	}
	for _, o := range e.APIRejections {
		not := o
		not.Max = -1
		add(o.Line, "api_rejections", last, 0, o.eval, inversion{"api_rejections.max", not.eval})
	}
	for _, o := range e.Process {
		not := o
		not.Restarts++
		add(o.Line, "process", last, 0, o.eval, inversion{"process.restarts", not.eval})
	}
	for _, o := range e.Logs {
		add(o.Line, "logs", last, defaultWithin, o.eval, o.inversions()...)
	}
	for _, o := range e.Manifests {
		add(o.Line, "manifests", last, 0, o.eval, o.inversions()...)
	}
	for _, o := range e.Latency {
		not := o
		not.MaxSeconds = -1
		add(o.Line, "latency", c.stepOf(o.After), withinOf(o.MaxSeconds), o.eval, inversion{"latency.max_seconds", not.eval})
	}
	if o := e.UpstreamQueries; o != nil {
		not := *o
		not.Max = -1
		add(o.Line, "upstream_queries", last, 0, o.eval, inversion{"upstream_queries.max", not.eval})
	}
	if e.Start == "ok" {
		add(1, "start", last, 0, ProcessCheck{Process: "dns"}.eval)
	}
	return list
}

type evalFunc = func(ctx context.Context, w *world) error

// snapshotSteps are the steps whose state later checks look back at.
func (c *Case) snapshotSteps() []int {
	var steps []int
	for _, o := range c.Expect.Unchanged {
		steps = append(steps, o.Between...)
	}
	for _, o := range c.Expect.Writes {
		steps = append(steps, o.Window...)
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// checkSet compares a set of words without regard to order.
func checkSet(what string, got, want []string) error {
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if got, want = slices.Compact(got), slices.Compact(want); !slices.Equal(got, want) {
		return fmt.Errorf("%s is %q, want %q", what, got, want)
	}
	return nil
}
