package peer

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// Problem is why something cannot be read now.
type Problem struct {
	// Resource is plural.group, or "secret" for a credential.
	Resource string
	// Reason is a word for metrics: a watch.Reason, or one of this package's
	// for a Secret.
	Reason string
	// Remedy says what to do about it.
	Remedy string
	Err    error
}

// lives reports whether the problem shows that the API server answers.
func (p Problem) lives() bool { return watch.Reason(p.Reason).Lives() }

// classify finds reason and remedy of a failed list or watch; role is the
// manifest that grants it.
func classify(resource string, err error, role string) Problem {
	reason := reasonOf(err)
	p := Problem{Resource: resource, Reason: string(reason), Err: err}
	switch reason {
	case watch.Forbidden:
		kind, _, _ := strings.Cut(resource, "/")
		p.Remedy = "let this user list and watch " + kind + ": apply " + role
	case watch.Unauthorized:
		p.Remedy = "renew the credential: the server does not accept it"
	case watch.Missing:
		p.Remedy = "install the CRDs: kubectl apply -f deploy/crds"
	case watch.Certificate:
		p.Remedy = "check certificate-authority-data and server of the kubeconfig"
	case watch.Unreachable:
		p.Remedy = "check that the API server runs and that its address can be reached from here"
	case watch.Overloaded:
		p.Remedy = "none needed if it passes: the API server asks to wait"
	case watch.Failed:
		p.Remedy = "see the error and the API server's log; it is tried again"
	}
	return p
}

// scope is what a problem concerns. A server that cannot be reached is one
// problem, however many resources are asked of it; a missing right is one each.
func (p Problem) scope() string {
	if p.Reason == string(watch.Forbidden) || p.Reason == string(watch.Missing) {
		return p.Reason + " " + p.Resource
	}
	return p.Reason
}

// health remembers what cannot be read, so that each problem is told once when
// it comes and once when it goes, whatever the number of tries between.
type health struct {
	came func(Problem)
	gone func(Problem)

	mu       sync.Mutex // guards problems, by resource
	problems map[string]Problem
}

func newHealth(came, gone func(Problem)) *health {
	return &health{problems: map[string]Problem{}, came: came, gone: gone}
}

// set takes in the state of one resource, nil when it can be read.
func (h *health) set(resource string, p *Problem) {
	h.mu.Lock()
	old, had := h.problems[resource]
	delete(h.problems, resource)
	left := had && !h.has(old.scope())
	came := p != nil && !h.has(p.scope())
	if p != nil {
		h.problems[resource] = *p
	}
	if left && came && old.scope() == p.scope() {
		left, came = false, false // as before
	}
	h.mu.Unlock()
	if left {
		h.gone(old)
	}
	if came {
		h.came(*p)
	}
}

// has is called with the lock held.
func (h *health) has(scope string) bool {
	for _, p := range h.problems {
		if p.scope() == scope {
			return true
		}
	}
	return false
}

// all are the present problems, by resource.
func (h *health) all() []Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.problems), func(a, b Problem) int { return strings.Compare(a.Resource, b.Resource) })
}
