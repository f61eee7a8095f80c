package source

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// identity is what the API server says about its identity.
type identity struct {
	cluster string // UID of kube-system; empty when it did not say
	away    bool   // there is nobody to ask
}

const (
	identityTimeout = 5 * time.Second
	identityPause   = 30 * time.Second // at most, between two attempts
)

// identify asks for the UID of the namespace kube-system until it is known.
func (s *Source) identify(ctx context.Context, identities chan<- identity) {
	var silent klog.Logger // what the client would say is said here
	ctx = klog.NewContext(ctx, silent)
	var trouble refusal
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, identityPause) {
		cluster, err := s.cluster(ctx)
		id := identity{cluster: cluster}
		if err != nil {
			reason := watch.ReasonOf(err)
			// Whoever answers so may serve the lists all the same.
			id.away = reason != watch.Forbidden && reason != watch.Missing
			if trouble.tell(reason, time.Now()) {
				s.opts.Log.Errorf("Cannot take snapshots: %v: %s", err, identityRemedy(reason))
			}
		}
		select {
		case <-ctx.Done():
			return
		case identities <- id:
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *Source) cluster(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	ns, err := s.clients.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if ns.UID == "" {
		return "", fmt.Errorf("namespace %s has no UID", metav1.NamespaceSystem)
	}
	return string(ns.UID), nil
}

// refusal is a reason that stands.
type refusal struct {
	reason watch.Reason
	since  time.Time
	told   bool
}

// settled is the age from which a refusal counts: an API server that has just
// started refuses at first.
const settled = 3 * time.Second

// tell reports whether it is time to tell of a reason. That nobody answers is
// told for the lists and watches.
func (r *refusal) tell(reason watch.Reason, now time.Time) bool {
	if reason != r.reason {
		*r = refusal{reason: reason, since: now}
	}
	if r.told || reason == watch.Unreachable || now.Sub(r.since) < settled {
		return false
	}
	r.told = true
	return true
}

func identityRemedy(reason watch.Reason) string {
	if reason == watch.Forbidden {
		return "grant the verb get on namespaces with the name kube-system to this client (deploy/rbac/mcs-core-dns.yaml)"
	}
	return "the UID of the namespace kube-system tells whose a snapshot is; trying again until it is known"
}
