package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	mcsscheme "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned/scheme"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// ServiceImports come as JSON, and the general decoder reads each text seven
// times and keeps fields that DNS has no use for: with 5,000 of them that is
// half of the time until all answers are right. The decoders of this file read
// a text three times, and take only what [convertImport] looks at.

// leanImports watches ServiceImports.
type leanImports struct{ client rest.Interface }

func newLeanImports(config *rest.Config) (*leanImports, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.GroupVersion, config.APIPath = &v1beta1.SchemeGroupVersion, "/apis"
	config.NegotiatedSerializer = leanSerializer{mcsscheme.Codecs.WithoutConversion()}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &leanImports{client}, nil
}

func (l *leanImports) watch(ctx context.Context, namespace string, options metav1.ListOptions) (apiwatch.Interface, error) {
	var timeout time.Duration
	if options.TimeoutSeconds != nil {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	options.Watch = true
	return l.client.Get().NamespaceIfScoped(namespace, namespace != "").Resource("serviceimports").
		VersionedParams(&options, mcsscheme.ParameterCodec).Timeout(timeout).Watch(ctx)
}

// leanSerializer is that of the scheme, but for what is read of a watch.
type leanSerializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (l leanSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	for _, info := range l.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON {
			stream := *info.StreamSerializer
			stream.Serializer = leanEvents{stream.Serializer}
			info.StreamSerializer = &stream
			return []runtime.SerializerInfo{info}
		}
	}
	return nil
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (l leanSerializer) DecoderToVersion(d runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return leanObjects{l.NegotiatedSerializer.DecoderToVersion(d, version)}
}

// leanEvents takes a watch event apart.
type leanEvents struct{ runtime.Serializer }

// Decode implements runtime.Decoder. The form is the one that an API server
// writes; any other is left to the general decoder.
func (l leanEvents) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return l.Serializer.Decode(data, defaults, into)
	}
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte(`{"type":"`))
	typ, rest, ok2 := bytes.Cut(rest, []byte(`","object":`))
	object, ok3 := bytes.CutSuffix(rest, []byte(`}`))
	if !ok || !ok2 || !ok3 {
		return l.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object.Raw = string(typ), object // valid until the next event, and decoded before
	return event, nil, nil
}

// leanObjects decodes ServiceImports, and leaves all else to the general decoder.
type leanObjects struct{ runtime.Decoder }

// leanImport is what DNS needs of a ServiceImport, and the Reflector of a bookmark.
type leanImport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
		Annotations     struct {
			InitialEventsEnd string `json:"k8s.io/initial-events-end"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type  api.ServiceImportType `json:"type"`
		IPs   []string              `json:"ips"`
		Ports []api.ServicePort     `json:"ports"`
	} `json:"spec"`
}

// Decode implements runtime.Decoder.
func (l leanObjects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into != nil {
		return l.Decoder.Decode(data, defaults, into)
	}
	var in leanImport
	if err := json.Unmarshal(data, &in); err != nil || in.Kind != "ServiceImport" || in.APIVersion != v1beta1.SchemeGroupVersion.String() {
		return l.Decoder.Decode(data, defaults, into) // a Status, or something with a better error
	}
	out := &api.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: in.Metadata.Name, Namespace: in.Metadata.Namespace, ResourceVersion: in.Metadata.ResourceVersion},
		Spec:       api.ServiceImportSpec{Type: in.Spec.Type, IPs: in.Spec.IPs, Ports: in.Spec.Ports},
	}
	if end := in.Metadata.Annotations.InitialEventsEnd; end != "" {
		out.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	kind := v1beta1.SchemeGroupVersion.WithKind(in.Kind)
	return out, &kind, nil
}
