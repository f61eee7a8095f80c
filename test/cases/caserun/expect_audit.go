package caserun

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// auditDelay is how long a request may take from its answer into the audit log.
const auditDelay = 200 * time.Millisecond

// requests are what a process has asked the API server of a cluster since the
// case began.
func (w *world) requests(ctx context.Context, process, cluster string) ([]kubetest.AuditEvent, error) {
	m, err := w.member(cluster)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, auditDelay); err != nil {
		return nil, err
	}
	events, err := m.AuditEvents()
	if err != nil {
		return nil, err
	}
	users := []string{syncdUser, peerUser}
	if process == "dns" {
		users = []string{dnsUser}
	}
	return slices.DeleteFunc(events, func(e kubetest.AuditEvent) bool {
		return !slices.Contains(users, e.User) || e.Time.Before(w.begin)
	}), nil
}

func (o WritesCheck) eval(ctx context.Context, w *world) error {
	from, okFrom := w.marks[o.Window[0]]
	to, okTo := w.marks[o.Window[1]]
	if !okFrom || !okTo {
		return fmt.Errorf("window %v: there are no such steps", o.Window)
	}
	events, err := w.requests(ctx, o.Process, o.Cluster)
	if err != nil {
		return err
	}
	var except []string
	for _, kind := range o.ExceptKinds {
		except = append(except, resources[kind].Resource)
	}
	n := 0
	var shown []string
	for _, e := range events {
		if !e.Changes() || e.Time.Before(from) || e.Time.After(to) || slices.Contains(except, e.Resource) || o.Verb != "" && e.Verb != o.Verb {
			continue
		}
		n++
		if len(shown) < 10 {
			shown = append(shown, fmt.Sprintf("%s %s %s/%s (%d)", e.Verb, e.Resource, e.Namespace, e.Name, e.Code))
		}
	}
	if n > o.Max {
		return fmt.Errorf("%s wrote %d times in %s between steps %v, want at most %d: %q", o.Process, n, o.Cluster, o.Window, o.Max, shown)
	}
	return nil
}

// rejections are the answers that say that a request itself is wrong.
var rejections = []int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed,
	http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
}

func (o RejectionCheck) eval(ctx context.Context, w *world) error {
	clusters := w.c.clusterIDs()
	if o.Cluster != "" {
		clusters = []string{o.Cluster}
	}
	n := 0
	var shown []string
	for _, cluster := range clusters {
		events, err := w.requests(ctx, o.Process, cluster)
		if err != nil {
			return err
		}
		for _, e := range events {
			if slices.Contains(rejections, e.Code) {
				n++
				shown = append(shown, fmt.Sprintf("%s %s %s/%s (%d)", e.Verb, e.Resource, e.Namespace, e.Name, e.Code))
			}
		}
	}
	if n > o.Max {
		return fmt.Errorf("API servers refused %d requests of %s, want at most %d: %q", n, o.Process, o.Max, shown[:min(10, len(shown))])
	}
	return nil
}
