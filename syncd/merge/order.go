package merge

import (
	"cmp"
	"slices"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Order sorts offers by precedence: the oldest ServiceExport first, as its own
// API server dated it, then by cluster id. The argument is not changed.
func Order(exports []model.Export) []model.Export {
	return slices.SortedFunc(slices.Values(exports), func(a, b model.Export) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Cluster, b.Cluster))
	})
}
