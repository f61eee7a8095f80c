package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEventsAreMadeOnChangeOnly(t *testing.T) {
	good := []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "good"}}
	bad := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Pending", Message: "bad"}}
	worded := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Pending", Message: "bad, in other words"}}
	worse := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Failed", Message: "worse"}}
	for name, c := range map[string]struct {
		before, after []metav1.Condition
		want          []Event
	}{
		"a new condition that is good makes none":     {nil, good, nil},
		"a new condition that is bad makes a warning": {nil, bad, []Event{{true, "Pending", "bad"}}},
		"one that turns bad makes a warning":          {good, bad, []Event{{true, "Pending", "bad"}}},
		"one that stays bad makes none":               {bad, bad, nil},
		"another message alone makes none":            {bad, worded, nil},
		"another reason makes a warning":              {bad, worse, []Event{{true, "Failed", "worse"}}},
		"one that turns good again is told":           {bad, good, []Event{{false, "Ready", "good"}}},
		"one that stays good makes none":              {good, good, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := EventsOf(c.before, c.after, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
