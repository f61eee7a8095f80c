package kubetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// AuditEvent is one request as the API server's audit log tells it. A watch is
// there from its begin on, other requests once they are answered.
type AuditEvent struct {
	Time        time.Time // when the request came
	User        string    // for a controller "system:serviceaccount:kube-system:NAME"
	Verb        string    // get, list, watch, create, update, patch, delete, deletecollection
	Group       string    // API group, empty for the core
	Resource    string    // empty where the request is for no resource, as for /readyz
	Subresource string
	Namespace   string
	Name        string
	Path        string // of the URL, with its query
	Code        int    // HTTP status
}

// Changes reports whether the request asked for a change of anything but a Lease:
// a Lease is renewed as time goes by, whatever happens.
func (e AuditEvent) Changes() bool { return e.Writes() && e.Resource != "leases" }

// Writes reports whether the request asked for a change.
func (e AuditEvent) Writes() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	default:
		return false
	}
}

// rawEvent has the fields of audit.k8s.io/v1 Event that are used here.
type rawEvent struct {
	AuditID    string `json:"auditID"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// AuditEvents reads the audit log from the cluster's first start on: one event
// per request, in the order in which they appeared. A request shows up in it a
// moment after its answer. Requests of the API server to itself are by user
// "system:apiserver".
func (c *Cluster) AuditEvents() ([]AuditEvent, error) {
	content, err := os.ReadFile(c.auditLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read audit log of %s: %w", c.name, err)
	}
	events, err := parseAudit(content)
	if err != nil {
		return nil, fmt.Errorf("read audit log of %s: %w", c.name, err)
	}
	return events, nil
}

// parseAudit reads complete lines; the last one may be in the writing. Of the
// events with one audit id, which are stages of one request, the last counts.
func parseAudit(content []byte) ([]AuditEvent, error) {
	var events []AuditEvent
	index := map[string]int{}
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(content, []byte{'\n'})
		if !complete {
			return events, nil
		}
		content = rest
		var raw rawEvent
		if err := json.Unmarshal(line, &raw); err != nil {
			// A killed server leaves half a line, and the next one writes on behind it.
			if start := bytes.LastIndex(line, []byte(`{"kind":"Event"`)); start > 0 && json.Unmarshal(line[start:], &raw) == nil {
				err = nil
			}
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
		}
		event := AuditEvent{
			Time:        raw.RequestReceivedTimestamp,
			User:        raw.User.Username,
			Verb:        raw.Verb,
			Group:       raw.ObjectRef.APIGroup,
			Resource:    raw.ObjectRef.Resource,
			Subresource: raw.ObjectRef.Subresource,
			Namespace:   raw.ObjectRef.Namespace,
			Name:        raw.ObjectRef.Name,
			Path:        raw.RequestURI,
			Code:        raw.ResponseStatus.Code,
		}
		if at, seen := index[raw.AuditID]; seen {
			events[at] = event
			continue
		}
		index[raw.AuditID] = len(events)
		events = append(events, event)
	}
}
