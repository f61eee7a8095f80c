package tamper

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// stream is a live watch.
type stream struct {
	resource string
	cancel   context.CancelFunc
	verb     Verb    // what the next event belongs to
	held     []event // put back by Reorder
}

// event is one line of a watch.
type event struct {
	Type   apiwatch.EventType `json:"type"`
	Object map[string]any     `json:"object"`
}

// watch passes events on until either side ends, and alters them on the way.
func (p *Proxy) watch(ctx context.Context, w http.ResponseWriter, s *stream, body io.Reader) {
	p.mu.Lock()
	p.streams[s] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, s)
	}()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush(w)
	events := read(ctx, body)
	var (
		next   *event // read and not yet passed on
		silent *Added // the Hang that was counted
	)
	for {
		rules, changed := p.snapshot()
		if rule := onRequest(rules, s.resource, s.verb, kindExpire); rule != nil && rule.use() {
			send(w, statusEvent(rule.Effect.status))
			return
		}
		if rule := onRequest(rules, s.resource, s.verb, kindHang); rule != nil {
			if rule != silent {
				silent = rule
				rule.use()
			}
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				panic(http.ErrAbortHandler)
			}
		}
		if next != nil {
			s.pass(w, rules, *next)
			next = nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			panic(http.ErrAbortHandler) // disconnected, or the client has gone
		case e, ok := <-events:
			if !ok {
				return // the server's end of a watch, which is no error
			}
			next = &e // the rules may have changed since
		}
	}
}

// pass sends an event as often as the rules say.
func (s *stream) pass(w http.ResponseWriter, rules []*Added, e event) {
	times, hold := 1, false
	switch e.Type {
	case apiwatch.Added, apiwatch.Modified, apiwatch.Deleted:
		times, hold = alter(rules, s.resource, s.verb, e.Object)
	case apiwatch.Bookmark:
		if s.verb == List && endsList(e.Object) {
			s.verb = Watch
		}
	case apiwatch.Error:
	}
	if hold {
		for range times {
			s.held = append(s.held, e)
		}
		return
	}
	for range times {
		send(w, e)
	}
	for _, late := range s.held {
		send(w, late)
	}
	s.held = nil
	if rule := onRequest(rules, s.resource, List, kindHalf); rule != nil && s.verb == List && rule.use() {
		panic(http.ErrAbortHandler)
	}
}

// endsList reports whether a bookmark is the end of a streaming list.
func endsList(bookmark map[string]any) bool {
	meta, _ := bookmark["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	return annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// read decodes events until the body or ctx ends.
func read(ctx context.Context, body io.Reader) <-chan event {
	events := make(chan event)
	go func() {
		defer close(events)
		d := decoder(body)
		for {
			var e event
			if err := d.Decode(&e); err != nil {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// send writes an event so that the client has it at once.
func send(w http.ResponseWriter, e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(append(line, '\n')) // a client that has gone is seen by the context
	flush(w)
}

func statusEvent(status metav1.Status) event {
	return event{Type: apiwatch.Error, Object: map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": status.Status,
		"code": status.Code, "reason": status.Reason, "message": status.Message,
	}}
}
