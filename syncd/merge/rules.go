package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

// rule is one property of a service in which its exporters may differ.
type rule struct {
	// name is the property, as a message says it.
	name string
	// reason is the MCS API's word for a conflict.
	reason v1beta1.ServiceExportConditionReason
	// equal reports whether an offer has the winner's value.
	equal func(winner, other model.Export) bool
	// describe is the value of an offer, for a message.
	describe func(model.Export) string
	// settle writes the winner's value into the import; nil where the import has
	// a union instead.
	settle func(*model.Import, model.Export)
}

// rules are in the order in which the MCS API lists its reasons; several
// conflicts of one service are told in this order.
var rules = []rule{
	property("ports", v1beta1.ServiceExportReasonPortConflict,
		func(e model.Export) []model.Port { return e.Ports }, sameSet, showPorts, nil),
	property("type", v1beta1.ServiceExportReasonTypeConflict,
		func(e model.Export) model.Kind { return e.Kind }, same, showWord,
		func(i *model.Import, k model.Kind) { i.Kind = k }),
	property("session affinity", v1beta1.ServiceExportReasonSessionAffinityConflict,
		affinity, same, showWord,
		func(i *model.Import, a corev1.ServiceAffinity) { i.SessionAffinity = string(a) }),
	// A time-out says something with ClientIP only, so it differs only where both
	// have that; it goes along with the affinity.
	property("session affinity time-out", v1beta1.ServiceExportReasonSessionAffinityConfigConflict,
		affinityTimeout, func(a, b int32) bool { return a == b || a == 0 || b == 0 }, showSeconds,
		func(i *model.Import, t int32) { i.AffinityTimeout = t }),
	property("exported annotations", v1beta1.ServiceExportReasonAnnotationsConflict,
		func(e model.Export) map[string]string { return e.Annotations }, maps.Equal, showMap,
		func(i *model.Import, a map[string]string) { i.Annotations = a }),
	property("exported labels", v1beta1.ServiceExportReasonLabelsConflict,
		func(e model.Export) map[string]string { return e.Labels }, maps.Equal, showMap,
		func(i *model.Import, l map[string]string) { i.Labels = l }),
	property("internal traffic policy", v1beta1.ServiceExportReasonInternalTrafficPolicyConflict,
		func(e model.Export) string {
			return cmp.Or(e.InternalTrafficPolicy, string(corev1.ServiceInternalTrafficPolicyCluster))
		}, same, showWord,
		func(i *model.Import, p string) { i.InternalTrafficPolicy = p }),
	property("traffic distribution", v1beta1.ServiceExportReasonTrafficDistributionConflict,
		func(e model.Export) string { return e.TrafficDistribution }, same, showWord,
		func(i *model.Import, d string) { i.TrafficDistribution = d }),
	// Their order is no conflict: it decides which family comes first, not which
	// backends can be reached.
	property("IP families", v1beta1.ServiceExportReasonIPFamilyConflict,
		servedFamilies, func(a, b []model.Family) bool { return a == nil || b == nil || sameSet(a, b) }, showWords, nil),
}

// property makes a rule out of what is particular to its type.
func property[T any](name string, reason v1beta1.ServiceExportConditionReason,
	get func(model.Export) T, equal func(a, b T) bool, describe func(T) string, settle func(*model.Import, T),
) rule {
	r := rule{
		name: name, reason: reason,
		equal:    func(winner, other model.Export) bool { return equal(get(winner), get(other)) },
		describe: func(e model.Export) string { return describe(get(e)) },
	}
	if settle != nil {
		r.settle = func(i *model.Import, winner model.Export) { settle(i, get(winner)) }
	}
	return r
}

// affinity is that of an offer, with the API's default.
func affinity(e model.Export) corev1.ServiceAffinity {
	return cmp.Or(corev1.ServiceAffinity(e.SessionAffinity), corev1.ServiceAffinityNone)
}

// affinityTimeout is in seconds, with the API's default; 0 without ClientIP.
func affinityTimeout(e model.Export) int32 {
	if affinity(e) != corev1.ServiceAffinityClientIP {
		return 0
	}
	return cmp.Or(e.AffinityTimeout, corev1.DefaultClientIPServiceAffinitySeconds)
}

// servedFamilies are those of an offer's clusterset IPs. A headless Service has
// none, and what its spec lists says nothing of its endpoints: without a selector
// the API server lists both.
func servedFamilies(e model.Export) []model.Family {
	if e.Kind == model.Headless {
		return nil
	}
	return e.Families
}

func same[T comparable](a, b T) bool { return a == b }

// sameSet takes no notice of the order.
func sameSet[T comparable](a, b []T) bool {
	in := func(all []T) func(T) bool {
		return func(v T) bool { return !slices.Contains(all, v) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// maxShown is the greatest length in bytes of a value in a message.
const maxShown = 200

func showWord[T ~string](v T) string {
	if v == "" {
		return "none"
	}
	return string(v)
}

func showWords[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = string(v)
	}
	return shorten(words)
}

func showSeconds(t int32) string { return strconv.Itoa(int(t)) + " s" }

func showPorts(ports []model.Port) string {
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = strings.TrimPrefix(fmt.Sprintf("%s:%d/%s", p.Name, p.Number, p.Protocol), ":")
		if p.AppProtocol != "" {
			words[i] += " (" + p.AppProtocol + ")"
		}
	}
	return shorten(words)
}

// showMap shows the keys only: values may be long, or not for everybody's eyes.
func showMap(m map[string]string) string { return shorten(slices.Sorted(maps.Keys(m))) }

// shorten joins words up to maxShown bytes.
func shorten(words []string) string {
	text := strings.Join(words, ", ")
	switch {
	case text == "":
		return "none"
	case len(text) > maxShown:
		return strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}
