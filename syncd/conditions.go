package syncd

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
	"github.com/k8s-mcs/k8s-mcs/syncd/status"
)

var (
	conflictsDesc = prometheus.NewDesc("mcs_syncd_exports_in_conflict",
		"ServiceExports of this cluster that differ from those of other clusters.", []string{"reason"}, nil)
	noticedDesc = prometheus.NewDesc("mcs_syncd_imports_noticed",
		"ServiceImports in this cluster with a condition that is False, Ready included.", []string{"reason"}, nil)
)

// collectConditions counts what the conditions of exports and imports say.
func (s *syncer) collectConditions(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	conflicts, noticed := map[string]int{}, map[string]int{}
	for _, key := range s.cache.Exports.Keys() {
		export, ok := s.cache.Exports.One(key)
		if !ok {
			continue
		}
		c := meta.FindStatusCondition(export.Status.Conditions, status.ConditionConflict)
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		for reason := range strings.SplitSeq(c.Reason, ",") {
			conflicts[reason]++
		}
	}
	for _, key := range s.cache.Imports.Keys() {
		imp, ok := s.cache.Imports.One(key)
		if !ok || !plan.OwnsImport(imp) {
			continue
		}
		for _, c := range imp.Status.Conditions {
			if c.Status == metav1.ConditionFalse {
				noticed[c.Reason]++
			}
		}
	}
	for reason, n := range conflicts {
		gauge(conflictsDesc, float64(n), reason)
	}
	for reason, n := range noticed {
		gauge(noticedDesc, float64(n), reason)
	}
}
