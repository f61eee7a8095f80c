package verdict

import (
	"slices"
	"strings"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
)

// line is a line of the table of goals, for several names.
type line struct {
	family        string
	mixes         []data.Mix // empty: the family is a row by itself
	sizes         []data.Size
	unit          string
	against       Against
	bound         float64
	goal, stretch float64 // of the ratio, or with bound in the unit
	exact         bool
}

var (
	all   = data.Sizes
	large = []data.Size{data.L}
	// simple are the mixes whose answers have one record or none, and mixed.
	simple = []data.Mix{data.CIPA, data.HostA, data.SRV, data.NXDOMAIN, data.NODATA, data.Mixed}
)

const perQuery = "us/query"

// lines is the table of goals. Where there is a bound, goal and bound are the
// same number, and the ratio's goal is 1.
var lines = []line{
	// Server CPU per query, the plugin alone.
	{family: "plugin", mixes: simple, sizes: all, unit: perQuery, against: Stock, goal: 0.50, stretch: 0.40},
	{family: "plugin", mixes: []data.Mix{data.HL50A}, sizes: all, unit: perQuery, against: Stock, goal: 0.20, stretch: 0.13},
	{family: "plugin", mixes: []data.Mix{data.HL250A, data.HL250ATC}, sizes: all, unit: perQuery, against: Stock, goal: 0.10, stretch: 0.055},
	// The same in the chain of the published GKE Corefile.
	{family: "gke", mixes: []data.Mix{data.Small}, sizes: all, unit: perQuery, against: Stock, goal: 0.65, stretch: 0.58},
	{family: "gke", mixes: []data.Mix{data.HL50A}, sizes: all, unit: perQuery, against: Stock, goal: 0.30, stretch: 0.18},
	{family: "gke", mixes: []data.Mix{data.HL250A}, sizes: all, unit: perQuery, against: Stock, goal: 0.23, stretch: 0.06},
	// Our own Corefile, which has no cache, against stock behind a hot one.
	{
		family: "own", mixes: slices.Concat(simple, []data.Mix{data.HL50A, data.HL250A, data.HL250ATC}), sizes: all,
		unit: perQuery, against: Stock, goal: 0.90, stretch: 0.70,
	},
	{family: "floor", mixes: []data.Mix{data.CIPA}, sizes: all, unit: perQuery, against: Floor, goal: 1.4, stretch: 1.2},
	{
		family: "allocs", mixes: []data.Mix{
			data.CIPA, data.HostA, data.SRV, data.NXDOMAIN, data.NODATA, data.HL3A, data.HL50A, data.HL250A, data.HL250ATC, data.HL250SRV,
		}, sizes: all, unit: "allocations", against: Bound, bound: 6, goal: 6, stretch: 2, exact: true,
	},
	{
		family: "growth", mixes: slices.Concat(simple, []data.Mix{data.HL50A, data.HL250A, data.HL250ATC}), sizes: large,
		unit: perQuery, against: Smaller, goal: 1.15, stretch: 1.05,
	},
	{family: "p99", mixes: []data.Mix{data.Mixed}, sizes: all, unit: "us", against: Stock, goal: 0.60, stretch: 0.45},
	{family: "rss", sizes: large, unit: "MiB", against: Bound, bound: 120, goal: 120, stretch: 80},
	{family: "heap-per-endpoint", sizes: large, unit: "B", against: Bound, bound: 350, goal: 350, stretch: 200},
	// Seconds and microseconds of one machine say little on another: these goals
	// are 1.0 s where stock takes 1.85, and 70 us where stock takes 112.
	{family: "start", sizes: large, unit: "s", against: Stock, goal: 0.54, stretch: 0.38},
	{family: "change-cpu", sizes: large, unit: "us/change", against: Stock, goal: 0.625, stretch: 0.36},
	// Over a plain watch; "churn" is with 50 other changes per second.
	{family: "propagation-p50-idle", sizes: large, unit: "ms", against: Bound, bound: 0.4, goal: 0.4, stretch: 0.2},
	{family: "propagation-p99-idle", sizes: large, unit: "ms", against: Bound, bound: 4, goal: 4, stretch: 2},
	{family: "propagation-p50-churn", sizes: large, unit: "ms", against: Bound, bound: 0.4, goal: 0.4, stretch: 0.2},
	{family: "propagation-p99-churn", sizes: large, unit: "ms", against: Bound, bound: 4, goal: 4, stretch: 2},
}

// Name is the name of a row: FAMILY/MIX/SIZE, or FAMILY/SIZE without a mix.
func Name(family string, mix data.Mix, size data.Size) string {
	parts := []string{family, string(mix), string(size)}
	if mix == "" {
		parts = []string{family, string(size)}
	}
	return strings.Join(parts, "/")
}

// Goals lists every row that a run has to have.
func Goals() []Goal {
	var goals []Goal
	for _, l := range lines {
		mixes := l.mixes
		if len(mixes) == 0 {
			mixes = []data.Mix{""}
		}
		for _, size := range l.sizes {
			for _, mix := range mixes {
				g := Goal{
					Name: Name(l.family, mix, size), Unit: l.unit, Against: l.against,
					Goal: l.goal, Stretch: l.stretch, Bound: l.bound, Exact: l.exact,
				}
				if l.bound != 0 {
					g.Goal, g.Stretch = l.goal/l.bound, l.stretch/l.bound
				}
				goals = append(goals, g)
			}
		}
	}
	return goals
}
