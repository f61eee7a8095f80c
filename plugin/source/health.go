package source

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/k8s-mcs/k8s-mcs/internal/watch"
)

// health tells the operator about a resource that cannot be read: one line when
// it breaks or breaks in another way, one when it works again, however many
// retries lie between. It is safe for concurrent use.
type health struct {
	resource string // as kubectl and RBAC rules call it, with the group
	where    string // " in namespace N", or empty
	log      Logger
	failed   func() // counts every failure

	mu     sync.Mutex
	reason watch.Reason // empty when all is well
}

// report takes in whether the resource can be read, as [watch.Resource.Run] says.
func (h *health) report(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		if h.reason != "" {
			h.log.Infof("Following %s%s again", h.resource, h.where)
		}
		h.reason = ""
		return
	}
	h.failed()
	if reason := watch.ReasonOf(err); reason != h.reason {
		h.reason = reason
		h.log.Errorf("Cannot %v%s: %s; trying again until it works", brief(err), h.where, h.remedy())
	}
}

// remedy is what an operator can do about it.
func (h *health) remedy() string {
	switch h.reason {
	case watch.Forbidden:
		return fmt.Sprintf("grant the verbs list and watch on %s to this client (deploy/rbac/mcs-core-dns.yaml)", h.resource)
	case watch.Missing:
		return fmt.Sprintf("install the CustomResourceDefinition of %s (deploy/crds)", h.resource)
	case watch.Unauthorized:
		return "renew the token or client certificate of this client"
	case watch.Certificate:
		return "check the address and the certificate authority in the kubeconfig"
	case watch.Overloaded:
		return "the API server asks to wait"
	case watch.Unreachable:
		return "check that the API server runs and that its address in the kubeconfig is right"
	case watch.Failed:
	}
	return "see the API server's log"
}

// brief leaves the query of a request's URL out of its error.
func brief(err error) error {
	request, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	what, _, _ := strings.Cut(err.Error(), ": ")
	server, _, _ := strings.Cut(request.URL, "?")
	return fmt.Errorf("%s: %s: %w", what, server, request.Err)
}
