package plan

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Event is something to tell about an object once its change is written.
type Event struct {
	// Warning is false for news that all is well again.
	Warning bool
	// Reason is one word; Message is the condition's.
	Reason, Message string
}

// ReasonConflict is the reason of the event about conflicts, whose condition has
// one reason for each of them.
const ReasonConflict = "Conflict"

// EventsOf are the events that a change of conditions deserves: a Warning when one
// turns bad, or bad for another reason, and a Normal when it is good again. bad
// tells what bad is. A condition that was never bad makes no event, and neither
// does a new message alone: what is refused by the API server may be worded
// differently each time.
func EventsOf(before, after []metav1.Condition, bad func(metav1.Condition) bool) []Event {
	var events []Event
	for _, now := range after {
		was := meta.FindStatusCondition(before, now.Type)
		wasBad := was != nil && bad(*was)
		switch isBad := bad(now); {
		case isBad && (!wasBad || was.Reason != now.Reason):
			reason := now.Reason
			if now.Type == ReasonConflict {
				reason = ReasonConflict
			}
			events = append(events, Event{Warning: true, Reason: reason, Message: now.Message})
		case !isBad && wasBad:
			events = append(events, Event{Reason: now.Reason, Message: now.Message})
		}
	}
	return events
}
