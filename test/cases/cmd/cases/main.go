// Command cases runs a folder of case files (test/cases/SCHEMA.md) on real
// control planes and prints "N passed, N failed, N skipped" last.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/cases/caserun"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (failed bool, err error) {
	flags := flag.NewFlagSet("cases", flag.ContinueOnError)
	clusters := flags.Int("clusters", 0, "how many control planes may run at a time; 0 means as many as the machine runs well")
	only := flags.String("run", "", "run the cases with these ids only, with commas between")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() != 1 {
		return false, fmt.Errorf("%d arguments: want the folder of the case files", flags.NArg())
	}
	cases, err := caserun.ReadDir(flags.Arg(0))
	if err != nil {
		return false, err
	}
	if *only != "" {
		var kept []*caserun.Case
		for _, c := range cases {
			if strings.Contains(","+*only+",", ","+c.ID+",") {
				kept = append(kept, c)
			}
		}
		cases = kept
	}
	if *clusters == 0 {
		*clusters = caserun.DefaultClusters(availableMemory())
	}
	bed, err := kubetest.NewBed(ctx, io.Discard)
	if err != nil {
		return false, err
	}
	defer func() {
		if closeErr := bed.Close(); err == nil {
			err = closeErr
		}
	}()
	begin := time.Now()
	fmt.Fprintf(out, "%d cases on %d control planes at a time\n", len(cases), *clusters)
	runner := &caserun.Runner{Bed: bed, Clusters: *clusters, Out: out}
	results, err := runner.Run(ctx, cases)
	if err != nil {
		return false, err
	}
	return caserun.Summary(out, results, time.Since(begin)), nil
}

// availableMemory is what the machine could give to new processes, in bytes.
func availableMemory() uint64 {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var kib uint64
		if n, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 && err == nil {
			return kib << 10
		}
	}
	return 0
}
