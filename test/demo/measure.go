package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// change is something done in a peer, and what came of it in the consumer.
type change struct {
	what      string
	took      time.Duration
	want, got []string
}

// measure changes things in osaka1 and takes the time until tokyo2 has them.
func (w *world) measure(ctx context.Context) ([]change, error) {
	w.screen.title("How long a change takes")
	unready, err := w.measureUnready(ctx)
	if err != nil {
		return nil, err
	}
	exported, err := w.measureExport(ctx)
	if err != nil {
		return nil, err
	}
	return append(unready, exported...), nil
}

// measureUnready lets a Pod become unready and ready again.
func (w *world) measureUnready(ctx context.Context) ([]change, error) {
	var changes []change
	backend := backends[osaka1][1]
	for _, ready := range []bool{false, true} {
		backend.ready = ready
		source, err := watchReady(ctx, w.clusters[osaka1], discoveryv1.LabelServiceName+"=whereami", backend.ip, ready)
		if err != nil {
			return nil, err
		}
		mirror, err := watchReady(ctx, w.consumer, mcs.LabelServiceName+"=whereami", backend.ip, ready)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := apply(ctx, w.clusters[osaka1], backend.yaml()); err != nil {
			return nil, err
		}
		inSource, err := w.arrival(ctx, source)
		if err != nil {
			return nil, err
		}
		inMirror, err := w.arrival(ctx, mirror)
		if err != nil {
			return nil, err
		}
		c := change{what: fmt.Sprintf("Pod %s (%s) of %s becomes unready", backend.name, backend.ip, osaka1), took: inMirror.Sub(begin)}
		if ready {
			c.what = "the same Pod becomes ready again"
		}
		w.screen.line("  %-62s %7s  in the slices of %s (%s after the slice of %s)", c.what, short(c.took), tokyo2, short(max(0, inMirror.Sub(inSource))), osaka1)
		changes = append(changes, c)
	}
	return changes, nil
}

// measureExport exports a second Service and asks for its name until it is there.
func (w *world) measureExport(ctx context.Context) ([]change, error) {
	if err := apply(ctx, w.clusters[osaka1], hello.yaml(), service("hello", 80, "http")); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := apply(ctx, w.clusters[osaka1], export("hello")); err != nil {
		return nil, err
	}
	address := question{"udp", dns.TypeA, helloName}
	var reply answer
	err := w.await(ctx, "an answer for "+helloName, time.Millisecond, func() error {
		var err error
		if reply, err = w.ask(ctx, address); err != nil {
			return err
		}
		if len(reply.message.Answer) == 0 {
			return fmt.Errorf("it is %v", reply.lines())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	derived := mcs.DerivedName("gke-mcs-", mcs.ServiceKey{Namespace: "test", Name: "hello"})
	live, err := w.client.CoreV1().Services("test").Get(ctx, derived, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	port := question{"udp", dns.TypeSRV, "_http._tcp." + helloName}
	portReply, err := w.ask(ctx, port)
	if err != nil {
		return nil, err
	}
	changes := []change{
		{
			what: "Service hello is exported from " + osaka1,
			took: took,
			want: []string{"status NOERROR", "answer " + helloName + " A " + live.Spec.ClusterIP},
			got:  reply.lines(),
		},
		{
			what: "answer to " + port.String(),
			took: portReply.took,
			want: []string{"status NOERROR", "answer " + port.name + " SRV 0 100 80 " + helloName, "additional " + helloName + " A " + live.Spec.ClusterIP},
			got:  portReply.lines(),
		},
	}
	w.screen.line("  %-62s %7s  in the answer of mcs-core-dns", changes[0].what, short(took))
	w.screen.answer(port.dig(w.dnsPort), "its port by name", portReply)
	return changes, nil
}

// arrival is when a watch has seen what it waits for.
func (w *world) arrival(ctx context.Context, seen <-chan time.Time) (time.Time, error) {
	select {
	case at, ok := <-seen:
		if !ok {
			return at, errors.New("a watch on EndpointSlices ended early")
		}
		return at, nil
	case err := <-w.failed:
		return time.Time{}, err
	case <-time.After(timeout):
		return time.Time{}, fmt.Errorf("a change in %s did not come to %s within %v", osaka1, tokyo2, timeout)
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

// watchReady tells when an address in the selected slices first is ready, or
// is no more. The watch is open when it returns.
func watchReady(ctx context.Context, c *kubetest.Cluster, selector, ip string, ready bool) (<-chan time.Time, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	endpointSlices := client.DiscoveryV1().EndpointSlices("test")
	now, err := endpointSlices.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	watch, err := endpointSlices.Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: now.ResourceVersion})
	if err != nil {
		return nil, err
	}
	seen := make(chan time.Time, 1)
	go func() {
		defer close(seen)
		defer watch.Stop()
		for event := range watch.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				is := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
				if slices.Contains(endpoint.Addresses, ip) && is == ready {
					seen <- time.Now()
					return
				}
			}
		}
	}()
	return seen, nil
}
