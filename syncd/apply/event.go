package apply

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// component is who tells the events.
const component = "syncd"

// maxEventMessage is what the API's own recorders keep to, in bytes.
const maxEventMessage = 1024

// The bound on events: a peer can make conflicts as fast as it likes. What is over
// is lost; the conditions say it all the same.
const (
	eventEvery = time.Second
	eventBurst = 100
)

// tell creates events about an object. One that fails is counted and no more:
// the condition that it repeats is written.
func (w *Writer) tell(ctx context.Context, kind schema.GroupVersionKind, about metav1.Object, events []plan.Event) {
	for _, e := range events {
		if !w.events.Allow() {
			return
		}
		now := metav1.Now()
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: about.GetNamespace(),
				Name:      fmt.Sprintf("%s.%x", about.GetName(), now.UnixNano()),
			},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
				Namespace: about.GetNamespace(), Name: about.GetName(),
				UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
			},
			Type: corev1.EventTypeNormal, Reason: e.Reason, Message: e.Message,
			FirstTimestamp: now, LastTimestamp: now, Count: 1,
			Source:              corev1.EventSource{Component: component},
			ReportingController: component,
		}
		if e.Warning {
			event.Type = corev1.EventTypeWarning
		}
		if len(event.Message) > maxEventMessage {
			event.Message = strings.ToValidUTF8(event.Message[:maxEventMessage-3], "") + "..."
		}
		_, err := w.clients.Kube.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		w.wrote("events", plan.Create, err)
	}
}
