package peer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

// decideEvery is how often the state of peers is looked at when nothing happens.
const decideEvery = 250 * time.Millisecond

// Status is the state of one peer Secret.
type Status struct {
	// Cluster is empty for a Secret whose label is no cluster id.
	Cluster  mcs.ClusterID
	Secret   string
	State    policy.State
	Problems []Problem
	// Exports is the number of services the peer declares exported, Withheld that
	// of those that stand although it withdrew them.
	Exports, Withheld int
	// Denied is the number of exports that are not taken over, because of their
	// namespace or the bounds, and Dropped that of addresses left out so far.
	Denied, Dropped int
	// Skew is how far the peer's clock is ahead of ours.
	Skew time.Duration
}

// Statuses are the states of all peers, by cluster id, then of Secrets that have
// no place.
func (r *Registry) Statuses() []Status {
	states := *r.states.Load()
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Status
	for _, id := range slices.Sorted(maps.Keys(r.peers)) {
		e := r.peers[id]
		s := Status{Cluster: id, Secret: e.name(), State: states[id].State}
		switch {
		case e.cluster == nil:
			s.State, s.Problems = policy.Refused, []Problem{*e.problem}
		case s.State == "" || s.State == policy.Refused:
			s.State = policy.Connecting // nothing was decided yet
			fallthrough
		default:
			s.Problems, s.Exports, s.Skew = e.cluster.Problems(), e.cluster.Exports(), e.cluster.life.clockSkew()
			s.Withheld, s.Denied, s.Dropped = e.cluster.withheld(), e.denied(), int(e.cluster.droppedCount.Load())
		}
		all = append(all, s)
	}
	for _, secret := range slices.Sorted(maps.Keys(r.refused)) {
		all = append(all, Status{Secret: secret, State: policy.Refused, Problems: []Problem{r.refused[secret]}})
	}
	return all
}

// Record is what the Lease of a peer keeps over a restart, and shows to operators.
type Record struct {
	Cluster mcs.ClusterID
	State   policy.State
	Reason  string
	// Alive is the last proof of life, zero when there was none.
	Alive time.Time
	// HeldSince is when the brake on withdrawals was put on, zero when it is off.
	HeldSince  time.Time
	StaleAfter time.Duration
}

// Records are what the Leases of all peers should say; nil until it is known.
func (r *Registry) Records() []Record {
	states := *r.states.Load()
	r.mu.RLock()
	defer r.mu.RUnlock()
	records := make([]Record, 0, len(r.peers))
	for id, e := range r.peers {
		s, ok := states[id]
		if !ok {
			return nil
		}
		record := Record{Cluster: id, State: s.State, Reason: s.Reason, StaleAfter: e.options.StaleAfter}
		if e.cluster != nil {
			record.Alive, _ = e.cluster.life.times()
			record.HeldSince = e.cluster.heldSince()
			if !e.told() {
				record.HeldSince = r.options.Remembered(id).HeldSince
			}
		}
		records = append(records, record)
	}
	return records
}

// judgeSoon has the peers looked at now.
func (r *Registry) judgeSoon() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// watchOver decides on the states and withdrawals of peers until ctx ends.
func (r *Registry) watchOver(ctx context.Context) {
	tick := time.NewTicker(decideEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.kick:
		}
		if r.synced.Load() && r.options.LocalRead() {
			r.decide(time.Now())
		}
	}
}

func (r *Registry) decide(now time.Time) {
	r.mu.RLock()
	peers := maps.Clone(r.peers)
	r.mu.RUnlock()

	before := *r.states.Load()
	facts := make(map[mcs.ClusterID]policy.Facts, len(peers))
	seeded := make(map[mcs.ClusterID]policy.Status, len(peers))
	for id, e := range peers {
		facts[id] = e.facts()
		s, known := before[id]
		if !known && r.options.Remembered(id).State == policy.Stale {
			s = policy.Status{State: policy.Stale}
		}
		seeded[id] = s
	}
	next := policy.Decide(now, r.decided, r.options.Timing, facts, seeded)
	r.states.Store(&next)
	r.decided = now

	moved := false
	for id, e := range peers {
		was, is := seeded[id], next[id]
		if was.State != is.State {
			moved = true
			r.tellState(id, e, was, is)
		}
		if e.cluster == nil {
			continue
		}
		if e.cluster.HasSynced() {
			stored := func() []mcs.ServiceKey { return r.options.Stored(id) }
			moved = e.cluster.compare(stored, r.options.Remembered(id).HeldSince, now) || moved
		}
		if e.told() {
			r.judge(id, e, now)
			r.bound(id, e, now)
		}
	}
	r.BoundOwn(now)
	if moved {
		r.options.Reset()
	}
}

// facts are what is known of a peer.
func (e *entry) facts() policy.Facts {
	if e.cluster == nil {
		return policy.Facts{Refused: e.problem.Reason}
	}
	f := policy.Facts{Read: e.cluster.HasSynced(), StaleAfter: e.options.StaleAfter}
	f.LastAlive, f.LastFailed = e.cluster.life.times()
	if p := e.cluster.refusal(); p != nil {
		f.Refusal = p.Reason
	}
	return f
}

// refusal is what the peer's API server refuses, nil for nothing.
func (c *Cluster) refusal() *Problem {
	if p := c.life.refuses(); p != nil {
		return p
	}
	problems := c.Problems()
	if at := slices.IndexFunc(problems, Problem.lives); at >= 0 {
		return &problems[at]
	}
	return nil
}

