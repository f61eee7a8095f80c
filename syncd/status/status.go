// Package status decides the conditions that syncd writes on the ServiceExports
// of its own cluster (KEP-1645, ServiceExport conditions).
package status

import (
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// The condition types and reasons that are written, in the MCS API's words; those
// of a refused export are the reasons of a model.Problem.
const (
	ConditionValid    = string(v1beta1.ServiceExportConditionValid)
	ConditionReady    = string(v1beta1.ServiceExportConditionReady)
	ConditionConflict = string(v1beta1.ServiceExportConditionConflict)

	ReasonValid       = string(v1beta1.ServiceExportReasonValid)
	ReasonReady       = string(v1beta1.ServiceExportReasonReady)
	ReasonPending     = string(v1beta1.ServiceExportReasonPending)
	ReasonFailed      = string(v1beta1.ServiceExportReasonFailed)
	ReasonNoConflicts = string(v1beta1.ServiceExportReasonNoConflicts)
	// ReasonNameTaken: an object of somebody else stands in this cluster where the
	// import, or what belongs to it, should.
	ReasonNameTaken = "NameTaken"
	// ReasonLimitExceeded: this cluster exports more than is taken over from one
	// cluster, and this export is among those that are left out.
	ReasonLimitExceeded = "LimitExceeded"
)

// Finding is what there is to say of a ServiceExport.
type Finding struct {
	// Problem is why it offers nothing, or nil.
	Problem *model.Problem
	// Conflicts are the properties in which its exporters differ.
	Conflicts []model.Conflict
	// Taken names the object of somebody else that keeps this cluster from
	// importing the service; "" when there is none.
	Taken string
	// Over is true when the export does not fit the bounds on one cluster.
	Over bool
}

// Export plans the status of a ServiceExport. now dates a condition whose status
// changes; nothing else moves its transition time.
func Export(have *api.ServiceExport, f Finding, now metav1.Time) plan.Change[*api.ServiceExport] {
	want := have.DeepCopy()
	want.Status.Conditions = slices.Clone(have.Status.Conditions)
	for _, c := range []metav1.Condition{valid(f), ready(f), conflict(f)} {
		plan.SetCondition(&want.Status.Conditions, c, have.Generation, now)
	}
	if apiequality.Semantic.DeepEqual(have.Status, want.Status) {
		return plan.Change[*api.ServiceExport]{Object: have}
	}
	return plan.Change[*api.ServiceExport]{
		Verb: plan.Update, Object: want, Why: "the conditions differ from what is",
		Events: plan.EventsOf(have.Status.Conditions, want.Status.Conditions, isBad),
	}
}

func valid(f Finding) metav1.Condition {
	if f.Problem != nil {
		return metav1.Condition{Type: ConditionValid, Status: metav1.ConditionFalse, Reason: f.Problem.Reason, Message: f.Problem.Message}
	}
	return metav1.Condition{Type: ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValid, Message: "The Service can be exported"}
}

func ready(f Finding) metav1.Condition {
	c := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonFailed}
	switch {
	case f.Problem != nil:
		c.Message = f.Problem.Message
		if f.Problem.Reason == model.ReasonNoService {
			c.Reason = ReasonPending // it will be offered as soon as there is one
		}
	case f.Taken != "":
		c.Reason = ReasonNameTaken
		c.Message = "offered to the clusterset, but not imported in this cluster: " + f.Taken + " is not syncd's; rename or remove it"
	case f.Over:
		c.Reason = ReasonLimitExceeded
		c.Message = "this cluster exports more than peers with the same bounds take over, and this export is among the youngest: raise --max-exports, --max-slices or --max-endpoints in every cluster, or export less"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonReady, "The service is offered to every cluster of the clusterset"
	}
	return c
}

// conflict joins the reasons in the order of the merge's rules, which is the same
// in every cluster.
func conflict(f Finding) metav1.Condition {
	if len(f.Conflicts) == 0 || f.Problem != nil {
		return metav1.Condition{
			Type: ConditionConflict, Status: metav1.ConditionFalse, Reason: ReasonNoConflicts,
			Message: "The clusters that export the service agree on it",
		}
	}
	reasons, messages := make([]string, 0, len(f.Conflicts)), make([]string, 0, len(f.Conflicts))
	for _, c := range f.Conflicts {
		if !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
		messages = append(messages, c.Message())
	}
	return metav1.Condition{
		Type: ConditionConflict, Status: metav1.ConditionTrue,
		Reason: strings.Join(reasons, ","), Message: strings.Join(messages, "; "),
	}
}

// isBad tells which conditions make events. An export that waits for its Service
// is on its way; and Ready says nothing beside Valid but that a name is taken, or that
// there are too many.
func isBad(c metav1.Condition) bool {
	switch c.Type {
	case ConditionValid:
		return c.Status == metav1.ConditionFalse && c.Reason != model.ReasonNoService
	case ConditionReady:
		return c.Reason == ReasonNameTaken || c.Reason == ReasonLimitExceeded
	case ConditionConflict:
		return c.Status == metav1.ConditionTrue
	default:
		return false
	}
}
