package apply

import (
	"context"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/internal/watch"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

// TellExport creates an event about a ServiceExport.
func (w *Writer) TellExport(ctx context.Context, export *api.ServiceExport, event plan.Event) {
	w.tell(ctx, exportKind, export, []plan.Event{event})
}

// TellGKEExport is TellExport for the kind of net.gke.io.
func (w *Writer) TellGKEExport(ctx context.Context, export *api.ServiceExport, event plan.Event) {
	w.tell(ctx, watch.GKEExportKind, export, []plan.Event{event})
}
