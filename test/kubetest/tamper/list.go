package tamper

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// list alters the body of a plain list.
func (p *Proxy) list(w http.ResponseWriter, q request, body io.Reader) {
	var list map[string]any
	if err := decoder(body).Decode(&list); err != nil {
		panic(http.ErrAbortHandler) // the server broke off: so do we
	}
	rules, _ := p.snapshot()
	if items, ok := list["items"].([]any); ok {
		list["items"] = alterItems(rules, q.resource, items)
	}
	if rule := onRequest(rules, q.resource, List, kindFirstPage); rule != nil && rule.use() {
		items, _ := list["items"].([]any)
		half := len(items) / 2
		list["items"] = items[:half]
		meta := below(list, "metadata")
		meta["continue"], meta["remainingItemCount"] = restToken, len(items)-half
	}
	content, err := json.Marshal(list)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if rule := onRequest(rules, q.resource, List, kindHalf); rule != nil && rule.use() {
		_, _ = w.Write(content[:len(content)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(content) // a client that has gone needs no answer
}

// alterItems applies the rules on objects to those of a list.
func alterItems(rules []*Added, resource string, items []any) []any {
	out := make([]any, 0, len(items))
	var late []any
	for _, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			out = append(out, item)
			continue
		}
		times, hold := alter(rules, resource, List, object)
		for range times {
			if hold {
				late = append(late, object)
			} else {
				out = append(out, object)
			}
		}
		if !hold {
			out = append(out, late...)
			late = nil
		}
	}
	return append(out, late...)
}

// alter applies the rules on objects to one. times is how often it is to be sent,
// hold that the next one goes first.
func alter(rules []*Added, resource string, verb Verb, object map[string]any) (times int, hold bool) {
	meta := below(object, "metadata")
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	times = 1
	for _, rule := range rules {
		if !rule.Effect.onObjects() || !rule.coversObject(resource, verb, namespace, name) || !rule.use() {
			continue
		}
		switch rule.Effect.kind { //nolint:exhaustive // the others are on requests
		case kindChange:
			rule.Effect.change(object)
		case kindSwallow:
			times = 0
		case kindDuplicate:
			times *= 2
		case kindReorder:
			hold = true
		}
	}
	return times, hold
}

func (e Effect) onObjects() bool { return e.kind >= kindChange && e.kind <= kindReorder }

// decoder keeps numbers as they are written.
func decoder(r io.Reader) *json.Decoder {
	d := json.NewDecoder(r)
	d.UseNumber()
	return d
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
