package source

import (
	"context"
	"slices"
	"time"

	"github.com/k8s-mcs/k8s-mcs/plugin/snapshot"
)

const (
	// savePause is the least time between two writes of the snapshot.
	savePause = 5 * time.Second
	// saveLongest is the most, so that the file says how fresh its data is.
	saveLongest = time.Hour
)

func (s *Source) fingerprint(cluster string) snapshot.Fingerprint {
	return snapshot.Fingerprint{
		Cluster: cluster, Zones: s.opts.Zone.Origins,
		Namespaces: slices.Sorted(slices.Values(s.opts.Namespaces)), PodNames: s.opts.PodNames,
	}
}

// saveSnapshots writes one now, after changes, and when ctx ends. There must be
// live data.
func (s *Source) saveSnapshots(ctx context.Context, cluster string) {
	file := snapshot.NewFile(s.opts.SnapshotFile)
	longest := saveLongest
	if s.opts.SnapshotMaxAge > 0 {
		longest = max(savePause, min(longest, s.opts.SnapshotMaxAge/10))
	}
	refresh := time.NewTicker(longest)
	defer refresh.Stop()
	failed := false
	for {
		select { // the write shows what has changed so far
		case <-s.changed:
		default:
		}
		failed = s.save(file, cluster, failed)
		if failed {
			signal(s.changed) // try again
		}
		select {
		case <-ctx.Done():
		case <-time.After(savePause):
		}
		changed := false
		select {
		case <-ctx.Done():
		case <-s.changed:
			changed = true
		case <-refresh.C:
		}
		if ctx.Err() == nil {
			continue
		}
		select {
		case <-s.changed:
			changed = true
		default:
		}
		if changed && file.Ours() { // after a reload it may be another Source's
			s.save(file, cluster, failed)
		}
		return
	}
}

// save writes a snapshot, and says once that it cannot: failed is whether the
// last one failed.
func (s *Source) save(file *snapshot.File, cluster string, failed bool) bool {
	s.mu.Lock()
	h := snapshot.Header{Fingerprint: s.fingerprint(cluster), Serial: s.zone.Load().Serial()}
	h.Taken, _ = s.dataTime()
	var in snapshot.Inputs
	in.Imports, in.Slices = s.builder.Inputs()
	s.mu.Unlock()

	err := file.Write(snapshot.Encode(&h, &in))
	s.opts.Observer.SnapshotWritten(err == nil)
	switch {
	case err == nil && failed:
		s.opts.Log.Infof("Writing the snapshot %s again", s.opts.SnapshotFile)
	case err != nil && !failed:
		s.opts.Log.Errorf("Cannot write the snapshot: %v: let this process create files in that folder; trying again", err)
	}
	return err != nil
}
