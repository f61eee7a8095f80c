package status

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
			change := Export(have, Finding{Problem: c.problem}, now)
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
			if again := Export(change.Object, Finding{Problem: c.problem}, later); again.Verb != plan.None {
				t.Error("the passing of time alone is a write")
			}
			newer := change.Object.DeepCopy()
			newer.Generation = 3
			if next := Export(newer, Finding{Problem: c.problem}, later); next.Verb != plan.Update || !next.Object.Status.Conditions[0].LastTransitionTime.Equal(&now) {
				t.Errorf("a new generation: %q, conditions %+v", next.Verb, next.Object.Status.Conditions)
			}
		})
	}
	t.Run("a change of the status moves the transition time", func(t *testing.T) {
		bad := Export(&api.ServiceExport{}, Finding{Problem: &model.Problem{Reason: "NoService", Message: "m"}}, now).Object
		later := metav1.NewTime(now.Add(time.Hour))
		good := Export(bad, Finding{}, later).Object
		for _, got := range good.Status.Conditions {
			if got.Type == "Conflict" {
				continue // it was False before, too
			}
			if !got.LastTransitionTime.Equal(&later) {
				t.Errorf("%s moved at %s", got.Type, got.LastTransitionTime)
			}
		}
	})
}

func TestTheConflictConditionHasAllReasons(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ports := model.Conflict{Reason: "PortConflict", Property: "ports", Winner: "east", Value: "http:80/TCP", Disagree: 1, Of: 3}
	labels := model.Conflict{Reason: "LabelsConflict", Property: "exported labels", Winner: "east", Value: "team", Disagree: 2, Of: 3}
	for name, c := range map[string]struct {
		finding Finding
		status  metav1.ConditionStatus
		reason  string
		say     []string
		event   string
	}{
		"no conflict":            {Finding{}, "False", "NoConflicts", []string{"agree"}, ""},
		"one conflict":           {Finding{Conflicts: []model.Conflict{ports}}, "True", "PortConflict", []string{"1 of 3 clusters differ from east"}, "Conflict"},
		"two, with a bare comma": {Finding{Conflicts: []model.Conflict{ports, labels}}, "True", "PortConflict,LabelsConflict", []string{"ports: 1 of 3", "; exported labels: 2 of 3"}, "Conflict"},
		"an export that offers nothing conflicts with nobody": {
			Finding{Conflicts: []model.Conflict{ports}, Problem: &model.Problem{Reason: "NoService", Message: "m"}}, "False", "NoConflicts", nil, "",
		},
		"a refused export makes an event of its own": {
			Finding{Problem: &model.Problem{Reason: "NamespaceNotAllowed", Message: "m"}}, "False", "NoConflicts", nil, "NamespaceNotAllowed",
		},
		"a name that is taken": {Finding{Taken: "services shop/web"}, "False", "NoConflicts", nil, "NameTaken"},
		"one export too many":  {Finding{Over: true}, "False", "NoConflicts", nil, "LimitExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			change := Export(&api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, c.finding, now)
			got := meta.FindStatusCondition(change.Object.Status.Conditions, "Conflict")
			if got == nil || got.Status != c.status || got.Reason != c.reason || got.ObservedGeneration != 2 {
				t.Fatalf("Conflict is %+v, want %s %s", got, c.status, c.reason)
			}
			for _, part := range c.say {
				if !strings.Contains(got.Message, part) {
					t.Errorf("message is %q, want %q in it", got.Message, part)
				}
			}
			var events []string
			for _, e := range change.Events {
				events = append(events, e.Reason)
			}
			if strings.Join(events, " ") != c.event {
				t.Errorf("events are %v, want %q", change.Events, c.event)
			}
			if again := Export(change.Object, c.finding, metav1.NewTime(now.Add(time.Hour))); again.Verb != plan.None {
				t.Error("the passing of time alone is a write")
			}
			mended := Export(change.Object, Finding{}, now)
			if c.status == metav1.ConditionTrue && (len(mended.Events) != 1 || mended.Events[0].Warning || mended.Events[0].Reason != "NoConflicts") {
				t.Errorf("events are %v once all agree", mended.Events)
			}
		})
	}
}

func TestANameThatIsTakenIsToldByReady(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	conditions := Export(&api.ServiceExport{}, Finding{Taken: "services shop/web"}, now).Object.Status.Conditions
	ready := meta.FindStatusCondition(conditions, "Ready")
	if !meta.IsStatusConditionTrue(conditions, "Valid") || ready.Reason != "NameTaken" || !strings.Contains(ready.Message, "services shop/web is not syncd's") {
		t.Errorf("conditions are %v", conditions)
	}
}

func TestOneExportTooManyIsToldByReady(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	conditions := Export(&api.ServiceExport{}, Finding{Over: true}, now).Object.Status.Conditions
	ready := meta.FindStatusCondition(conditions, "Ready")
	if !meta.IsStatusConditionTrue(conditions, "Valid") || ready.Status != "False" || ready.Reason != "LimitExceeded" || !strings.Contains(ready.Message, "--max-exports") {
		t.Errorf("conditions are %v", conditions)
	}
}

func TestAMessageStaysWithinTheAPIsBound(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	long := Finding{Problem: &model.Problem{Reason: "NoService", Message: strings.Repeat("ä", plan.MaxMessage)}}
	for _, c := range Export(&api.ServiceExport{}, long, now).Object.Status.Conditions {
		if len(c.Message) > plan.MaxMessage || !utf8.ValidString(c.Message) {
			t.Errorf("message of %s has %d bytes", c.Type, len(c.Message))
		}
	}
}
