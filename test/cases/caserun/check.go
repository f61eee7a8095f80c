package caserun

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// defaultWithin is how long a check may take to come true.
	defaultWithin = 10 * time.Second
	// pollPause is between two looks.
	pollPause = 50 * time.Millisecond
	// confirmAfter is when all checks of a step are looked at once more: what
	// was right only because nothing had happened yet is wrong by then.
	confirmAfter = 250 * time.Millisecond
)

// check is one expectation.
type check struct {
	line   int
	what   string // for messages
	after  int    // step; last means the end of the case
	within time.Duration
	eval   func(ctx context.Context, w *world) error // nil if it holds
	gap    string                                    // what the product does not do yet, see gaps
	// inverted is the same check with one thing in it turned into its opposite,
	// in each way that there is.
	inverted []inversion
}

// inversion is a check that has to fail where the original holds.
type inversion struct {
	kind string // which key was inverted: "answer", "conditions.status"
	eval func(ctx context.Context, w *world) error
}

// last is the step of checks that are about the whole case.
const last = -1

func withinOf(seconds float64) time.Duration {
	if seconds > 0 {
		return time.Duration(seconds * float64(time.Second))
	}
	return defaultWithin
}

// checks are all expectations of a case.
func (c *Case) checks() []check {
	var list []check
	for i := range c.Queries {
		list = append(list, c.Queries[i].check())
	}
	return append(list, c.Expect.checks(c)...)
}

// lastStep is the number of the last step.
func (c *Case) lastStep() int {
	n := 0
	for _, e := range c.Events {
		n = max(n, e.Step)
	}
	return n
}

// stepOf is the step after which a check is due that may not say so.
func (c *Case) stepOf(after *int) int {
	if after == nil {
		return c.lastStep()
	}
	return *after
}

// hold waits until all checks hold at the same time, and still do a moment
// later.
func (w *world) hold(ctx context.Context, checks []check) error {
	if len(checks) == 0 {
		return nil
	}
	begin := time.Now()
	seen := make([]bool, len(checks)) // whether it has held once
	confirmed := false
	longest := time.Duration(0)
	for _, c := range checks {
		longest = max(longest, c.within)
	}
	for {
		round := time.Now()
		var errs []error
		for i, c := range checks {
			asked := time.Now()
			err := c.eval(ctx, w)
			if skip := (*SkipError)(nil); errors.As(err, &skip) {
				return err
			}
			switch {
			case err == nil:
				seen[i] = true
			case !seen[i] && asked.Sub(begin) > c.within:
				return w.failed(c, fmt.Errorf("not within %v: %w", c.within, err))
			default:
				errs = append(errs, w.failed(c, err))
			}
		}
		switch {
		case len(errs) == 0 && confirmed:
			return nil
		case len(errs) > 0 && time.Since(begin) > longest+defaultWithin:
			return fmt.Errorf("never all at the same time: %w", errors.Join(errs...))
		}
		confirmed = len(errs) == 0
		if confirmed && time.Since(round) > 10*confirmAfter {
			return nil // one of them has looked for long
		}
		pause := pollPause
		if confirmed {
			pause = confirmAfter
		}
		if err := sleep(ctx, pause); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
}

func (w *world) failed(c check, err error) error {
	err = fmt.Errorf("%s:%d: %s: %w", w.c.File, c.line, c.what, err)
	if c.gap != "" {
		return &gapError{c.gap, err}
	}
	return err
}
