package status

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

func TestExportConditions(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		problem      *model.Problem
		status       metav1.ConditionStatus
		valid, ready string // reasons
	}{
		"a good export is valid and ready":                         {nil, "True", "Valid", "Ready"},
		"one without a Service may become ready":                   {&model.Problem{Reason: "NoService", Message: "m"}, "False", "NoService", "Pending"},
		"one of a kind that cannot be exported has failed":         {&model.Problem{Reason: "InvalidServiceType", Message: "m"}, "False", "InvalidServiceType", "Failed"},
		"one of a namespace that is closed to export has failed":   {&model.Problem{Reason: "NamespaceNotAllowed", Message: "m"}, "False", "NamespaceNotAllowed", "Failed"},
		"one of a Service that syncd made is no export of its own": {&model.Problem{Reason: "DerivedService", Message: "m"}, "False", "DerivedService", "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			have := &api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			change := Export(have, c.problem, now)
			if change.Verb != plan.Update || len(have.Status.Conditions) != 0 {
				t.Fatalf("%q; what exists has conditions %v", change.Verb, have.Status.Conditions)
			}
			for condition, reason := range map[string]string{"Valid": c.valid, "Ready": c.ready} {
				got := meta.FindStatusCondition(change.Object.Status.Conditions, condition)
				if got == nil || got.Status != c.status || got.Reason != reason || got.ObservedGeneration != 2 || got.Message == "" {
					t.Errorf("%s is %+v, want %s %s", condition, got, c.status, reason)
				}
			}
			later := metav1.NewTime(now.Add(time.Hour))
			if again := Export(change.Object, c.problem, later); again.Verb != plan.None {
				t.Error("the passing of time alone is a write")
			}
			newer := change.Object.DeepCopy()
			newer.Generation = 3
			if next := Export(newer, c.problem, later); next.Verb != plan.Update || !next.Object.Status.Conditions[0].LastTransitionTime.Equal(&now) {
				t.Errorf("a new generation: %q, conditions %+v", next.Verb, next.Object.Status.Conditions)
			}
		})
	}
	t.Run("a change of the status moves the transition time", func(t *testing.T) {
		bad := Export(&api.ServiceExport{}, &model.Problem{Reason: "NoService", Message: "m"}, now).Object
		later := metav1.NewTime(now.Add(time.Hour))
		good := Export(bad, nil, later).Object
		for _, got := range good.Status.Conditions {
			if !got.LastTransitionTime.Equal(&later) {
				t.Errorf("%s moved at %s", got.Type, got.LastTransitionTime)
			}
		}
	})
}
