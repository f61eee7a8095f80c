package source

import "time"

// triggers gathers when the changes began that the next zone will show. Its
// methods are called under the lock of the Source.
type triggers struct {
	since   time.Time            // start of the live data; zero before
	last    map[string]time.Time // newest of each slice that changed since then
	waiting []time.Time          // not in a zone yet
}

// longestTrigger is the age from which a trigger says nothing any more.
const longestTrigger = 24 * time.Hour

// begin makes what happens from now on count: how old the first list is tells
// nothing about this program.
func (t *triggers) begin(now time.Time) {
	t.since, t.last, t.waiting = now, map[string]time.Time{}, nil
}

// note takes in when the change of a slice began; a zero time is a slice that
// is gone or does not say. Updates that keep the time are no news, such as
// those of labels.
func (t *triggers) note(namespace, name string, at time.Time) {
	key := namespace + "/" + name
	switch now := time.Now(); {
	case t.since.IsZero():
	case at.IsZero():
		delete(t.last, key)
	case at.After(t.since) && at.After(t.last[key]) && !at.After(now) && now.Sub(at) < longestTrigger:
		t.last[key] = at
		t.waiting = append(t.waiting, at)
	}
}

// take empties the list of those that wait.
func (t *triggers) take() []time.Time {
	w := t.waiting
	t.waiting = nil
	return w
}
