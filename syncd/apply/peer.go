package apply

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// TellPeer creates an event about the Secret of a peer.
func (w *Writer) TellPeer(ctx context.Context, secret *corev1.Secret, event plan.Event) {
	w.tell(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), secret, []plan.Event{event})
}
