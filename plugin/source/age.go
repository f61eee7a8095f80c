package source

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// staleAfter is the age from which data counts as stale: a bookmark comes
	// about once a minute.
	staleAfter = 3 * time.Minute
	ageTick    = time.Second
)

// watched is one resource that is followed, and how that goes.
type watched struct {
	health
	run     func(context.Context)
	heard   atomic.Int64 // nanoseconds since 1970; 0 before the first list
	failing atomic.Bool  // a list or watch failed, and none has worked since
	assess  func()
}

func (s *Source) newWatched(resource, namespace string) *watched {
	w := &watched{assess: s.assessAge}
	w.resource, w.log = resource, s.opts.Log
	w.failed = func() { s.opts.Observer.WatchFailed(resource) }
	if namespace != "" {
		w.where = " in namespace " + namespace
	}
	return w
}

func (w *watched) report(err error) {
	w.failing.Store(err != nil)
	w.assess()
	w.health.report(err)
}

// Age is the time since the API server was last known to say what is served:
// since the last event or bookmark of the slowest watch, or those that the
// snapshot was taken after. It is not known while there is no zone.
func (s *Source) Age() (age time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.dataTime()
	if !known {
		return 0, false
	}
	return max(0, time.Since(at)), true
}

// Stale reports whether the answers may be behind the API server: they come
// from the snapshot, their age is above 3 minutes, or a resource cannot be read.
func (s *Source) Stale() bool { return s.stale.Load() }

// dataTime is when the API server was last known to say what is served; under mu.
func (s *Source) dataTime() (at time.Time, known bool) {
	switch {
	case s.restored != nil:
		return s.restored.Taken, true
	case !s.isLive:
		return at, false
	}
	slowest := s.watches[0].heard.Load()
	for _, w := range s.watches[1:] {
		slowest = min(slowest, w.heard.Load())
	}
	return time.Unix(0, slowest), true
}

// assessAge sets what Stale says, and ends the service of a snapshot that has
// become too old.
func (s *Source) assessAge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.dataTime()
	stale := known && (s.restored != nil || time.Since(at) > staleAfter)
	for _, w := range s.watches {
		stale = stale || known && w.failing.Load()
	}
	s.stale.Store(stale)
	if s.restored != nil && s.tooOld(s.restored) {
		s.drop()
		s.opts.Log.Errorf("Snapshot %s is no longer served: it is older than %s, and the API server is still away",
			s.opts.SnapshotFile, s.opts.SnapshotMaxAge)
	}
}

func (s *Source) watchAge(ctx context.Context) {
	tick := time.NewTicker(ageTick)
	defer tick.Stop()
	live := s.live
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.assessAge()
			select {
			case <-live:
				// The first lists leave more garbage than there will be data, and
				// the runtime would keep its memory for minutes.
				debug.FreeOSMemory()
				live = nil
			default:
			}
		}
	}
}
