package merge

import (
	"slices"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Merge computes the import of one service from all offers of it; before are
// the ports of the import as it stands here, nil when there is none. At least
// one offer is needed; without any there is no import.
//
// Ports are a union; every other field is the oldest offer's.
func Merge(exports []model.Export, before []model.Port) (model.Import, bool) {
	if len(exports) == 0 {
		return model.Import{}, false
	}
	ordered := Order(exports)
	oldest := ordered[0]
	imp := model.Import{
		Key: oldest.Key, Kind: oldest.Kind,
		Ports:       mergePorts(ordered, before),
		Traffic:     oldest.Traffic,
		Families:    families(ordered),
		Labels:      oldest.Labels,
		Annotations: oldest.Annotations,
	}
	for _, e := range ordered {
		imp.Clusters = append(imp.Clusters, e.Cluster)
	}
	return imp, true
}

// families are all that any exporter's Service has, in the oldest one's order.
func families(ordered []model.Export) []model.Family {
	var all []model.Family
	for _, e := range ordered {
		for _, f := range e.Families {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}
