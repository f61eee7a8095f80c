package k8smcs

import (
	"context"
	"reflect"
	"runtime"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/loadbalance"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// sink is where an answer ends up, seen through the writers that the plugins in
// front put around it. Any plugin may keep or change what it is handed, so what
// is not known to be harmless is not looked through.
type sink struct {
	// reuse: a message is packed and forgotten before WriteMsg returns, so that
	// its records can be used again.
	reuse bool
	// socket takes bytes as they are; nil when a plugin wants to see a message.
	socket dns.ResponseWriter
	// recorder is that of prometheus, which has to be told what went to the
	// socket; nil without one.
	recorder *metrics.Recorder
}

// sinkOf looks through w.
func sinkOf(w dns.ResponseWriter) sink {
	var s sink
	ordered, scrubbed := true, false
	for {
		switch t := w.(type) {
		case *request.ScrubWriter: // fits a message to the client's size; see packet
			w, scrubbed = t.ResponseWriter, true
		case *metrics.Recorder:
			if s.recorder != nil {
				return sink{}
			}
			w, s.recorder = t.ResponseWriter, t
		case *loadbalance.LoadBalanceResponseWriter:
			w, ordered = t.ResponseWriter, ordered && ordersAtRandom(t)
		default:
			switch rtype := reflect.TypeOf(w); {
			case rtype == trackerType: // notes the plugin's name
				w, _ = reflect.TypeAssert[dns.ResponseWriter](reflect.ValueOf(w).Elem().Field(trackerField))
			case scrubbed && isSocket(rtype):
				s.reuse = true
				if ordered {
					s.socket = w
				}
				return s
			default:
				return sink{}
			}
		}
	}
}

// trackerType is the writer that CoreDNS puts between two plugins, and
// trackerField its field with the writer inside.
var trackerType, trackerField = func() (tracker reflect.Type, field int) {
	look := plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
		tracker = reflect.TypeOf(w)
		return 0, nil
	})
	_, _ = plugin.NextOrFailure(pluginName, look, context.TODO(), nil, nil) //nolint:forbidigo // nothing waits here
	if tracker == nil || tracker.Kind() != reflect.Pointer || tracker.Elem().Kind() != reflect.Struct {
		return nil, 0
	}
	inside, ok := tracker.Elem().FieldByName("ResponseWriter")
	if !ok || len(inside.Index) != 1 {
		return nil, 0
	}
	return tracker, inside.Index[0]
}()

// ordersAtRandom reports a load balancer that puts records into random order,
// as they are already. One that prefers networks or has weights does more.
func ordersAtRandom(lb *loadbalance.LoadBalanceResponseWriter) bool {
	if orderField < 0 {
		return false
	}
	order := reflect.ValueOf(lb).Elem().Field(orderField).Pointer() // 0 for nil
	if order != 0 && order == randomOrder.Load() {
		return true
	}
	if f := runtime.FuncForPC(order); f == nil || f.Name() != "github.com/coredns/coredns/plugin/loadbalance.randomShuffle" {
		return false
	}
	randomOrder.Store(order)
	return true
}

// orderField is the field of a load balancer with the function that orders
// records, -1 when it has none; randomOrder is the function for random order, once
// it was seen.
var (
	orderField = func() int {
		field, ok := reflect.TypeFor[loadbalance.LoadBalanceResponseWriter]().FieldByName("shuffle")
		if !ok || len(field.Index) != 1 || field.Type.Kind() != reflect.Func {
			return -1
		}
		return field.Index[0]
	}()
	randomOrder atomic.Uintptr
)

// isSocket reports the writer of a UDP or TCP socket of miekg/dns. Others keep
// a message for later: DNS over HTTPS, gRPC, and plugins that ask for a name by
// themselves.
func isSocket(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Pointer {
		return false
	}
	if socketType.Load() == any(t) {
		return true
	}
	if t.Elem().Name() != "response" || t.Elem().PkgPath() != "github.com/miekg/dns" {
		return false
	}
	socketType.Store(t)
	return true
}

// socketType is that type, once it was seen.
var socketType atomic.Value
