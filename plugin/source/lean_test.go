package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsscheme "sigs.k8s.io/mcs-api/pkg/client/clientset/versioned/scheme"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// TestLeanDecodersReadWhatTheGeneralOnesRead decodes watch events both ways.
func TestLeanDecodersReadWhatTheGeneralOnesRead(t *testing.T) {
	general := mcsscheme.Codecs.WithoutConversion()
	lean := leanSerializer{general}
	const head = `{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","metadata":`
	for name, text := range map[string]string{
		"ClusterSetIP": `{"type":"ADDED","object":` + head + `{"name":"pear","namespace":"orchard","uid":"1","resourceVersion":"7","labels":{"a":"b"},"annotations":{"k8s-mcs.io/exports":"{\"type\":\"\"}"}},` +
			`"spec":{"ips":["10.96.7.10","fd00::1"],"ports":[{"name":"http","port":80,"protocol":"TCP","appProtocol":"h2c"},{"port":53,"protocol":"UDP"}],"type":"ClusterSetIP","sessionAffinity":"None"},"status":{"clusters":[{"cluster":"basil"}]}}}` + "\n",
		"Headless":              `{"type":"MODIFIED","object":` + head + `{"name":"fig","namespace":"orchard","resourceVersion":"8"},"spec":{"type":"Headless","ports":[]}}}`,
		"a bookmark":            `{"type":"BOOKMARK","object":` + head + `{"resourceVersion":"9","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"ports":null,"type":""}}}`,
		"escaped text":          `{"type":"ADDED","object":` + head + `{"name":"p\u0065ar","namespace":"orch\"ard","resourceVersion":"7"},"spec":{"type":"ClusterSetIP","ips":["\"},\"object\":"]}}}`,
		"spaces":                ` { "type": "DELETED", "object": ` + head + `{"name":"pear","namespace":"orchard","resourceVersion":"7"},"spec":{"type":"ClusterSetIP"}} } `,
		"the object first":      `{"object":` + head + `{"name":"pear","namespace":"orchard","resourceVersion":"7"},"spec":{"type":"ClusterSetIP"}},"type":"ADDED"}`,
		"no spec":               `{"type":"ADDED","object":` + head + `{"name":"pear","namespace":"orchard"}}}`,
		"an error":              `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","reason":"Expired","code":410,"message":"too old"}}`,
		"a port out of range":   `{"type":"ADDED","object":` + head + `{"name":"pear"},"spec":{"ports":[{"port":99999999999}]}}}`,
		"an object of no kind":  `{"type":"ADDED","object":{"metadata":{"name":"pear"}}}`,
		"something else":        `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pear"}}}`,
		"an object that breaks": `{"type":"ADDED","object":` + head + `{"name":"pear"}`,
	} {
		t.Run(name, func(t *testing.T) {
			read := func(codecs runtime.NegotiatedSerializer) (*metav1.WatchEvent, runtime.Object, error) {
				for _, info := range codecs.SupportedMediaTypes() {
					if info.MediaType != runtime.ContentTypeJSON {
						continue
					}
					e := &metav1.WatchEvent{}
					if _, _, err := info.StreamSerializer.Decode([]byte(text), nil, e); err != nil {
						return nil, nil, err
					}
					object, err := runtime.Decode(codecs.DecoderToVersion(info.Serializer, nil), e.Object.Raw)
					return e, object, err
				}
				t.Fatal("no JSON")
				return nil, nil, nil
			}
			wantEvent, want, wantErr := read(general)
			gotEvent, got, gotErr := read(lean)
			if (wantErr == nil) != (gotErr == nil) {
				t.Fatalf("the general decoder says %v, the lean one %v", wantErr, gotErr)
			}
			if wantErr != nil {
				return
			}
			if gotEvent.Type != wantEvent.Type {
				t.Errorf("type is %s, want %s", gotEvent.Type, wantEvent.Type)
			}
			if in, ok := want.(*api.ServiceImport); ok {
				want = only(in)
			} else if err := apierrors.FromObject(got); !apierrors.IsResourceExpired(err) {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differs (-general +lean):\n%s", diff)
			}
		})
	}
}

// only is what the plugin and the Reflector look at.
func only(in *api.ServiceImport) *api.ServiceImport {
	out := &api.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: in.Namespace, ResourceVersion: in.ResourceVersion},
		Spec:       api.ServiceImportSpec{Type: in.Spec.Type, IPs: in.Spec.IPs, Ports: in.Spec.Ports},
	}
	if end, ok := in.Annotations[metav1.InitialEventsAnnotationKey]; ok {
		out.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	return out
}