// tellState says that a peer is in another state.
func (r *Registry) tellState(id mcs.ClusterID, e *entry, was, is policy.Status) {
	message := map[policy.State]string{
		policy.Connecting:   "not read whole yet; what is here of it stays",
		policy.Synced:       "read, and followed",
		policy.Stale:        fmt.Sprintf("no sign of life for %s: its endpoints follow on-lost=%s", e.options.StaleAfter, e.options.OnLost),
		policy.Held:         "its API server answers and refuses something; what is known is kept",
		policy.Refused:      "its Secret cannot be used; what is known is kept",
		policy.SelfIsolated: "all peers fell silent at once: the fault is on this side; what is known is kept",
	}[is.State]
	warning := is.State != policy.Synced && is.State != policy.Connecting
	log := r.options.Log.Info
	if warning {
		log = r.options.Log.Warn
	}
	log("peer changes its state", "cluster", id, "secret", e.name(), "state", is.State, "reason", is.Reason, "before", was.State, "meaning", message)
	if warning || was.State != "" && was.State != policy.Connecting {
		r.options.Tell(e.secret, warning, "Peer"+string(is.State), fmt.Sprintf("Cluster %s: %s (%s)", id, message, is.Reason))
	}
}

// judge decides on the withdrawals of a peer, and says what becomes of them.
func (r *Registry) judge(id mcs.ClusterID, e *entry, now time.Time) {
	withdrawn, turn, held, since := e.cluster.judge(now, r.options.Brake, e.options.Release)
	log := r.options.Log.With("cluster", id, "secret", e.name())
	switch turn {
	case policy.PutOn:
		command := fmt.Sprintf("kubectl -n %s annotate secret %s --overwrite %s=%s", e.secret.Namespace, e.secret.Name, mcs.AnnotationReleaseHeld, since.UTC().Format(time.RFC3339))
		log.Warn("withdrawals are held", "exports", held, "left", e.cluster.Exports(), "for", r.options.Brake.Release.String(), "remedy", "if they are meant: "+command)
		r.options.Tell(e.secret, true, "WithdrawalsHeld", fmt.Sprintf("Cluster %s withdrew %d exports at once and has %d left; they stand for %s. If it is meant: %s", id, held, e.cluster.Exports(), r.options.Brake.Release, command))
	case policy.TakenOff:
		log.Warn("held withdrawals pass", "exports", len(withdrawn))
		r.options.Tell(e.secret, true, "WithdrawalsPass", fmt.Sprintf("Cluster %s: %d held withdrawals pass", id, len(withdrawn)))
	case policy.NotNeeded:
		log.Info("no withdrawals are held any more")
		r.options.Tell(e.secret, false, "WithdrawalsBack", fmt.Sprintf("Cluster %s: what it withdrew is back, or went with its namespace", id))
	}
	for _, key := range withdrawn {
		r.options.Changed(key)
	}
}

// Places are where the slices of each exporter of a service go; have are those
// that stand here.
func (r *Registry) Places(view model.View, have []*discoveryv1.EndpointSlice) map[mcs.ClusterID]policy.Place {
	states := *r.states.Load()
	r.mu.RLock()
	defer r.mu.RUnlock()
	clusters := make([]policy.Cluster, 0, len(view.Exports))
	kind := model.Headless
	prefer := r.options.Prefer
	notes := map[mcs.ClusterID]policy.OnLost{}
	for _, export := range view.Exports {
		c := policy.Cluster{ID: export.Cluster, Told: !view.IsUnknown(export.Cluster)}
		for _, s := range export.Slices {
			for _, ep := range s.Endpoints {
				c.All++
				if ep.Ready {
					c.Ready++
				}
			}
		}
		if e := r.peers[export.Cluster]; e != nil {
			c.State, c.OnLost = states[export.Cluster].State, e.options.OnLost
			note, known := e.note(view.Key)
			if known {
				notes[c.ID] = note
			} else if at := slices.IndexFunc(have, func(s *discoveryv1.EndpointSlice) bool { return policy.Source(s) == c.ID }); at >= 0 {
				note = policy.NoteOf(have[at])
			}
			if onLost, err := policy.ParseOnLost(string(note)); err == nil {
				c.OnLost = onLost
			}
		} else {
			c.Own = true
			if d, ok := r.options.Own.declaration(view.Key); ok && d.Prefer != "" {
				if own, err := policy.ParsePrefer(d.Prefer); err == nil {
					prefer = own
				}
			}
		}
		clusters = append(clusters, c)
		if export.Kind == model.ClusterSetIP {
			kind = model.ClusterSetIP
		}
	}
	if kind == model.Headless {
		prefer = policy.Prefer{} // its clients choose by DNS
	}
	places := policy.Places(clusters, prefer)
	for id, note := range notes {
		place := places[id]
		place.Note = &note
		places[id] = place
	}
	return places
}

// note is the policy that the peer's export of a service asks for, "" for none;
// known is false when the export cannot be read, or is withdrawn.
func (e *entry) note(key mcs.ServiceKey) (note policy.OnLost, known bool) {
	if !e.told() {
		return "", false
	}
	d, ok := e.cluster.declaration(key)
	if !ok {
		return "", false
	}
	note, err := policy.ParseOnLost(d.OnLost)
	if err != nil {
		return "", true // none, or one that is no policy
	}
	return note, true
}
