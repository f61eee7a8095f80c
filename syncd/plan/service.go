package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// Service plans the derived Service of an import: it carries the clusterset IP,
// which the API server allots and which stays for the life of the import. There
// is none for a nil import, a headless one, or one whose families are not had
// here. have is the Service of ours under the derived name, or nil.
func Service(imp *model.Import, have *corev1.Service, local Local) Change[*corev1.Service] {
	if imp == nil || imp.Kind == model.Headless {
		return noService(have, "no ClusterSetIP import needs it")
	}
	families := Families(*imp, have, local)
	if len(families) == 0 {
		return noService(have, "the exporters share no IP family with this cluster")
	}
	if have == nil {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: imp.Key.Namespace,
			Name:      mcs.DerivedName(local.Prefix, imp.Key),
		}}
		setService(service, *imp, families, local.GKECompat)
		return Change[*corev1.Service]{Verb: Create, Object: service, Why: "the import has no derived Service yet"}
	}
	want := have.DeepCopy()
	setService(want, *imp, families, local.GKECompat)
	if apiequality.Semantic.DeepEqual(have, want) {
		return Change[*corev1.Service]{Object: have}
	}
	return Change[*corev1.Service]{Verb: Update, Object: want, Why: "the derived Service differs from the import"}
}

func noService(have *corev1.Service, why string) Change[*corev1.Service] {
	if have == nil {
		return Change[*corev1.Service]{}
	}
	return Change[*corev1.Service]{Verb: Delete, Object: have, Why: why}
}

// OwnsService reports whether a Service under a derived name is the one of this
// import, and not somebody else's.
func OwnsService(s *corev1.Service, key mcs.ServiceKey) bool {
	return s.Labels[mcs.LabelManagedBy] == mcs.ManagedBy && s.Annotations[mcs.AnnotationOrigin] == key.String()
}

// setService writes what the import says into a Service and leaves the rest:
// labels of others, and what the API server allotted.
func setService(s *corev1.Service, imp model.Import, families []corev1.IPFamily, gkeCompat bool) {
	s.Labels = with(s.Labels, map[string]string{
		mcs.LabelManagedBy:     mcs.ManagedBy,
		mcs.LabelOriginService: imp.Key.Name,
	})
	s.Annotations = with(s.Annotations, map[string]string{mcs.AnnotationOrigin: imp.Key.String()})
	setIf(gkeCompat, s.Annotations, mcs.GKEAnnotationImport, imp.Key.Name)

	s.Spec.Type = corev1.ServiceTypeClusterIP
	s.Spec.Selector = nil
	s.Spec.Ports = make([]corev1.ServicePort, 0, len(imp.Ports))
	for _, p := range imp.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: p.Name, Protocol: corev1.Protocol(p.Protocol), Port: p.Number,
			AppProtocol: optional(p.AppProtocol),
			TargetPort:  intstr.FromInt32(p.Number),
		})
	}
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = affinity(imp)
	s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	if imp.InternalTrafficPolicy != "" {
		*s.Spec.InternalTrafficPolicy = corev1.ServiceInternalTrafficPolicy(imp.InternalTrafficPolicy)
	}
	s.Spec.TrafficDistribution = optional(imp.TrafficDistribution)

	policy := corev1.IPFamilyPolicySingleStack
	if len(families) > 1 {
		policy = corev1.IPFamilyPolicyPreferDualStack
	}
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families
	if len(s.Spec.ClusterIPs) > len(families) {
		s.Spec.ClusterIPs = s.Spec.ClusterIPs[:len(families)] // gives the secondary back
	}
}

// Families are the IP families of the derived Service: those that an exporter
// has, in the oldest one's order, cut to what this cluster has. The primary of a
// Service that exists cannot change, so it stays first.
func Families(imp model.Import, have *corev1.Service, local Local) []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, f := range imp.Families {
		if slices.Contains(local.Families, f) {
			families = append(families, corev1.IPFamily(f))
		}
	}
	if have == nil || len(have.Spec.IPFamilies) == 0 || len(families) == 0 {
		return families
	}
	primary := have.Spec.IPFamilies[0]
	if at := slices.Index(families, primary); at >= 0 {
		families = slices.Delete(families, at, at+1)
	}
	return slices.Insert(families, 0, primary)
}

// affinity is the session affinity in the API's form; its config counts only
// with ClientIP, as the API server drops it with None.
func affinity(imp model.Import) (corev1.ServiceAffinity, *corev1.SessionAffinityConfig) {
	if imp.SessionAffinity != string(corev1.ServiceAffinityClientIP) {
		return corev1.ServiceAffinityNone, nil
	}
	timeout := imp.AffinityTimeout
	if timeout == 0 {
		timeout = corev1.DefaultClientIPServiceAffinitySeconds
	}
	return corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
}

// with is base and more together, more winning; base is not changed.
func with(base, more map[string]string) map[string]string {
	all := make(map[string]string, len(base)+len(more))
	maps.Copy(all, base)
	maps.Copy(all, more)
	return all
}

// setIf sets a key, or takes it away.
func setIf(set bool, in map[string]string, key, value string) {
	if set {
		in[key] = value
	} else {
		delete(in, key)
	}
}

// optional is a pointer to s, or nil when it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
