package verdict

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
)

// pairs makes one from each two numbers.
func pairs(numbers ...float64) []Pair {
	var list []Pair
	for p := range slices.Chunk(numbers, 2) {
		list = append(list, Pair{p[0], p[1]})
	}
	return list
}

func TestJudge(t *testing.T) {
	half := Goal{Name: "a", Goal: 0.5}
	for name, c := range map[string]struct {
		goal    Goal
		pairs   []Pair
		ok      bool
		ratio   float64
		spread  float64
		void    string // part of it
		failure string // part of it
	}{
		"the median of the ratios, not the ratio of the medians": {
			goal: half, pairs: pairs(1, 10, 2, 10, 3, 10, 40, 10, 4, 10), ok: true, ratio: 0.3, spread: 13,
		},
		"the goal itself is reached": {
			goal: half, pairs: pairs(5, 10, 5, 10, 5, 10, 5, 10, 5, 10), ok: true, ratio: 0.5,
		},
		"over the goal is not ok, and no failure up to twice of it": {
			goal: half, pairs: pairs(10, 10, 10, 10, 10, 10, 10, 10, 10, 10), ratio: 1,
		},
		"over twice the goal is a failure": {
			goal: half, pairs: pairs(11, 10, 11, 10, 11, 10, 11, 10, 11, 10), ratio: 1.1, failure: "a has a ratio of 1.1: want at most 0.5",
		},
		"the mean of the middle two of an even number": {
			goal: half, pairs: pairs(1, 10, 2, 10, 3, 10, 4, 10, 5, 10, 6, 10), ok: true, ratio: 0.35, spread: 0.5 / 0.35,
		},
		"a bound takes the place of stock": {
			goal: Goal{Name: "a", Goal: 1, Bound: 100}, pairs: pairs(80, 1, 80, 1, 80, 1, 80, 1, 80, 1), ok: true, ratio: 0.8,
		},
		"less than nothing is fine under a bound": {
			goal: Goal{Name: "a", Goal: 1, Bound: 4}, pairs: pairs(-1, 1, -1, 1, -1, 1, -1, 1, -1, 1), ok: true, ratio: -0.25,
		},
		"an exact value needs one round, and has to reach its goal": {
			goal: Goal{Name: "a", Unit: "allocations", Goal: 1, Bound: 6, Exact: true}, pairs: pairs(7, 35), ratio: 7. / 6,
			failure: "a is 7 allocations: want at most 6",
		},
		"an exact value at its goal": {
			goal: Goal{Name: "a", Goal: 1, Bound: 6, Exact: true}, pairs: pairs(6, 35), ok: true, ratio: 1,
		},
		"four rounds are too few":   {goal: half, pairs: pairs(1, 10, 1, 10, 1, 10, 1, 10), void: "4 rounds: want 5", failure: "a is void: 4 rounds"},
		"no round is too few":       {goal: Goal{Name: "a", Exact: true}, void: "0 rounds", failure: "a is void"},
		"against nothing is void":   {goal: half, pairs: pairs(1, 10, 1, 0, 1, 10, 1, 10, 1, 10), void: "1 against 0 is no ratio", failure: "void"},
		"not a number is void":      {goal: half, pairs: pairs(math.NaN(), 10, 1, 10, 1, 10, 1, 10, 1, 10), void: "no ratio", failure: "void"},
		"an endless number is void": {goal: half, pairs: pairs(math.Inf(1), 10, 1, 10, 1, 10, 1, 10, 1, 10), void: "no ratio", failure: "void"},
	} {
		t.Run(name, func(t *testing.T) {
			row := c.goal.Judge(c.pairs)
			if row.OK != c.ok || (row.Void == "") != (c.void == "") || !strings.Contains(row.Void, c.void) {
				t.Errorf("ok %t, void %q: want %t and %q", row.OK, row.Void, c.ok, c.void)
			}
			if c.void == "" && (math.Abs(row.Ratio-c.ratio) > 1e-9 || math.Abs(row.Spread-c.spread) > 1e-9) {
				t.Errorf("ratio %v, spread %v: want %v and %v", row.Ratio, row.Spread, c.ratio, c.spread)
			}
			if _, err := json.Marshal(row); err != nil {
				t.Error(err)
			}
			if failure := row.Failure(); (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) {
				t.Errorf("failure %q: want %q", failure, c.failure)
			}
		})
	}
}

