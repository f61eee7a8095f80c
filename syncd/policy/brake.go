package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// Brake says which withdrawals of a peer are too many to be believed at once.
type Brake struct {
	// Window is the time within which withdrawals count together.
	Window time.Duration
	// Settle is how long no further withdrawal may come before those that came
	// are judged, so that the first of many do not slip through.
	Settle time.Duration
	// Release is how long they are held.
	Release time.Duration
}

// brakeAtLeast is the number of withdrawals that are never held.
const brakeAtLeast = 5

// Ledger knows which exports of a peer stand here, and which of those the peer
// has withdrawn. It is not safe for concurrent use.
type Ledger struct {
	known map[mcs.ServiceKey]struct{}
	gone  map[mcs.ServiceKey]time.Time
	// passed are the times of withdrawals that were believed within the window.
	passed    []time.Time
	heldSince time.Time
}

// NewLedger makes an empty Ledger; heldSince is when the brake was put on before
// a restart, zero when it was not.
func NewLedger(heldSince time.Time) *Ledger {
	return &Ledger{known: map[mcs.ServiceKey]struct{}{}, gone: map[mcs.ServiceKey]time.Time{}, heldSince: heldSince}
}

// Declare takes in that the peer exports a service.
func (l *Ledger) Declare(key mcs.ServiceKey) {
	l.known[key] = struct{}{}
	delete(l.gone, key)
}

// Withdraw takes in that the peer does not export a service any more, or that it
// does not while here it is known to have done so.
func (l *Ledger) Withdraw(key mcs.ServiceKey, now time.Time) {
	if _, ok := l.known[key]; ok {
		delete(l.known, key)
		l.gone[key] = now
	}
}

// Remember takes in what stands here of a peer that has just been read.
func (l *Ledger) Remember(stored []mcs.ServiceKey, now time.Time) {
	for _, key := range stored {
		if _, declared := l.known[key]; !declared {
			l.gone[key] = now
		}
	}
}

// Withholds reports whether a service stands although the peer has withdrawn it.
func (l *Ledger) Withholds(key mcs.ServiceKey) bool {
	_, ok := l.gone[key]
	return ok
}

// HeldSince is when the brake was put on, zero when it is off.
func (l *Ledger) HeldSince() time.Time { return l.heldSince }

// Withheld is the number of services that stand although they were withdrawn.
func (l *Ledger) Withheld() int { return len(l.gone) }

// Turn is what happened to the brake.
type Turn string

// The turns; the zero value is none.
const (
	PutOn     Turn = "PutOn"
	TakenOff  Turn = "TakenOff" // time is up, or an operator said so
	NotNeeded Turn = "NotNeeded"
)

// Judge decides on the withdrawals that came. goes tells that the namespace of a
// service goes away in the peer, which explains its withdrawal. word is the
// operator's: a brake that was put on then or before is taken off. The services
// returned are withdrawn from now on.
func (l *Ledger) Judge(now time.Time, brake Brake, goes func(mcs.ServiceKey) bool, word time.Time) (withdrawn []mcs.ServiceKey, turn Turn) {
	for key := range l.gone {
		if goes(key) {
			delete(l.gone, key)
			withdrawn = append(withdrawn, key)
		}
	}
	l.passed = slices.DeleteFunc(l.passed, func(at time.Time) bool { return now.Sub(at) > brake.Window })
	switch {
	case len(l.gone) == 0:
		if !l.heldSince.IsZero() {
			l.heldSince, turn = time.Time{}, NotNeeded
		}
	case !l.heldSince.IsZero():
		if now.Sub(l.heldSince) >= brake.Release || !word.Before(l.heldSince) {
			l.heldSince, turn = time.Time{}, TakenOff
			withdrawn = append(withdrawn, l.let()...)
		}
	case l.settled(now, brake):
		count := len(l.gone) + len(l.passed)
		if count >= brakeAtLeast && 2*count > len(l.known)+count {
			// The API keeps whole seconds, and a stored time must compare as before.
			l.heldSince, turn = now.Truncate(time.Second), PutOn
			break
		}
		let := l.let()
		for range let {
			l.passed = append(l.passed, now)
		}
		withdrawn = append(withdrawn, let...)
	}
	slices.SortFunc(withdrawn, func(a, b mcs.ServiceKey) int { return strings.Compare(a.String(), b.String()) })
	return withdrawn, turn
}

// settled reports whether the withdrawals can be judged: so few that they can
// never be too many, or none came of late.
func (l *Ledger) settled(now time.Time, brake Brake) bool {
	if len(l.known)+len(l.gone)+len(l.passed) < brakeAtLeast {
		return true
	}
	var first, last time.Time
	for _, at := range l.gone {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return now.Sub(last) >= brake.Settle || now.Sub(first) >= brake.Window
}

func (l *Ledger) let() []mcs.ServiceKey {
	all := make([]mcs.ServiceKey, 0, len(l.gone))
	for key := range l.gone {
		all = append(all, key)
	}
	clear(l.gone)
	return all
}
