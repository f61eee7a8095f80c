package merge

import (
	"slices"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Merge computes the import of one service from all offers of it; before are
// the ports of the import as it stands here, nil when there is none. At least
// one offer is needed; without any there is no import.
//
// Ports and IP families are unions; every other field is the oldest offer's.
func Merge(exports []model.Export, before []model.Port) (model.Import, bool) {
	if len(exports) == 0 {
		return model.Import{}, false
	}
	ordered := Order(exports)
	oldest := ordered[0]
	imp := model.Import{
		Key:      oldest.Key,
		Ports:    mergePorts(ordered, before),
		Families: families(ordered),
	}
	for _, r := range rules {
		if r.settle != nil {
			r.settle(&imp, oldest)
		}
	}
	for _, e := range ordered {
		imp.Clusters = append(imp.Clusters, e.Cluster)
	}
	return imp, true
}

// families are all that any exporter's Service serves, in the oldest one's order.
func families(ordered []model.Export) []model.Family {
	var all []model.Family
	for _, e := range ordered {
		for _, f := range servedFamilies(e) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}
