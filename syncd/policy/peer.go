package policy

import (
	"time"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// State is how far a peer can be read.
type State string

// The states of a peer.
const (
	// Connecting: not read whole yet.
	Connecting State = "Connecting"
	// Synced: read whole; what comes is followed.
	Synced State = "Synced"
	// Stale: no proof of life for longer than stale-after; on-lost is at work.
	Stale State = "Stale"
	// Held: the API server answers but refuses something; what is known is kept
	// without limit.
	Held State = "Held"
	// Refused: the Secret cannot be used; what is known is kept without limit.
	Refused State = "Refused"
	// SelfIsolated: all peers fell silent at once, so the fault is on this side;
	// what is known is kept without limit.
	SelfIsolated State = "SelfIsolated"
)

// States are all states, for metrics.
var States = []State{Connecting, Synced, Stale, Held, Refused, SelfIsolated}

// The reasons of a state that come from here; a Held or Refused peer has that of
// its refusal.
const (
	ReasonRead       = "Read"
	ReasonNotReadYet = "NotReadYet"
	ReasonSilent     = "Silent"     // no proof of life, for less than stale-after
	ReasonLost       = "Lost"       // no proof of life for stale-after
	ReasonRecovering = "Recovering" // alive again for less than recover-hold
	ReasonAllSilent  = "AllPeersSilent"
)

// Timing is how long peers are waited for.
type Timing struct {
	// ProbeInterval is the time between two probes of a peer.
	ProbeInterval time.Duration
	// RecoverHold is how long a lost peer must be alive before it counts again.
	RecoverHold time.Duration
}

// Facts are what is known of a peer at one moment.
type Facts struct {
	// Refused is why its Secret cannot be used, "" when it can.
	Refused string
	// Refusal is what its API server refuses, "" for nothing.
	Refusal string
	// Read is true once all of the peer has been read since the start.
	Read bool
	// LastAlive is the last proof of life, and LastFailed the last probe without
	// one; zero when there was none since the start.
	LastAlive, LastFailed time.Time
	// StaleAfter is how long the peer may be silent.
	StaleAfter time.Duration
}

func (f Facts) silent() bool { return f.LastFailed.After(f.LastAlive) }

// Status is the state of a peer and what the next decision builds on.
type Status struct {
	State  State
	Reason string
	// Since is when the state began.
	Since time.Time
	// Quiet is when the peer's silence began, as far as it counts: silence while
	// this side was isolated or asleep does not. Zero when it is not silent.
	Quiet time.Time
	// Back is when a lost peer was alive again; zero when it is not.
	Back time.Time
}

// Lost reports whether on-lost is at work.
func (s Status) Lost() bool { return s.State == Stale }

// Decide gives each peer its state. before are the states that the last decision
// gave, at lastDecided; a peer that was Stale before a restart is in it as such,
// with nothing but that state.
func Decide(now, lastDecided time.Time, timing Timing, peers map[mcs.ClusterID]Facts, before map[mcs.ClusterID]Status) map[mcs.ClusterID]Status {
	asleep := !lastDecided.IsZero() && now.Sub(lastDecided) > 2*timing.ProbeInterval
	next := make(map[mcs.ClusterID]Status, len(peers))
	for id, facts := range peers {
		next[id] = silence(now, asleep, timing, facts, before[id])
	}
	isolated := allSilent(timing, peers, before, next)
	for id, facts := range peers {
		s := state(now, timing, facts, before[id], next[id], isolated)
		if was := before[id]; was.State == s.State && !was.Since.IsZero() {
			s.Since = was.Since
		} else {
			s.Since = now
		}
		next[id] = s
	}
	return next
}

// silence says since when a peer is silent, and since when it is back.
func silence(now time.Time, asleep bool, timing Timing, facts Facts, before Status) Status {
	var s Status
	if !facts.silent() {
		if before.State == Stale && !facts.LastAlive.IsZero() {
			s.Back = before.Back
			if s.Back.IsZero() {
				s.Back = now
			}
		}
		return s
	}
	switch {
	case asleep:
		s.Quiet = now // we did not ask, so nobody can be blamed for no answer
	case !before.Quiet.IsZero():
		s.Quiet = before.Quiet
	case facts.LastAlive.IsZero():
		s.Quiet = now
	default:
		s.Quiet = facts.LastAlive
		if earliest := now.Add(-2 * timing.ProbeInterval); s.Quiet.Before(earliest) {
			s.Quiet = earliest // it was not asked in between
		}
	}
	return s
}

// allSilent reports whether all of two or more peers that were not lost before
// fell silent within one probe interval.
func allSilent(timing Timing, peers map[mcs.ClusterID]Facts, before, next map[mcs.ClusterID]Status) bool {
	var first, last time.Time
	count, already := 0, false
	for id, facts := range peers {
		if facts.Refused != "" || before[id].State == Stale {
			continue
		}
		quiet := next[id].Quiet
		if quiet.IsZero() {
			return false
		}
		if count == 0 || quiet.Before(first) {
			first = quiet
		}
		if count == 0 || quiet.After(last) {
			last = quiet
		}
		count++
		already = already || before[id].State == SelfIsolated
	}
	return count >= 2 && (already || last.Sub(first) <= timing.ProbeInterval)
}

func state(now time.Time, timing Timing, facts Facts, before, s Status, isolated bool) Status {
	set := func(state State, reason string) Status {
		s.State, s.Reason = state, reason
		return s
	}
	switch {
	case facts.Refused != "":
		return Status{State: Refused, Reason: facts.Refused}
	case before.State == Stale && facts.silent():
		return set(Stale, ReasonLost)
	case before.State == Stale && s.Back.IsZero():
		return set(Stale, ReasonLost) // as stored; not heard of since the start
	case before.State == Stale && (now.Sub(s.Back) < timing.RecoverHold || !facts.Read && facts.Refusal == ""):
		return set(Stale, ReasonRecovering)
	case facts.silent() && isolated:
		return set(SelfIsolated, ReasonAllSilent)
	case facts.silent():
		if before.State == SelfIsolated {
			s.Quiet = now // its age begins anew: until now the fault was ours
		}
		if now.Sub(s.Quiet) >= facts.StaleAfter {
			return set(Stale, ReasonLost)
		}
		if facts.Read {
			return set(Synced, ReasonSilent)
		}
		return set(Connecting, ReasonSilent)
	case facts.Refusal != "":
		return set(Held, facts.Refusal)
	case facts.Read:
		return set(Synced, ReasonRead)
	}
	return set(Connecting, ReasonNotReadYet)
}
