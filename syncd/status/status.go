// Package status decides the conditions that syncd writes on the ServiceExports
// of its own cluster (KEP-1645, ServiceExport conditions).
package status

import (
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// The condition types and reasons that are written; those of a refused export
// are the reasons of a model.Problem.
const (
	ConditionValid = "Valid"
	ConditionReady = "Ready"

	ReasonValid   = "Valid"
	ReasonReady   = "Ready"
	ReasonPending = "Pending"
	ReasonFailed  = "Failed"
)

// Export plans the status of a ServiceExport: problem is why it offers nothing,
// or nil. now dates a condition whose status changes; nothing else moves its
// transition time.
func Export(have *api.ServiceExport, problem *model.Problem, now metav1.Time) plan.Change[*api.ServiceExport] {
	valid := metav1.Condition{
		Type: ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValid,
		Message: "The Service can be exported",
	}
	ready := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonReady,
		Message: "The service is offered to every cluster of the clusterset",
	}
	if problem != nil {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, problem.Reason, problem.Message
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonFailed, problem.Message
		if problem.Reason == model.ReasonNoService {
			ready.Reason = ReasonPending // it will be offered as soon as there is one
		}
	}
	want := have.DeepCopy()
	want.Status.Conditions = slices.Clone(have.Status.Conditions)
	for _, c := range []metav1.Condition{valid, ready} {
		c.ObservedGeneration, c.LastTransitionTime = have.Generation, now
		meta.SetStatusCondition(&want.Status.Conditions, c)
	}
	if apiequality.Semantic.DeepEqual(have.Status, want.Status) {
		return plan.Change[*api.ServiceExport]{Object: have}
	}
	return plan.Change[*api.ServiceExport]{Verb: plan.Update, Object: want, Why: "the conditions differ from what is"}
}
