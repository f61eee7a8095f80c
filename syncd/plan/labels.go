package plan

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// MaxExported is the greatest size in bytes of the exported labels and annotations
// of one import together; keys that would pass it are left out, in their order.
const MaxExported = 16 << 10

// reserved are the domains whose keys never travel, with their sub-domains: they
// steer programs of the importing cluster.
var reserved = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "net.gke.io", strings.TrimSuffix(mcs.Prefix, "/")}

// metadata are the exported labels and annotations of an import, as far as they
// travel, and how many do not.
type metadata struct {
	labels, annotations        map[string]string
	reserved, invalid, tooMuch int
}

// travelling is what of the exported labels and annotations goes on the import.
func travelling(imp model.Import) metadata {
	var m metadata
	room := MaxExported
	take := func(all map[string]string, valid func(key, value string) bool) map[string]string {
		kept := make(map[string]string, len(all))
		for _, key := range slices.Sorted(maps.Keys(all)) {
			size := len(key) + len(all[key])
			switch {
			case isReserved(key):
				m.reserved++
			case !valid(key, all[key]):
				m.invalid++
			case size > room:
				m.tooMuch++
			default:
				room -= size
				kept[key] = all[key]
			}
		}
		return kept
	}
	m.labels = take(imp.Labels, validLabel)
	m.annotations = take(imp.Annotations, validAnnotation)
	return m
}

// exported is have without what earlier exports put there and with what is
// exported now: others may add keys of their own, which stay. The result is never
// nil, and not have.
func exported(have map[string]string, before []model.Export, now map[string]string, of func(model.Export) map[string]string) map[string]string {
	all := make(map[string]string, len(have)+len(now))
	maps.Copy(all, have)
	for _, e := range before {
		for key := range of(e) {
			if !isReserved(key) {
				delete(all, key)
			}
		}
	}
	maps.Copy(all, now)
	return all
}

func isReserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	return slices.ContainsFunc(reserved, func(r string) bool {
		return domain == r || strings.HasSuffix(domain, "."+r)
	})
}

func validLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

func validAnnotation(key, _ string) bool {
	return len(validation.IsQualifiedName(strings.ToLower(key))) == 0
}
