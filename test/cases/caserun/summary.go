package caserun

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Summary prints what was skipped and what failed, and a line of numbers last.
// It reports whether a case failed.
func Summary(out io.Writer, results []Result, took time.Duration) (failed bool) {
	count := map[Outcome]int{Passed: 0, Failed: 0, Skipped: 0}
	inverted := map[string]int{}
	for _, r := range results {
		count[r.Outcome]++
		for _, kind := range r.Inverted {
			inverted[kind]++
		}
	}
	fmt.Fprintf(out, "\nexpectations that were inverted, and failed as they must:")
	for _, kind := range slices.Sorted(maps.Keys(inverted)) {
		fmt.Fprintf(out, " %s=%d", kind, inverted[kind])
	}
	fmt.Fprintf(out, "\n\n")
	for _, outcome := range []Outcome{Skipped, Failed} {
		for _, r := range results {
			if r.Outcome == outcome {
				fmt.Fprintf(out, "%s %s (%s): %s\n  %s\n", r.Case.ID, outcome, r.Case.Layer, r.Case.Title, r.Why)
			}
		}
	}
	fmt.Fprintf(out, "\n%.0f seconds\n%d passed, %d failed, %d skipped\n", took.Seconds(), count[Passed], count[Failed], count[Skipped])
	return count[Failed] > 0
}
