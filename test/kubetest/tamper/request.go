package tamper

import (
	"net/http"
	"slices"
	"strings"
)

// request is what is known of a list or watch by its URL.
type request struct {
	resource  string
	watch     bool
	streaming bool // a watch that begins with a list
	rest      bool // asks for what FirstPage left out
}

// restToken is the continue token that FirstPage makes.
const restToken = "tampered"

// parse reads a request; ok is false for one that is no list and no watch.
func parse(r *http.Request) (q request, ok bool) {
	if r.Method != http.MethodGet {
		return request{}, false
	}
	// /api/v1/[namespaces/N/]R and /apis/G/V/[namespaces/N/]R; one more part is
	// an object's name.
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return request{}, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) != 1 {
		return request{}, false
	}
	values := r.URL.Query()
	truth := []string{"true", "1"}
	q = request{
		resource: parts[0],
		watch:    slices.Contains(truth, values.Get("watch")),
		rest:     values.Get("continue") == restToken,
	}
	q.streaming = q.watch && slices.Contains(truth, values.Get("sendInitialEvents"))
	return q, true
}

// begins is the verb of what the answer begins with.
func (q request) begins() Verb {
	if q.watch && !q.streaming {
		return Watch
	}
	return List
}
