package status

import (
	"os"
	"strings"
	"testing"

	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

func TestDocsNameEachConditionAndReason(t *testing.T) {
	text, err := os.ReadFile("../../docs/objects.md")
	if err != nil {
		t.Fatal(err)
	}
	_, conditions, _ := strings.Cut(string(text), "\n## Conditions\n")
	conditions, _, _ = strings.Cut(conditions, "\n## ")
	for _, word := range []string{
		ConditionValid, ConditionReady, ConditionConflict, ReasonValid, ReasonReady, ReasonPending, ReasonFailed, ReasonNoConflicts, ReasonNameTaken, ReasonLimitExceeded,
		plan.ReasonIPFamilyNotSupported, plan.ConditionZoneRouting, plan.ConditionLocalEndpoints, plan.ConditionIPFamilies, plan.ConditionMetadata, plan.ConditionStoredOffers,
	} {
		if !strings.Contains(conditions, "`"+word+"`") {
			t.Errorf("docs/objects.md does not name %s under Conditions", word)
		}
	}
}
