package apply

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

func TestEventsAreAboutTheirObjectAndBounded(t *testing.T) {
	kube := fake.NewClientset()
	wrote := 0
	w := NewWriter(watch.Clients{Kube: kube}, nil, func(resource string, verb plan.Verb, err error) {
		if resource != "events" || verb != plan.Create || err != nil {
			t.Errorf("wrote %s %s: %v", verb, resource, err)
		}
		wrote++
	})
	about := &api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}}
	w.tell(t.Context(), exportKind, about, []plan.Event{
		{Warning: true, Reason: "Conflict", Message: strings.Repeat("ä", maxEventMessage)},
		{Reason: "NoConflicts", Message: "all agree"},
	})
	list, err := kube.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || wrote != 2 {
		t.Fatalf("events are %v, %v; %d told", list, err, wrote)
	}
	want := corev1.ObjectReference{
		APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceExport", Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7",
	}
	for _, e := range list.Items {
		if e.InvolvedObject != want || (e.Type == corev1.EventTypeWarning) != (e.Reason == "Conflict") || e.Source.Component != component {
			t.Errorf("event is %+v", e)
		}
		if len(e.Message) > maxEventMessage || !utf8.ValidString(e.Message) {
			t.Errorf("message has %d bytes", len(e.Message))
		}
	}

	w.tell(t.Context(), exportKind, about, make([]plan.Event, 2*eventBurst))
	if wrote < eventBurst || wrote > eventBurst+5 {
		t.Errorf("%d events in a moment, want about %d", wrote, eventBurst)
	}
}
