package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// state is what stands of a service in tokyo2. The empty state is that of a
// service that is not imported.
type state struct {
	kind      string   // type of the import
	importIPs []string // of its spec
	clusters  []string // of its status
	derived   string   // name of the derived Service
	clusterIP string   // of the derived Service
	endpoints []string // address:port of ready ones, in slices
	object    string   // name of the v1 Endpoints
	classic   []string // as endpoints, in these
}

// lines are a state for comparison.
func (s state) lines() []string {
	var list []string
	add := func(what string, values ...string) {
		for _, v := range sorted(values) {
			if v != "" {
				list = append(list, what+" "+v)
			}
		}
	}
	add("type", s.kind)
	add("IP of the import", s.importIPs...)
	add("cluster", s.clusters...)
	add("derived Service", s.derived)
	add("ClusterIP", s.clusterIP)
	add("endpoint", s.endpoints...)
	add("Endpoints", s.object)
	add("address in them", s.classic...)
	return list
}

// clusterSetIP is the state of a service with a clusterset IP.
func clusterSetIP(service, ip string, clusters []string, endpoints ...string) state {
	derived := derivedOf(service)
	return state{
		kind: "ClusterSetIP", importIPs: []string{ip}, clusters: clusters, derived: derived, clusterIP: ip,
		endpoints: endpoints, object: derived, classic: endpoints,
	}
}

// derivedOf is the name of the derived Service of a service in namespace test.
func derivedOf(service string) string {
	return mcs.DerivedName("gke-mcs-", mcs.ServiceKey{Namespace: "test", Name: service})
}

// whereamiIs is the state of whereami with a clusterset IP.
func (s *story) whereamiIs(clusters []string, endpoints ...string) state {
	return clusterSetIP("whereami", s.ip, clusters, endpoints...)
}

// assigned waits until a service has a derived Service, and returns its IP.
func (s *story) assigned(ctx context.Context, service string) (ip string, err error) {
	err = s.await(ctx, "an IP for "+service, 5*time.Millisecond, func() error {
		live, err := s.client.CoreV1().Services("test").Get(ctx, derivedOf(service), metav1.GetOptions{})
		if err == nil {
			ip = live.Spec.ClusterIP
		}
		return err
	})
	return ip, err
}

// whole waits until the other services than whereami are in tokyo2 in full, so
// that nothing of what comes is still of what was.
func (s *story) whole(ctx context.Context) error {
	ip, err := s.assigned(ctx, "hello")
	if err != nil {
		return err
	}
	for service, want := range map[string]state{
		"hello":             clusterSetIP("hello", ip, []string{osaka1}, hello.ip+":8080"),
		"whereami-headless": {kind: "Headless", clusters: exporters, endpoints: endpointsOf(ordinals, exporters...)},
	} {
		f, err := s.until(ctx, service+" in "+tokyo2, want.lines(), func(ctx context.Context) ([]string, error) {
			got, err := s.look(ctx, service)
			return got.lines(), err
		})
		if err != nil {
			return err
		}
		if err := s.check(f); err != nil {
			return err
		}
	}
	return nil
}

// observe waits until tokyo2 has something of everything that is wanted, right
// or wrong, and looks at it. When that does not come about, it gives what there
// is, so that the difference can be shown.
func (w *world) observe(ctx context.Context, want expectation) (observation, error) {
	w.screen.step("waiting until %s has them", tokyo2)
	begin := time.Now()
	var got observation
	err := w.await(ctx, "whereami in "+tokyo2, 20*time.Millisecond, func() error {
		var err error
		if got.state, err = w.look(ctx, "whereami"); err != nil {
			return err
		}
		switch {
		case len(got.importIPs) == 0:
			return errors.New("it has no ServiceImport with an IP")
		case len(got.endpoints) < len(want.endpoints), len(got.classic) < len(want.endpoints):
			return fmt.Errorf("it has the endpoints %v", got.endpoints)
		case len(got.clusters) < len(want.clusters):
			return fmt.Errorf("its ServiceImport names the clusters %v", got.clusters)
		}
		reply, err := w.dns.ask(ctx, questions[0])
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
		reply, err := w.dns.ask(ctx, q)
		if err != nil {
			w.screen.step("%v", err)
			continue // compare misses it
		}
		got.answers[q] = reply
	}
	return got, nil
}

// look reads what stands of a service of namespace test in tokyo2.
func (w *world) look(ctx context.Context, service string) (state, error) {
	var got state
	live, err := w.dynamic.Resource(serviceImports).Namespace("test").Get(ctx, service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return got, err
	default:
		if err := readImport(&got, live); err != nil {
			return got, err
		}
	}
	services, err := w.client.CoreV1().Services("test").List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelOriginService + "=" + service})
	if err != nil {
		return got, err
	}
	for _, s := range services.Items {
		got.derived, got.clusterIP = s.Name, s.Spec.ClusterIP
	}
	slices, err := w.client.DiscoveryV1().EndpointSlices("test").List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=" + service})
	if err != nil {
		return got, err
	}
	for i := range slices.Items {
		got.endpoints = append(got.endpoints, readyEndpoints(&slices.Items[i])...)
	}
	classic, err := w.client.CoreV1().Endpoints("test").Get(ctx, derivedOf(service), metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return got, nil
		}
		return got, err
	}
	got.object = classic.Name
	for _, subset := range classic.Subsets {
		for _, address := range subset.Addresses {
			for _, port := range subset.Ports {
				got.classic = append(got.classic, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return got, nil
}

// readImport takes in what the import says.
func readImport(s *state, live *unstructured.Unstructured) (err error) {
	if s.kind, _, err = unstructured.NestedString(live.Object, "spec", "type"); err != nil {
		return err
	}
	if s.importIPs, _, err = unstructured.NestedStringSlice(live.Object, "spec", "ips"); err != nil {
		return err
	}
	clusters, _, err := unstructured.NestedSlice(live.Object, "status", "clusters")
	for _, cluster := range clusters {
		if fields, ok := cluster.(map[string]any); ok {
			s.clusters = append(s.clusters, fmt.Sprint(fields["cluster"]))
		}
	}
	return err
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
