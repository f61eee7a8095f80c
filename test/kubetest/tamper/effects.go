package tamper

import (
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Effect is one way to misbehave.
type Effect struct {
	kind   kind
	change func(object map[string]any)
	status metav1.Status
}

type kind int

const (
	kindChange kind = iota + 1
	kindSwallow
	kindDuplicate
	kindReorder
	kindRefuse
	kindHang
	kindExpire
	kindHalf
	kindFirstPage
	kindNoStreamingLists
)

// Change alters objects: in lists and in the events of watches, deletions too.
// Numbers in an object are json.Number.
func Change(change func(object map[string]any)) Effect {
	return Effect{kind: kindChange, change: change}
}

// Label sets a label.
func Label(key, value string) Effect {
	return Change(func(object map[string]any) { below(object, "metadata", "labels")[key] = value })
}

// Namespace says that objects are in another namespace.
func Namespace(namespace string) Effect {
	return Change(func(object map[string]any) { below(object, "metadata")["namespace"] = namespace })
}

// Created forges the time of creation.
func Created(at time.Time) Effect {
	return Change(func(object map[string]any) {
		below(object, "metadata")["creationTimestamp"] = at.UTC().Format(time.RFC3339)
	})
}

// AddAddress gives an EndpointSlice more endpoints, each ready and with one of
// the texts as its address, be it one or not.
func AddAddress(texts ...string) Effect {
	return Change(func(object map[string]any) {
		endpoints, _ := object["endpoints"].([]any)
		for _, text := range texts {
			endpoints = append(endpoints, map[string]any{
				"addresses": []any{text}, "conditions": map[string]any{"ready": true},
			})
		}
		object["endpoints"] = endpoints
	})
}

// below is a map in an object, made where there is none.
func below(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		next, ok := object[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	return object
}

// Swallow leaves objects out of lists, and events out of watches.
func Swallow() Effect { return Effect{kind: kindSwallow} }

// Duplicate sends events, and objects of lists, twice.
func Duplicate() Effect { return Effect{kind: kindDuplicate} }

// Reorder sends an event after the one that follows it, whenever that comes. In a
// list the object moves behind its follower.
func Reorder() Effect { return Effect{kind: kindReorder} }

// Refuse answers requests with an HTTP status: 401, 403, 410, 429, 500 and so on,
// and with the Status object that an API server sends along. Watches that are
// live go on, as on a real server; see Disconnect. A retryAfter above 0, in
// seconds, is sent as the header Retry-After.
func Refuse(code, retryAfter int) Effect {
	reasons := map[int]metav1.StatusReason{
		http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusNotFound:            metav1.StatusReasonNotFound,
		http.StatusGone:                metav1.StatusReasonExpired,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	}
	status := failure(code, reasons[code])
	if retryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter)} //nolint:gosec // seconds to wait
	}
	return Effect{kind: kindRefuse, status: status}
}

// Hang takes requests in and does not answer them; watches that are live fall
// silent. When the rule goes, all goes on.
func Hang() Effect { return Effect{kind: kindHang} }

// Expire ends watches as a server does that has forgotten where they are: by an
// event ERROR with status 410. Events that have not been sent are lost, so the
// client has to list.
func Expire() Effect {
	return Effect{kind: kindExpire, status: failure(http.StatusGone, metav1.StatusReasonExpired)}
}

// Half breaks off lists in the middle: a plain one after half of its bytes, a
// streaming one after its first event.
func Half() Effect { return Effect{kind: kindHalf} }

// FirstPage gives the first half of a list and a continue token, and then refuses
// that token with status 500. Streaming lists are refused as by NoStreamingLists.
func FirstPage() Effect { return Effect{kind: kindFirstPage, status: noStreamingLists()} }

// NoStreamingLists refuses streaming lists in the way of servers that do not know
// them; clients list plainly then.
func NoStreamingLists() Effect {
	return Effect{kind: kindNoStreamingLists, status: noStreamingLists()}
}

func noStreamingLists() metav1.Status {
	return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
}

func failure(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(code), //nolint:gosec // an HTTP status
		Reason:   reason,
		Message:  "tampered: " + strings.ToLower(http.StatusText(code)),
	}
}
