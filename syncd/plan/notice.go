package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Conditions of a ServiceImport that say what is not as somebody may expect. Each
// is there, and False, only as long as that is so; none keeps an import from
// being ready.
const (
	ConditionZoneRouting     = "ZoneRouting"
	ConditionLocalEndpoints  = "LocalEndpoints"
	ConditionIPFamilies      = "IPFamilies"
	ConditionMetadata        = "ExportedMetadata"
	ConditionStoredOffers    = "StoredOffers"
	ReasonNoZone             = "EndpointWithoutZone"
	ReasonNoLocalEndpoints   = "NoLocalEndpoints"
	ReasonIPFamilyConflict   = string(v1beta1.ServiceExportReasonIPFamilyConflict)
	ReasonKeysDropped        = "KeysDropped"
	ReasonStoredOffersTooBig = "TooLarge"
)

var noticeTypes = []string{ConditionZoneRouting, ConditionLocalEndpoints, ConditionIPFamilies, ConditionMetadata, ConditionStoredOffers}

// noticesOf are the conditions that hold now.
func noticesOf(in ImportInput, local Local) []metav1.Condition {
	var notices []metav1.Condition
	add := func(kind, reason, format string, values ...any) {
		notices = append(notices, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, values...),
		})
	}
	if in.Import.Kind == model.ClusterSetIP {
		if zoneless := withoutZone(in.Slices); in.Import.TrafficDistribution != "" && zoneless != "" {
			add(ConditionZoneRouting, ReasonNoZone,
				"trafficDistribution %s has no effect: an endpoint of cluster %s has no zone; label the nodes there with topology.kubernetes.io/zone",
				in.Import.TrafficDistribution, zoneless)
		}
		if in.Import.InternalTrafficPolicy == string(corev1.ServiceInternalTrafficPolicyLocal) && !hasReady(in.Slices, local.Cluster) {
			add(ConditionLocalEndpoints, ReasonNoLocalEndpoints,
				"internalTrafficPolicy is Local and this cluster has no ready endpoint of its own: the clusterset IP leads nowhere here")
		}
		if primary := primaryFamily(in.Service); primary != "" && !slices.Contains(in.Import.Families, primary) {
			add(ConditionIPFamilies, ReasonIPFamilyConflict,
				"no exporter serves %s any more, which is the first family of the clusterset IP and cannot change while it lives", primary)
		}
	}
	if m := travelling(*in.Import); m.reserved+m.invalid+m.tooMuch > 0 {
		add(ConditionMetadata, ReasonKeysDropped,
			"exported labels and annotations left out: %d under a reserved domain, %d invalid, %d past %d bytes", m.reserved, m.invalid, m.tooMuch, MaxExported)
	}
	if _, omitted := model.EncodeExports(in.Exports); len(omitted) > 0 {
		names := make([]string, len(omitted))
		for i, c := range omitted {
			names[i] = string(c)
		}
		add(ConditionStoredOffers, ReasonStoredOffersTooBig,
			"past %d bytes, so that a restart while they are away forgets them: offers of %s", model.MaxStored, strings.Join(names, ", "))
	}
	return notices
}

// withoutZone is the cluster of a ready endpoint without a zone, "" for none: it
// makes kube-proxy take no notice of any zone of the service.
func withoutZone(standing []*discoveryv1.EndpointSlice) string {
	for _, s := range standing {
		if slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return isReady(e) && e.Zone == nil }) {
			return s.Labels[mcs.LabelSourceCluster]
		}
	}
	return ""
}

// hasReady reports whether a cluster has a ready endpoint.
func hasReady(standing []*discoveryv1.EndpointSlice, cluster mcs.ClusterID) bool {
	return slices.ContainsFunc(standing, func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[mcs.LabelSourceCluster] == string(cluster) && slices.ContainsFunc(s.Endpoints, isReady)
	})
}

func isReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready != nil && *e.Conditions.Ready }

// primaryFamily is the first family of a derived Service, "" without one.
func primaryFamily(s *corev1.Service) model.Family {
	if s == nil || len(s.Spec.IPFamilies) == 0 {
		return ""
	}
	return model.Family(s.Spec.IPFamilies[0])
}
