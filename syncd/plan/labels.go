package plan

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// maxExported is the greatest size in bytes of the exported labels, and of the
// exported annotations, of one import.
const maxExported = 16 << 10

// reserved are the domains whose keys never travel, with their sub-domains: they
// steer programs of the importing cluster.
var reserved = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "net.gke.io", strings.TrimSuffix(mcs.Prefix, "/")}

// exported is have without what earlier exports put there and with what is
// exported now, as far as it is allowed: others may add keys of their own, which
// stay. The result is never nil, and not have.
func exported(have map[string]string, before []model.Export, now map[string]string, of func(model.Export) map[string]string, valid func(key, value string) bool) map[string]string {
	all := make(map[string]string, len(have)+len(now))
	maps.Copy(all, have)
	for _, e := range before {
		for key := range of(e) {
			if !isReserved(key) {
				delete(all, key)
			}
		}
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(now)) {
		value := now[key]
		if isReserved(key) || !valid(key, value) {
			continue
		}
		if size += len(key) + len(value); size > maxExported {
			break
		}
		all[key] = value
	}
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
