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

// measure changes things in osaka1 and takes the time until tokyo2 has them.
func (s *story) measure(ctx context.Context) error {
	backend := backends[osaka1][1]
	for _, ready := range []bool{false, true} {
		backend.ready = ready
		what := fmt.Sprintf("Pod %s (%s) of %s becomes unready", backend.name, backend.ip, osaka1)
		if ready {
			what = "the same Pod becomes ready again"
		}
		if err := s.turn(ctx, what, backend); err != nil {
			return err
		}
	}
	return s.measureExport(ctx)
}

// turn makes a Pod of osaka1 what its readiness says.
func (s *story) turn(ctx context.Context, what string, backend pod) error {
	source, err := watchReady(ctx, s.clusters[osaka1], discoveryv1.LabelServiceName+"=whereami", backend.ip, backend.ready)
	if err != nil {
		return err
	}
	mirror, err := watchReady(ctx, s.consumer, mcs.LabelServiceName+"=whereami", backend.ip, backend.ready)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := apply(ctx, s.clusters[osaka1], backend.yaml()); err != nil {
		return err
	}
	inSource, err := s.arrival(ctx, source)
	if err != nil {
		return err
	}
	inMirror, err := s.arrival(ctx, mirror)
	if err != nil {
		return err
	}
	s.screen.took(what, inMirror.Sub(begin), fmt.Sprintf("in the slices of %s (%s after the slice of %s)", tokyo2, short(max(0, inMirror.Sub(inSource))), osaka1))
	s.right++
	return nil
}

// measureExport exports a second Service and asks for its name until it is there.
func (s *story) measureExport(ctx context.Context) error {
	if err := apply(ctx, s.clusters[osaka1], hello.yaml(), service("hello", 80, "http")); err != nil {
		return err
	}
	begin := time.Now()
	if err := apply(ctx, s.clusters[osaka1], export("hello")); err != nil {
		return err
	}
	address := question{"udp", dns.TypeA, helloName}
	err := s.await(ctx, "an answer for "+helloName, time.Millisecond, func() error {
		reply, err := s.dns.ask(ctx, address)
		if err == nil && len(reply.message.Answer) == 0 {
			err = fmt.Errorf("it is %v", reply.lines())
		}
		return err
	})
	if err != nil {
		return err
	}
	s.screen.took("Service hello is exported from "+osaka1, time.Since(begin), "in the answer of mcs-core-dns")
	ip, err := s.assigned(ctx, "hello")
	if err != nil {
		return err
	}
	if err := s.dig(ctx, address, "its clusterset IP", "NOERROR", ip); err != nil {
		return err
	}
	port := question{"udp", dns.TypeSRV, "_http._tcp." + helloName}
	lines := slices.Concat([]string{"status NOERROR"}, port.records("0 100 80 "+helloName), []string{"additional " + helloName + " A " + ip})
	return s.digAt(ctx, s.dns, port, "its port by name", lines)
}

// hello is exported later than the others, to see how long that takes.
var hello = pod{name: "hello-5d5b7-w4vmc", node: "osa-node-0", ip: "10.6.0.21", service: "hello", ready: true}

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
