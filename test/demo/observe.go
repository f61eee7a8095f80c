package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var serviceImports = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}

// observe waits until the consumer has something of everything that is wanted,
// right or wrong, and looks at it. When that does not come about, it gives what
// there is, so that the difference can be shown.
func (w *world) observe(ctx context.Context, want expectation) (observation, error) {
	w.screen.step("waiting until %s has them", tokyo2)
	begin := time.Now()
	var got observation
	err := w.await(ctx, "whereami in "+tokyo2, 20*time.Millisecond, func() error {
		var err error
		if got, err = w.look(ctx); err != nil {
			return err
		}
		switch {
		case len(got.importIPs) == 0:
			return errors.New("its ServiceImport has no IP")
		case len(got.endpoints) < len(want.endpoints):
			return fmt.Errorf("it has the endpoints %v", got.endpoints)
		case len(got.clusters) < len(want.clusters):
			return fmt.Errorf("its ServiceImport names the clusters %v", got.clusters)
		}
		reply, err := w.ask(ctx, questions[0])
		if err != nil {
			return err
		}
		if len(reply.message.Answer) == 0 {
			return fmt.Errorf("its name is answered by %v", reply.lines())
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return got, context.Cause(ctx)
	case err != nil:
		w.screen.step("%v", err)
	default:
		w.screen.step("there, %s after the export", short(time.Since(begin)))
	}
	got.answers = map[question]answer{}
	for _, q := range questions {
		reply, err := w.ask(ctx, q)
		if err != nil {
			w.screen.step("%v", err)
			continue // check misses it
		}
		got.answers[q] = reply
	}
	return got, nil
}

// look reads the objects of whereami in the consumer.
func (w *world) look(ctx context.Context) (observation, error) {
	var got observation
	live, err := w.dynamic.Resource(serviceImports).Namespace("test").Get(ctx, "whereami", metav1.GetOptions{})
	if err != nil {
		return got, err
	}
	if got.importIPs, _, err = unstructured.NestedStringSlice(live.Object, "spec", "ips"); err != nil {
		return got, err
	}
	clusters, _, err := unstructured.NestedSlice(live.Object, "status", "clusters")
	if err != nil {
		return got, err
	}
	for _, cluster := range clusters {
		if fields, ok := cluster.(map[string]any); ok {
			got.clusters = append(got.clusters, fmt.Sprint(fields["cluster"]))
		}
	}
	services, err := w.client.CoreV1().Services("test").List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelOriginService + "=whereami"})
	if err != nil {
		return got, err
	}
	for _, service := range services.Items {
		got.derived, got.clusterIP = service.Name, service.Spec.ClusterIP
	}
	slices, err := w.client.DiscoveryV1().EndpointSlices("test").List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=whereami"})
	if err != nil {
		return got, err
	}
	for i := range slices.Items {
		got.endpoints = append(got.endpoints, readyEndpoints(&slices.Items[i])...)
	}
	return got, nil
}

// readyEndpoints are the ready ones of a slice, as address:port.
func readyEndpoints(slice *discoveryv1.EndpointSlice) []string {
	var list []string
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
			continue
		}
		for _, port := range slice.Ports {
			for _, address := range endpoint.Addresses {
				list = append(list, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return list
}