func TestOursAndStockAreMedians(t *testing.T) {
	row := (&Goal{Goal: 1}).Judge(pairs(1, 50, 5, 10, 3, 30, 2, 40, 4, 20))
	if row.Ours != 3 || row.Stock != 30 {
		t.Errorf("ours %v, stock %v: want 3 and 30", row.Ours, row.Stock)
	}
}

func TestARunHasEveryRowOnceAndNoOther(t *testing.T) {
	goals := []Goal{{Name: "a", Goal: 1}, {Name: "b", Goal: 1}}
	good := pairs(1, 2, 1, 2, 1, 2, 1, 2, 1, 2)
	a, b, c := goals[0].Judge(good), goals[1].Judge(good), (&Goal{Name: "c", Goal: 1}).Judge(good)
	for name, test := range map[string]struct {
		rows []Row
		want []string
	}{
		"all of them":        {[]Row{b, a}, nil},
		"one is missing":     {[]Row{a}, []string{"b was not measured"}},
		"one is there twice": {[]Row{a, b, a}, []string{"a is there more than once"}},
		"one more":           {[]Row{a, b, c}, []string{"c is not on the list of goals"}},
		"a void one":         {[]Row{a, goals[1].Void("it rains")}, []string{"b is void: it rains"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Failures(goals, test.rows); !slices.Equal(got, test.want) {
				t.Errorf("failures %q, want %q", got, test.want)
			}
		})
	}
}

func TestSummaryCountsRowsAtTheirGoals(t *testing.T) {
	goal := Goal{Goal: 0.5}
	rows := []Row{
		goal.Judge(pairs(1, 10, 1, 10, 1, 10, 1, 10, 1, 10)),
		goal.Judge(pairs(6, 10, 6, 10, 6, 10, 6, 10, 6, 10)),
		goal.Void("no answer"),
	}
	if got := Summary(rows); got != "1 of 3 rows ok" {
		t.Errorf("summary %q", got)
	}
}

func TestEveryGoalCanBeMissed(t *testing.T) {
	names := map[string]bool{}
	for _, g := range Goals() {
		if names[g.Name] {
			t.Errorf("%s is on the list twice", g.Name)
		}
		names[g.Name] = true
		if g.Stretch <= 0 || g.Stretch >= g.Goal || g.Unit == "" || g.Against == "" || (g.Bound == 0) == (g.Against == Bound) {
			t.Errorf("%+v: want a stretch below the goal, a unit, and a bound or something measured", g)
		}
		base := cmp.Or(g.Bound, 1)
		at, over := g.Goal*base, 2.1*g.Goal*base
		if row := g.Judge(pairs(at, base, at, base, at, base, at, base, at, base)); !row.OK || row.Failure() != "" {
			t.Errorf("%s at its goal: %+v", g.Name, row)
		}
		if row := g.Judge(pairs(over, base, over, base, over, base, over, base, over, base)); row.OK || row.Failure() == "" {
			t.Errorf("%s far over its goal: %+v", g.Name, row)
		}
	}
	for _, want := range []string{
		"plugin/cip-a/L", "plugin/hl250-a-tc/S", "gke/small/M", "own/mixed/L", "floor/cip-a/L", "allocs/hl250-srv/S", "growth/cip-a/L",
		"p99/mixed/L", "rss/L", "heap-per-endpoint/L", "start/L", "propagation-p99-churn/L", "change-cpu/L",
	} {
		if !names[want] {
			t.Errorf("%s is not on the list", want)
		}
	}
	for _, size := range data.Sizes {
		if !names[Name("plugin", data.CIPA, size)] {
			t.Errorf("no row of size %s", size)
		}
	}
}
