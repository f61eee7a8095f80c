package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// writesOnceQuiet waits until a user has not written for a second, which is
// longer than any first retry, and returns all its writes so far, but for those of
// Leases, which go on, and of events, which follow other writes.
func writesOnceQuiet(t *testing.T, m *member, user string) []kubetest.AuditEvent {
	t.Helper()
	const window = time.Second
	var writes []kubetest.AuditEvent
	since := time.Now()
	eventually(t, "a second without a write", func() error {
		events, err := m.AuditEvents()
		must(t, err)
		var now []kubetest.AuditEvent
		for _, e := range events {
			if e.User == user && e.Changes() && e.Resource != "events" {
				now = append(now, e)
			}
		}
		if len(now) != len(writes) {
			writes, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < window {
			return fmt.Errorf("quiet for %s", quiet)
		}
		return nil
	})
	return writes
}
