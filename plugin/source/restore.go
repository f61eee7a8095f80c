package source

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/k8s-mcs/k8s-mcs/plugin/snapshot"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

const (
	// hesitation is how long the API server may be silent before the snapshot
	// takes its place.
	hesitation = 300 * time.Millisecond
	// trust is how long an API server that answers may take for the first
	// lists: its data is better than the snapshot.
	trust = 3 * time.Second
)

// keepSnapshot serves what was loaded, which may be nil, if the API server is
// away, and writes new snapshots until ctx ends.
func (s *Source) keepSnapshot(ctx context.Context, loaded *snapshot.Snapshot) {
	answers := make(chan identity)
	var wg sync.WaitGroup
	wg.Go(func() { s.identify(ctx, answers) })
	defer wg.Wait()

	patience := time.NewTimer(hesitation)
	defer patience.Stop()
	waiting := loaded != nil // for the moment to serve it
	answered := false
	live, cluster := s.live, ""
	for live != nil || cluster == "" {
		serve := false
		select {
		case <-ctx.Done():
			return
		case <-live:
			live, waiting = nil, false
		case <-patience.C:
			serve = true
		case a := <-answers:
			cluster = a.cluster
			if cluster != "" && loaded != nil && live != nil && !s.isOf(cluster, loaded) {
				waiting = false
			}
			serve = a.away
			if !serve && !answered {
				answered = true
				patience.Reset(trust)
			}
		}
		if serve && waiting {
			waiting = false
			s.serve(loaded)
		}
	}
	s.saveSnapshots(ctx, cluster)
}

// readSnapshot reads and judges the file; nil when it cannot be served.
func (s *Source) readSnapshot() *snapshot.Snapshot {
	path := s.opts.SnapshotFile
	loaded, err := snapshot.Read(path)
	result := SnapshotGood
	switch {
	case errors.Is(err, fs.ErrNotExist):
		result = SnapshotAbsent
		s.opts.Log.Infof("There is no snapshot %s yet", path)
	case err != nil:
		result = resultOf(err)
		s.opts.Log.Errorf("Cannot serve the snapshot: %v; it will be written anew", err)
	default:
		if difference := loaded.Difference(s.fingerprint("")); difference != "" {
			result = SnapshotFingerprint
			s.opts.Log.Errorf("Cannot serve the snapshot %s: it was taken with another configuration: %s; it will be written anew", path, difference)
		} else if s.tooOld(loaded) {
			result = SnapshotTooOld
			s.opts.Log.Errorf("Cannot serve the snapshot %s: it is too old: it is of %s, and may be %s old",
				path, loaded.Taken.UTC().Format(time.RFC3339), s.opts.SnapshotMaxAge)
		}
	}
	s.opts.Observer.SnapshotRead(result)
	if result != SnapshotGood {
		return nil
	}
	return loaded
}

func resultOf(err error) SnapshotResult {
	switch {
	case errors.Is(err, snapshot.ErrTruncated):
		return SnapshotTruncated
	case errors.Is(err, snapshot.ErrDamaged):
		return SnapshotDamaged
	case errors.Is(err, snapshot.ErrVersion):
		return SnapshotVersion
	}
	return SnapshotUnreadable
}

func (s *Source) tooOld(loaded *snapshot.Snapshot) bool {
	return s.opts.SnapshotMaxAge > 0 && time.Since(loaded.Taken) > s.opts.SnapshotMaxAge
}

// serve publishes the snapshot, unless there is live data.
func (s *Source) serve(loaded *snapshot.Snapshot) {
	start := time.Now()
	in, err := loaded.Inputs()
	if err != nil {
		s.opts.Log.Errorf("Cannot serve the snapshot %s: %v", s.opts.SnapshotFile, err)
		return
	}
	b := zone.NewBuilder(s.opts.Zone)
	b.Resume(loaded.Serial)
	b.ReplaceImports("", in.Imports)
	b.ReplaceSlices("", in.Slices)
	z, problems := b.Publish(start.Unix())

	s.mu.Lock()
	if s.isLive {
		s.mu.Unlock()
		return
	}
	s.restored = loaded
	s.zone.Store(z)
	s.count(b)
	s.builder.Resume(z.Serial())
	s.mu.Unlock()

	s.opts.Observer.Published(time.Since(start))
	s.reportProblems(problems)
	s.assessAge()
	s.opts.Log.Warningf("Serving the snapshot %s of %s, with %d imports and %d endpoints, until the API server is there",
		s.opts.SnapshotFile, loaded.Taken.UTC().Format(time.RFC3339), b.Imports(), b.Endpoints())
	s.first.Do(func() { close(s.synced) })
}

// drop ends the service of the snapshot; under mu.
func (s *Source) drop() {
	s.restored = nil
	s.zone.Store(nil)
	s.stale.Store(false)
}

// isOf reports whether a snapshot is of this cluster. One that is not is
// served no longer.
func (s *Source) isOf(cluster string, loaded *snapshot.Snapshot) bool {
	difference := loaded.Difference(s.fingerprint(cluster))
	if difference == "" {
		return true
	}
	s.mu.Lock()
	if s.restored != nil {
		s.drop()
	}
	s.mu.Unlock()
	s.opts.Observer.SnapshotRead(SnapshotFingerprint)
	s.opts.Log.Errorf("Cannot serve the snapshot %s: it is of another %s; it will be written anew", s.opts.SnapshotFile, difference)
	return false
}
