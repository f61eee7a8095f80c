package merge

import "github.com/k8s-mcs/k8s-mcs/syncd/model"

// Conflicts are the properties in which offers of one service differ, in the
// order of the rules. They concern every exporter alike, so each cluster tells
// all of them on its own ServiceExport.
func Conflicts(exports []model.Export) []model.Conflict {
	if len(exports) < 2 {
		return nil
	}
	ordered := Order(exports)
	winner := ordered[0]
	var conflicts []model.Conflict
	for _, r := range rules {
		disagree := 0
		for _, e := range ordered[1:] {
			if !r.equal(winner, e) {
				disagree++
			}
		}
		if disagree > 0 {
			conflicts = append(conflicts, model.Conflict{
				Reason: string(r.reason), Property: r.name,
				Winner: winner.Cluster, Value: r.describe(winner),
				Disagree: disagree, Of: len(ordered),
			})
		}
	}
	return conflicts
}
