package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Words of the Ready condition of a ServiceImport.
const (
	ConditionReady             = string(v1beta1.ServiceImportConditionReady)
	ReasonReady                = string(v1beta1.ServiceImportReasonReady)
	ReasonPending              = string(v1beta1.ServiceImportReasonPending)
	ReasonIPFamilyNotSupported = string(v1beta1.ServiceImportReasonIPFamilyNotSupported)
	messageReady               = "The service can be reached by its clusterset name"
	messageNoFamily            = "The exporters share no IP family with this cluster"
	messageNoService           = "The derived Service has no clusterset IP yet"
)

// ImportInput is what a ServiceImport is computed from.
type ImportInput struct {
	// Import is nil when nobody exports the service.
	Import *model.Import
	// Exports are the offers behind it in order of precedence.
	Exports []model.Export
	// Service is the derived Service as it stands now, nil when there is none.
	Service *corev1.Service
	// Refusal is why the derived Service could not be written, "" when it could.
	Refusal string
	// Slices are the mirrored slices as they stand.
	Slices []*discoveryv1.EndpointSlice
	// Have is the ServiceImport as it stands here, nil when there is none.
	Have *api.ServiceImport
}

// ServiceImport plans the import object of a service, but for its status.
func ServiceImport(in ImportInput, local Local) Change[*api.ServiceImport] {
	if in.Import == nil {
		if in.Have == nil {
			return Change[*api.ServiceImport]{}
		}
		return Change[*api.ServiceImport]{Verb: Delete, Object: in.Have, Why: "no cluster exports it any more"}
	}
	text, _ := model.EncodeExports(in.Exports)
	if in.Have == nil {
		want := &api.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: in.Import.Key.Namespace, Name: in.Import.Key.Name}}
		setImport(want, in, text, local)
		return Change[*api.ServiceImport]{Verb: Create, Object: want, Why: "exported, but not imported yet"}
	}
	want := in.Have.DeepCopy()
	setImport(want, in, text, local)
	if apiequality.Semantic.DeepEqual(in.Have, want) {
		return Change[*api.ServiceImport]{Object: in.Have}
	}
	return Change[*api.ServiceImport]{Verb: Update, Object: want, Why: "the import differs from the merge"}
}

// ImportStatus plans the status of an import that exists as in.Have. now dates
// a condition that changes.
func ImportStatus(in ImportInput, local Local, now metav1.Time) Change[*api.ServiceImport] {
	want := in.Have.DeepCopy()
	want.Status = importStatus(in, local, now)
	if apiequality.Semantic.DeepEqual(in.Have.Status, want.Status) {
		return Change[*api.ServiceImport]{Object: in.Have}
	}
	return Change[*api.ServiceImport]{
		Verb: Update, Object: want, Why: "the status differs from what is",
		Events: EventsOf(in.Have.Status.Conditions, want.Status.Conditions, isBad),
	}
}

// OwnsImport reports whether a ServiceImport is syncd's.
func OwnsImport(i *api.ServiceImport) bool { return i.Labels[mcs.LabelManagedBy] == mcs.ManagedBy }

// PortsOf are the ports of an import as it stands, nil for none: the merge keeps
// the names that it once gave.
func PortsOf(have *api.ServiceImport) []model.Port {
	if have == nil {
		return nil
	}
	ports := make([]model.Port, 0, len(have.Spec.Ports))
	for _, p := range have.Spec.Ports {
		ports = append(ports, model.Port{Name: p.Name, Protocol: string(p.Protocol), Number: p.Port})
	}
	return ports
}

// isBad tells which conditions of an import make events: all are true when all is
// well, and an import that waits for its address is on its way.
func isBad(c metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && c.Message != messageNoService
}

func setImport(want *api.ServiceImport, in ImportInput, exports string, local Local) {
	before := priorExports(in)
	metadata := travelling(*in.Import)
	want.Labels = exported(want.Labels, before, metadata.labels, func(e model.Export) map[string]string { return e.Labels })
	want.Labels[mcs.LabelManagedBy] = mcs.ManagedBy
	want.Annotations = exported(want.Annotations, before, metadata.annotations, func(e model.Export) map[string]string { return e.Annotations })
	want.Annotations[mcs.AnnotationExports] = exports
	setIf(local.GKECompat && in.Service != nil && in.Import.Kind == model.ClusterSetIP,
		want.Annotations, mcs.GKEAnnotationDerived, mcs.DerivedName(local.Prefix, in.Import.Key))

	spec := api.ServiceImportSpec{
		Type:  api.ServiceImportType(in.Import.Kind),
		Ports: make([]api.ServicePort, 0, len(in.Import.Ports)), // null is refused
	}
	for _, p := range in.Import.Ports {
		spec.Ports = append(spec.Ports, api.ServicePort{
			Name: p.Name, Protocol: corev1.Protocol(p.Protocol), Port: p.Number, AppProtocol: optional(p.AppProtocol),
		})
	}
	if in.Import.Kind == model.ClusterSetIP {
		spec.SessionAffinity, spec.SessionAffinityConfig = affinity(*in.Import)
		if in.Import.InternalTrafficPolicy != "" {
			policy := corev1.ServiceInternalTrafficPolicy(in.Import.InternalTrafficPolicy)
			spec.InternalTrafficPolicy = &policy
		}
		spec.TrafficDistribution = optional(in.Import.TrafficDistribution)
		if in.Service != nil {
			spec.IPs = clusterIPs(in.Service)
			spec.IPFamilies = slices.Clone(in.Service.Spec.IPFamilies)
		}
	}
	want.Spec = spec
}

// priorExports are the offers behind the import as it stands: what they
// exported as labels is ours to take away. An unreadable annotation gives none.
func priorExports(in ImportInput) []model.Export {
	if in.Have == nil {
		return nil
	}
	before, _ := model.DecodeExports(in.Import.Key, in.Have.Annotations[mcs.AnnotationExports])
	return before
}

func clusterIPs(s *corev1.Service) []string {
	var ips []string
	for _, ip := range s.Spec.ClusterIPs {
		if ip != "" && ip != corev1.ClusterIPNone {
			ips = append(ips, ip)
		}
	}
	return ips
}

func importStatus(in ImportInput, local Local, now metav1.Time) api.ServiceImportStatus {
	status := api.ServiceImportStatus{EndpointSliceObjects: api.EndpointSlicesPresent}
	for _, c := range in.Import.Clusters {
		status.Clusters = append(status.Clusters, api.ClusterStatus{Cluster: string(c)})
	}
	ready := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonReady, Message: messageReady,
	}
	switch {
	case in.Import.Kind == model.Headless:
	case in.Refusal != "":
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonPending, in.Refusal
	case len(Families(*in.Import, in.Service, local)) == 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonIPFamilyNotSupported, messageNoFamily
	case in.Service == nil || len(clusterIPs(in.Service)) == 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonPending, messageNoService
	}
	status.Conditions = slices.Clone(in.Have.Status.Conditions)
	SetCondition(&status.Conditions, ready, in.Have.Generation, now)
	notices := noticesOf(in, local)
	for _, kind := range noticeTypes {
		notice := meta.FindStatusCondition(notices, kind)
		if notice == nil {
			meta.RemoveStatusCondition(&status.Conditions, kind)
			continue
		}
		SetCondition(&status.Conditions, *notice, in.Have.Generation, now)
	}
	return status
}
