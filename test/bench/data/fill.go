package data

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	mcsclient "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"
)

// Writer writes services to an API server as an importing cluster has them:
// the import with its status, the derived Service and the slices, which carry
// the labels of both.
type Writer struct {
	kube kubernetes.Interface
	mcs  mcsclient.Interface
}

// SliceSelector selects imported EndpointSlices.
const SliceSelector = mcsv1beta1.LabelServiceName

// writers is how many requests are under way at once.
const writers = 16

// NewWriter makes a Writer that is not limited in its requests.
func NewWriter(config *rest.Config) (*Writer, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	mcs, err := mcsclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &Writer{kube: kube, mcs: mcs}, nil
}

// Kube is the client of Kubernetes' own objects, which speaks protobuf.
func (w *Writer) Kube() kubernetes.Interface { return w.kube }

// Namespaces creates them.
func (w *Writer) Namespaces(ctx context.Context, names []string) error {
	for _, name := range names {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := w.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace: %w", err)
		}
	}
	return nil
}

// Write creates the objects of services.
func (w *Writer) Write(ctx context.Context, services []*Service) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	todo := make(chan *Service)
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for s := range todo {
				if err := w.create(ctx, s); err != nil {
					stop(fmt.Errorf("create %s/%s: %w", s.Namespace, s.Name, err))
				}
			}
		})
	}
	for _, s := range services {
		todo <- s
	}
	close(todo)
	wait.Wait()
	return context.Cause(ctx)
}

func (w *Writer) create(ctx context.Context, s *Service) error {
	imports := w.mcs.MulticlusterV1beta1().ServiceImports(s.Namespace)
	imp, err := imports.Create(ctx, s.serviceImport(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, sl := range s.Slices {
		imp.Status.Clusters = append(imp.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: sl.Cluster})
	}
	if _, err := imports.UpdateStatus(ctx, imp, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := w.kube.CoreV1().Services(s.Namespace).Create(ctx, s.derivedService(), metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range s.Slices {
		if _, err := w.kube.DiscoveryV1().EndpointSlices(s.Namespace).Create(ctx, s.endpointSlice(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) derived() string { return "mcs-" + s.Name }

func (s *Service) serviceImport() *mcsv1beta1.ServiceImport {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}}
	imp.Spec.Type = mcsv1beta1.Headless
	if s.Kind == ClusterSetIP {
		imp.Spec.Type, imp.Spec.IPs = mcsv1beta1.ClusterSetIP, []string{s.IP}
	}
	for _, p := range s.Ports {
		imp.Spec.Ports = append(imp.Spec.Ports, mcsv1beta1.ServicePort{Name: p.Name, Port: p.Number, Protocol: corev1.ProtocolTCP})
	}
	return imp
}

// derivedService has no ClusterIP: the API server would have to allocate one,
// and nobody here asks for it.
func (s *Service) derivedService() *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.derived(), Namespace: s.Namespace}}
	svc.Spec.ClusterIP = corev1.ClusterIPNone
	for _, p := range s.Ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: p.Name, Port: p.Number, Protocol: corev1.ProtocolTCP})
	}
	return svc
}

func (s *Service) endpointSlice(i int) *discoveryv1.EndpointSlice {
	sl := s.Slices[i]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: sl.Name, Namespace: s.Namespace,
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName:   s.Name,
				mcsv1beta1.LabelSourceCluster: sl.Cluster,
				discoveryv1.LabelServiceName:  s.derived(),
				discoveryv1.LabelManagedBy:    "bench",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range s.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Number, Protocol: new(corev1.ProtocolTCP)})
	}
	for j, e := range sl.Endpoints {
		pod := fmt.Sprintf("%s-%d", s.Name, j)
		ep := discoveryv1.Endpoint{
			Addresses:  []string{e.Address},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: pod},
		}
		if e.Host != "" {
			ep.Hostname = &e.Host
		}
		slice.Endpoints = append(slice.Endpoints, ep)
	}
	return slice
}

// SetAddress gives an endpoint of a slice another address.
func (w *Writer) SetAddress(ctx context.Context, s *Service, slice, endpoint int, address string) error {
	object := s.endpointSlice(slice)
	object.Endpoints[endpoint].Addresses = []string{address}
	if _, err := w.kube.DiscoveryV1().EndpointSlices(s.Namespace).Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update EndpointSlice %s/%s: %w", s.Namespace, object.Name, err)
	}
	return nil
}
