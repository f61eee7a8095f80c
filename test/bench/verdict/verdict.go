// Package verdict holds the goals of the plugin's speed and memory, and judges
// what was measured against them.
package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Goal is one row that has to be measured.
type Goal struct {
	Name string
	// Unit is that of the measured values.
	Unit string
	// Against says what the second value, "stock", is and what ratio is:
	// ours/stock, or with Bound ours/Bound.
	Against Against
	// Goal is the most that the ratio may be; Stretch is what would be better still.
	Goal, Stretch float64
	// Bound is in Unit; 0 means that the ratio is between two measured values.
	Bound float64
	// Exact values do not vary: missing the goal at all is a failure.
	Exact bool
}

// Against is what ours is measured against.
type Against string

// What the second value of a row is.
const (
	Stock   Against = "stock"         // CoreDNS's kubernetes with multicluster
	Floor   Against = "floor"         // a bare miekg/dns server
	Smaller Against = "ours at S"     // the same server with the smaller set
	Bound   Against = "a fixed bound" // stock is there to compare with
)

// Pair is what one round measured, ours and then the other.
type Pair struct{ Ours, Stock float64 }

// Row is the result of one goal, as build/bench.json has it.
type Row struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Against Against `json:"against"`
	// Ours and Stock are medians over the rounds.
	Ours  float64 `json:"ours"`
	Stock float64 `json:"stock"`
	// Ratio is the median of the rounds' ratios.
	Ratio   float64 `json:"ratio"`
	Goal    float64 `json:"goal"`
	Stretch float64 `json:"stretch"`
	Bound   float64 `json:"bound,omitempty"`
	OK      bool    `json:"ok"`
	// Spread is the difference between the greatest and the smallest of the
	// rounds' ratios, as a share of Ratio.
	Spread float64 `json:"spread"`
	// Void says why the row counts for nothing.
	Void string `json:"void,omitempty"`
	// Pairs are the raw numbers.
	Pairs []Pair `json:"pairs"`

	exact bool
}

// MinPairs is how many rounds a row needs.
const MinPairs = 5

// Judge makes the row of a goal. A row with too few pairs, or with a number
// that cannot be, is void.
func (g *Goal) Judge(pairs []Pair) Row {
	row := Row{
		Name: g.Name, Unit: g.Unit, Against: g.Against, Goal: g.Goal, Stretch: g.Stretch, Bound: g.Bound,
		Pairs: pairs, exact: g.Exact,
	}
	if len(pairs) < MinPairs && !g.Exact || len(pairs) == 0 {
		row.Void = fmt.Sprintf("%d rounds: want %d", len(pairs), MinPairs)
		return row
	}
	ratios := make([]float64, 0, len(pairs))
	for _, p := range pairs {
		base := cmp.Or(g.Bound, p.Stock)
		ratio := p.Ours / base
		if base <= 0 || math.IsNaN(ratio) || math.IsInf(ratio, 0) {
			row.Void = fmt.Sprintf("%v against %v is no ratio", p.Ours, base)
			row.Pairs = nil // JSON has no such numbers
			return row
		}
		ratios = append(ratios, ratio)
	}
	row.Ours = median(pairs, func(p Pair) float64 { return p.Ours })
	row.Stock = median(pairs, func(p Pair) float64 { return p.Stock })
	row.Ratio = median(ratios, func(r float64) float64 { return r })
	row.OK = row.Ratio <= g.Goal
	if row.Ratio != 0 {
		row.Spread = (slices.Max(ratios) - slices.Min(ratios)) / math.Abs(row.Ratio)
	}
	return row
}

// Void makes the row of a goal that could not be measured.
func (g *Goal) Void(reason string) Row {
	row := g.Judge(nil)
	row.Void = reason
	return row
}

func median[T any](list []T, value func(T) float64) float64 {
	values := make([]float64, 0, len(list))
	for _, v := range list {
		values = append(values, value(v))
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

// farOff is how many times its goal a ratio may be before it is a failure.
// Between the goal and that, times are for a person to look at.
const farOff = 2

// Failure says why a row fails the run; empty when it does not. A row that is
// not OK need not be a failure.
func (r *Row) Failure() string {
	switch {
	case r.Void != "":
		return r.Name + " is void: " + r.Void
	case r.exact && !r.OK:
		return fmt.Sprintf("%s is %.3g %s: want at most %.3g", r.Name, r.Ours, r.Unit, r.Bound)
	case r.Ratio > farOff*r.Goal:
		return fmt.Sprintf("%s has a ratio of %.3g: want at most %.3g", r.Name, r.Ratio, r.Goal)
	}
	return ""
}

// Failures judges a whole run: the failures of its rows, and each goal without
// a row or with two, and each row without a goal.
func Failures(goals []Goal, rows []Row) []string {
	var failures []string
	count := map[string]int{}
	for i := range rows {
		count[rows[i].Name]++
		if failure := rows[i].Failure(); failure != "" {
			failures = append(failures, failure)
		}
	}
	for i := range goals {
		name := goals[i].Name
		switch count[name] {
		case 0:
			failures = append(failures, name+" was not measured")
		case 1:
		default:
			failures = append(failures, name+" is there more than once")
		}
		delete(count, name)
	}
	for name := range count {
		failures = append(failures, name+" is not on the list of goals")
	}
	slices.Sort(failures)
	return failures
}

// Summary is the last line of a run.
func Summary(rows []Row) string {
	ok := 0
	for i := range rows {
		if rows[i].OK && rows[i].Void == "" {
			ok++
		}
	}
	return fmt.Sprintf("%d of %d rows ok", ok, len(rows))
}
