package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/plugin/zone"
)

// stream is a recorded API server: the first lists of size L, as streaming
// lists in the encodings that a real one gives, and then one event a request.
type stream struct {
	imports, slices []byte
	more            chan []byte
}

// sizeL are 5,000 services with 100,000 endpoints, of which 1,000 are headless
// with 3, 50 or 250 endpoints, as syncd writes them.
func sizeL(b *testing.B) *stream {
	b.Helper()
	s := &stream{more: make(chan []byte)}
	var imports, slices bytes.Buffer
	n := 0
	address := func() string { n++; return fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255) }
	for i := range 5000 {
		endpoints, headless := 10, i%5 == 0
		if headless {
			endpoints = []int{3, 3, 50, 3, 50, 250}[i/5%6]
		}
		name, namespace := fmt.Sprint("service-", i), fmt.Sprint("team-", i%40)
		in := api.ServiceImport{
			TypeMeta: metav1.TypeMeta{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: namespace, UID: "6b1f3fd2-8f8e-4b6e-9d2c-1a2b3c4d5e6f", ResourceVersion: fmt.Sprint(i + 1), Generation: 1,
				Labels:      map[string]string{mcs.LabelManagedBy: mcs.ManagedBy},
				Annotations: map[string]string{mcs.AnnotationExports: strings.Repeat(`{"v":1,"basil":{"t":"ClusterSetIP"}}`, 6)},
				ManagedFields: []metav1.ManagedFieldsEntry{{
					Manager: "syncd", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "multicluster.x-k8s.io/v1beta1", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:spec":{".":{},"f:ips":{},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}},"f:type":{}}}`),
				}},
			},
			Spec: api.ServiceImportSpec{Type: api.ClusterSetIP, IPs: []string{address()}, Ports: []api.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}},
		}
		if headless {
			in.Spec.Type, in.Spec.IPs = api.Headless, nil
		}
		event(b, &imports, "ADDED", &in, nil)
		for c := 0; endpoints > 0; c++ {
			size := min(endpoints, 100)
			endpoints -= size
			event(b, &slices, "ADDED", sliceOf(namespace, name, c, size, address), protobufs)
		}
	}
	bookmark := metav1.ObjectMeta{ResourceVersion: "9999", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	event(b, &imports, "BOOKMARK", &api.ServiceImport{
		TypeMeta: metav1.TypeMeta{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport"}, ObjectMeta: bookmark,
	}, nil)
	event(b, &slices, "BOOKMARK", &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}, ObjectMeta: bookmark,
	}, protobufs)
	s.imports, s.slices = imports.Bytes(), slices.Bytes()
	return s
}

func sliceOf(namespace, service string, c, size int, address func() string) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-0123456789a%d", service, c), Namespace: namespace, UID: "6b1f3fd2-8f8e-4b6e-9d2c-1a2b3c4d5e6f", ResourceVersion: "17",
			Labels: map[string]string{
				mcs.LabelServiceName: service, mcs.LabelSourceCluster: fmt.Sprint("cluster-", c%3),
				mcs.LabelSliceManagedBy: mcs.ManagedBy, mcs.LabelSliceService: "mcs-isu46k25p2",
			},
			Annotations: map[string]string{mcs.AnnotationTriggerTime: time.Now().UTC().Format(time.RFC3339Nano)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80))}},
	}
	for e := range size {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address()}, Hostname: new(fmt.Sprintf("%s-%d-%d", service, c, e)),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new("node-a"), Zone: new("zone-a"),
		})
	}
	return out
}

var protobufs k8sruntime.Encoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// event writes a watch event; as JSON without an encoder.
func event(b *testing.B, to *bytes.Buffer, typ string, object k8sruntime.Object, encoder k8sruntime.Encoder) {
	b.Helper()
	var raw bytes.Buffer
	var err error
	if encoder == nil {
		err = json.NewEncoder(&raw).Encode(object)
	} else {
		err = encoder.Encode(object, &raw)
	}
	if err != nil {
		b.Fatal(err)
	}
	e := metav1.WatchEvent{Type: typ, Object: k8sruntime.RawExtension{Raw: raw.Bytes()}}
	if encoder == nil {
		err = json.NewEncoder(to).Encode(e)
	} else {
		var frame []byte
		if frame, err = e.Marshal(); err == nil {
			_, err = protobuf.LengthDelimitedFramer.NewFrameWriter(to).Write(frame)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}

// ServeHTTP implements http.Handler.
func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, kind := s.slices, "application/vnd.kubernetes.protobuf;stream=watch"
	if strings.HasSuffix(r.URL.Path, "serviceimports") {
		body, kind = s.imports, "application/json"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
	for {
		_ = http.NewResponseController(w).Flush()
		var more chan []byte
		if kind != "application/json" {
			more = s.more
		}
		select {
		case <-r.Context().Done():
			return
		case e := <-more:
			_, _ = w.Write(e)
		}
	}
}

// published counts the zones that were published.
type published struct {
	notes
	count atomic.Int64
	news  chan struct{}
}

func (p *published) Published(time.Duration) {
	p.count.Add(1)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func follow(b *testing.B, s *stream) (src *Source, p *published, stop func()) {
	b.Helper()
	server := httptest.NewServer(s)
	p = &published{news: make(chan struct{}, 1)}
	src, err := New(Options{
		Config: &rest.Config{Host: server.URL}, Zone: zone.Options{Origins: []string{"clusterset.local."}},
		UserAgent: "bench", Log: p, Observer: p,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); src.Run(ctx) }()
	return src, p, func() { cancel(); <-ended; server.CloseClientConnections(); server.Close() }
}

// BenchmarkStart is from Run until all names of size L are answered.
func BenchmarkStart(b *testing.B) {
	s := sizeL(b)
	for b.Loop() {
		src, _, stop := follow(b, s)
		<-src.Synced()
		b.StopTimer()
		var m runtime.MemStats
		rss := residentMB()
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc-uint64(len(s.imports)+len(s.slices)))/100_000, "heap-B/endpoint")
		b.ReportMetric(rss, "RSS-MB")
		runtime.KeepAlive(src)
		stop()
		b.StartTimer()
	}
}

func residentMB() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident float64
	_, _ = fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// BenchmarkChange is from the write of a slice's event until it is published.
func BenchmarkChange(b *testing.B) {
	s := sizeL(b)
	src, p, stop := follow(b, s)
	defer stop()
	<-src.Synced()
	<-p.news
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		var e bytes.Buffer
		b.StopTimer()
		event(b, &e, "MODIFIED", sliceOf("team-0", "service-0", 0, 10, func() string { n++; return fmt.Sprintf("10.200.%d.%d", n>>8&255, n&255) }), protobufs)
		b.StartTimer()
		s.more <- e.Bytes()
		<-p.news
	}
}
