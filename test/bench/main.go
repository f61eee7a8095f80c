// Command bench measures mcs-core-dns against CoreDNS's own multicluster on
// one real API server, and judges the figures by the goals in package verdict.
// docs/performance.md says how to read it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // a process begins with a context
	code := 0
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// options of a run.
type options struct {
	rows  *regexp.Regexp
	out   string
	pairs int
	// sample is how long one measurement of CPU per query or of latency takes.
	sample time.Duration
	// changes is how many writes one round of propagation has.
	changes int
	// binary is an mcs-core-dns to measure; empty builds it.
	binary string
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rows := flags.String("rows", "", "regular expression: measure only the rows that match")
	quick := flags.Bool("quick", false, "measure for a shorter time; for a first look, not for a judgement")
	out := flags.String("out", "build/bench.json", "file to write the rows to")
	binary := flags.String("binary", "", "mcs-core-dns to measure (default: build it)")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{out: *out, binary: *binary, pairs: verdict.MinPairs, sample: 400 * time.Millisecond, changes: 50}
	if *quick {
		o.sample, o.changes = 150*time.Millisecond, 10
	}
	var err error
	if o.rows, err = regexp.Compile(*rows); err != nil {
		return options{}, fmt.Errorf("flag -rows: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	goals := selected(o.rows)
	if len(goals) == 0 {
		return fmt.Errorf("flag -rows: no row matches %q", o.rows)
	}
	cpus, err := findProcessors()
	if err != nil {
		return err
	}
	if cpus.first == cpus.all {
		return fmt.Errorf("this process may run on processor %s only: want two, one of them for the servers", cpus.all)
	}
	fmt.Fprintln(out, machine())
	begin := time.Now()
	rows, err := measure(ctx, o, cpus, goals, out)
	if err != nil {
		return err
	}
	if err := writeJSON(o.out, rows); err != nil {
		return err
	}
	printTable(out, rows)
	failures := verdict.Failures(goals, rows)
	for _, failure := range failures {
		fmt.Fprintln(out, "FAILED:", failure)
	}
	fmt.Fprintf(out, "%s after %.0f s, raw numbers in %s\n", verdict.Summary(rows), time.Since(begin).Seconds(), o.out)
	if len(failures) > 0 {
		return fmt.Errorf("%d rows fail", len(failures))
	}
	return nil
}

func selected(rows *regexp.Regexp) []verdict.Goal {
	var goals []verdict.Goal
	for _, g := range verdict.Goals() {
		if rows.MatchString(g.Name) {
			goals = append(goals, g)
		}
	}
	return goals
}
