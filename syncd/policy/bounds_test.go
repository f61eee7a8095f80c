package policy

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

func TestBoundsKeepTheOldest(t *testing.T) {
	use := func(name string, age, slices, endpoints int) Use {
		return Use{mcs.ServiceKey{Namespace: "shop", Name: name}, start.Add(-time.Duration(age) * time.Hour), slices, endpoints}
	}
	uses := []Use{use("young", 1, 1, 10), use("old", 3, 2, 20), use("middle", 2, 5, 50)}
	for name, c := range map[string]struct {
		bounds Bounds
		share  float64
		left   []string
	}{
		"no bounds":                          {Bounds{}, 0, nil},
		"room for all":                       {Bounds{4, 10, 100}, 0.8, nil},
		"just room for all":                  {Bounds{3, 8, 80}, 1, nil},
		"exports":                            {Bounds{Exports: 2}, 1.5, []string{"young"}},
		"slices: one too large, the next is": {Bounds{Slices: 4}, 2, []string{"middle"}},
		"endpoints":                          {Bounds{Endpoints: 20}, 4, []string{"middle", "young"}},
	} {
		t.Run(name, func(t *testing.T) {
			left, share := c.bounds.LeftOut(uses)
			var names []string
			for key := range maps.Keys(left) {
				names = append(names, key.Name)
			}
			slices.Sort(names)
			if diff := cmp.Diff(c.left, names); diff != "" || share != c.share {
				t.Errorf("share %v, left out %s", share, diff)
			}
		})
	}
}

func TestDeniedClustersCountInTheMergeAndAreNotWritten(t *testing.T) {
	imp, v := view("10.1.0.1")
	v.Unknown = []mcs.ClusterID{"east"}
	imp.Clusters = []mcs.ClusterID{"east", "west"}
	denied := map[mcs.ClusterID]bool{"east": true}
	got, after := Deny(imp, v, denied)
	if !slices.Equal(got.Clusters, []mcs.ClusterID{"west"}) || len(got.Ports) != 1 || len(after.Exports) != 1 || after.Exports[0].Slices != nil || len(after.Unknown) != 0 {
		t.Errorf("import %+v, view %+v", got, after)
	}
	if len(imp.Clusters) != 2 || len(v.Exports[0].Slices) != 1 {
		t.Errorf("what came in changed: %+v, %+v", imp, v)
	}
	imp.Clusters = imp.Clusters[:1]
	if got, _ := Deny(imp, v, denied); got != nil {
		t.Errorf("an import of nobody: %+v", got)
	}
}
