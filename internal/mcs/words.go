package mcs

// Words of the standard: KEP-1645, the MCS API and Kubernetes itself. They are
// spelled out here so that pure packages need no API module; a test compares
// them with the constants of those modules.
const (
	// LabelServiceName names the multi-cluster service of a mirrored EndpointSlice.
	LabelServiceName = "multicluster.kubernetes.io/service-name"
	// LabelSourceCluster names the cluster that a mirrored EndpointSlice came from.
	LabelSourceCluster = "multicluster.kubernetes.io/source-cluster"

	// LabelSliceService ties an EndpointSlice to the Service whose traffic it
	// carries; kube-proxy reads it.
	LabelSliceService = "kubernetes.io/service-name"
	// LabelHeadless (with an empty value) hides an EndpointSlice from
	// kube-proxy; it is the only switch for that.
	LabelHeadless = "service.kubernetes.io/headless"
	// LabelManagedBy is our mark on ServiceImports and derived Services.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelSliceManagedBy is our mark on EndpointSlices.
	LabelSliceManagedBy = "endpointslice.kubernetes.io/managed-by"
	// AnnotationTriggerTime is when the last change that led to this slice
	// happened, RFC 3339. It travels with the slice.
	AnnotationTriggerTime = "endpoints.kubernetes.io/last-change-trigger-time"
)

// Prefix begins every label and annotation of our own.
const Prefix = "k8s-mcs.io/"

// Words of our own, as they stand in clusters.
const (
	// ManagedBy is the value of both managed-by labels. Removal is by this mark.
	ManagedBy = "syncd.k8s-mcs.io"

	// LabelPeer marks a Secret that holds the credentials of a peer; its value
	// is the peer's cluster id.
	LabelPeer = Prefix + "peer"
	// SecretKeyKubeconfig is the key of a peer Secret that holds the kubeconfig.
	SecretKeyKubeconfig = "kubeconfig"

	// LabelParkedService and LabelParkedCluster replace the two multicluster
	// labels of a slice that left a service by policy.
	LabelParkedService = Prefix + "parked-service"
	LabelParkedCluster = Prefix + "parked-cluster"

	// AnnotationExports, on a ServiceImport, stores each exporter's offer (JSON
	// with a format version), so that the merge can be rebuilt without the peer.
	AnnotationExports = Prefix + "exports"

	// LabelOriginService, on a derived Service, is the name of the ServiceImport.
	LabelOriginService = Prefix + "service-name"
	// AnnotationOrigin, on a derived Service, is its ServiceImport as
	// "namespace/name"; it is checked before a Service is adopted.
	AnnotationOrigin = Prefix + "service-import"

	// Policies, per service (annotations of the ServiceExport) and per peer
	// (annotations of the Secret).
	AnnotationOnLost          = Prefix + "on-lost"
	AnnotationStaleAfter      = Prefix + "stale-after"
	AnnotationPrefer          = Prefix + "prefer"
	AnnotationAllowNamespaces = Prefix + "allow-namespaces"
	AnnotationAllowCIDRs      = Prefix + "allow-cidrs"

	// AnnotationReleaseHeld, on a peer Secret, is the operator's word to the brake
	// on withdrawals: the time, RFC 3339, at which a brake that is to be taken off
	// was put on.
	AnnotationReleaseHeld = Prefix + "release-held"
	// AnnotationState, AnnotationReason and AnnotationHeldSince, on the Lease of a
	// peer, are its state, why it is in it, and when a brake was put on, RFC 3339.
	AnnotationState     = Prefix + "state"
	AnnotationReason    = Prefix + "reason"
	AnnotationHeldSince = Prefix + "held-since"
)

// Words of GKE's multi-cluster Services, written with --gke-compat only.
const (
	// GKEAnnotationImport, on a derived Service, is the name of its ServiceImport.
	GKEAnnotationImport = "net.gke.io/service-import"
	// GKEAnnotationDerived, on a ServiceImport, is the name of its derived Service.
	GKEAnnotationDerived = "net.gke.io/derived-service"
	// LabelSkipMirror keeps the API's own controller from making EndpointSlices
	// out of Endpoints.
	LabelSkipMirror = "endpointslice.kubernetes.io/skip-mirror"
)
