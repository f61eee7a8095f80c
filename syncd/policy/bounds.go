package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Bounds are how much is taken over from one peer; 0 is no bound.
type Bounds struct {
	Exports, Slices, Endpoints int
}

// Use is what one export of a peer takes of the bounds.
type Use struct {
	Key               mcs.ServiceKey
	Created           time.Time
	Slices, Endpoints int
}

// LeftOut are the exports that do not fit: the youngest ones, and those that are
// too large for what is left. share is the part of the bound that is nearest to its
// end, 1 for all of it.
func (b Bounds) LeftOut(uses []Use) (left map[mcs.ServiceKey]bool, share float64) {
	var sum Use
	part := func(have, bound int) {
		if bound > 0 {
			share = max(share, float64(have)/float64(bound))
		}
	}
	for _, u := range uses {
		sum.Slices += u.Slices
		sum.Endpoints += u.Endpoints
	}
	part(len(uses), b.Exports)
	part(sum.Slices, b.Slices)
	part(sum.Endpoints, b.Endpoints)
	if share <= 1 {
		return nil, share
	}
	ordered := slices.SortedFunc(slices.Values(uses), func(a, b Use) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	over := func(have, bound int) bool { return bound > 0 && have > bound }
	left, sum = map[mcs.ServiceKey]bool{}, Use{}
	kept := 0
	for _, u := range ordered {
		if over(kept+1, b.Exports) || over(sum.Slices+u.Slices, b.Slices) || over(sum.Endpoints+u.Endpoints, b.Endpoints) {
			left[u.Key] = true
			continue
		}
		kept++
		sum.Slices += u.Slices
		sum.Endpoints += u.Endpoints
	}
	return left, share
}

// Deny takes clusters out of what is written here. It works on the merge, which
// counts them all the same: every cluster of the set comes to the same fields.
func Deny(imp *model.Import, view model.View, denied map[mcs.ClusterID]bool) (*model.Import, model.View) {
	if len(denied) == 0 {
		return imp, view
	}
	gone := func(id mcs.ClusterID) bool { return denied[id] }
	view.Unknown = slices.DeleteFunc(slices.Clone(view.Unknown), gone)
	view.Exports = slices.Clone(view.Exports)
	for i := range view.Exports {
		if gone(view.Exports[i].Cluster) {
			view.Exports[i].Slices = nil
		}
	}
	if imp == nil {
		return nil, view
	}
	allowed := *imp
	allowed.Clusters = slices.DeleteFunc(slices.Clone(imp.Clusters), gone)
	if len(allowed.Clusters) == 0 {
		return nil, view
	}
	return &allowed, view
}
