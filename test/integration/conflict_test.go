package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// exportLater applies objects in one member, and once they are exported there
// those of a second, whose export is the younger one: creation times have a
// resolution of a second.
func exportLater(t *testing.T, older, younger *member, namespace, name string, olderObjects, youngerObjects []string) {
	t.Helper()
	older.apply(t, olderObjects...)
	first, err := older.mcs.MulticlusterV1beta1().ServiceExports(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	exports := younger.mcs.MulticlusterV1beta1().ServiceExports(namespace)
	eventually(t, "a younger export", func() error {
		probe := &api.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name + "-clock"}}
		made, err := exports.Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(t, err)
		if !first.CreationTimestamp.Before(&made.CreationTimestamp) {
			return fmt.Errorf("it is still %s", made.CreationTimestamp)
		}
		return nil
	})
	younger.apply(t, youngerObjects...)
}

// conflictOf is the condition Conflict of a ServiceExport, once it has a reason.
func (m *member) conflictOf(t *testing.T, namespace, name, reason string) *metav1.Condition {
	t.Helper()
	var found *metav1.Condition
	eventually(t, "Conflict "+reason+" in "+m.id, func() error {
		e, err := m.mcs.MulticlusterV1beta1().ServiceExports(namespace).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		found = meta.FindStatusCondition(e.Status.Conditions, "Conflict")
		if found == nil || found.Reason != reason || found.ObservedGeneration != e.Generation {
			return fmt.Errorf("conditions are %v", e.Status.Conditions)
		}
		return nil
	})
	return found
}

// events are the reasons of the events about an object.
func (m *member) events(t *testing.T, kind, namespace, name string) map[string]int {
	t.Helper()
	list, err := m.kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	found := map[string]int{}
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name {
			found[e.Type+" "+e.Reason]++
		}
	}
	return found
}

// wantEvents waits for so many events of each kind, and no others.
func (m *member) wantEvents(t *testing.T, kind, namespace, name string, want map[string]int) {
	t.Helper()
	eventually(t, "events about "+kind+" "+name, func() error {
		if got := m.events(t, kind, namespace, name); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("events in %s are %v, want %v", m.id, got, want)
		}
		return nil
	})
}

func exportWith(namespace, name, spec string) string {
	return export(namespace, name) + "spec: " + spec + "\n"
}

// TestConflict has two clusters export one service differently.
func TestConflict(t *testing.T) { //nolint:tparallel // its parts follow on each other
	t.Parallel()
	set := clusterset(t, "east", "west")
	east, west := set[0], set[1]
	mesh(t, east, west)
	for _, m := range set {
		m.namespace(t, "shop")
		m.syncd(t)
	}
	const eastSpec = "{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}, trafficDistribution: PreferSameZone, ports: [{name: http, port: 80}]}"
	exportLater(t, east, west, "shop", "web",
		[]string{service("shop", "web", eastSpec), exportWith("shop", "web", "{exportedLabels: {team: a}, exportedAnnotations: {note: a}}")},
		[]string{
			service("shop", "web", "{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90}}, internalTrafficPolicy: Local, ipFamilies: [IPv6], ports: [{name: http, port: 81}]}"),
			exportWith("shop", "web", "{exportedLabels: {team: b}, exportedAnnotations: {note: b}}"),
		})
	importOf := func(m *member) *api.ServiceImport {
		i, err := m.mcs.MulticlusterV1beta1().ServiceImports("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return &api.ServiceImport{}
		}
		return i
	}

	const all = "PortConflict,SessionAffinityConfigConflict,AnnotationsConflict,LabelsConflict," +
		"InternalTrafficPolicyConflict,TrafficDistributionConflict,IPFamilyConflict"
	there, here := east.conflictOf(t, "shop", "web", all), west.conflictOf(t, "shop", "web", all)
	if there.Message != here.Message {
		t.Errorf("the clusters say different things:\n%s\n%s", there.Message, here.Message)
	}
	for _, m := range set {
		m.wantEvents(t, "ServiceExport", "shop", "web", map[string]int{"Warning Conflict": 1})
		eventually(t, "the oldest export's values in "+m.id, func() error {
			spec, labels := importOf(m).Spec, importOf(m).Labels
			if len(spec.Ports) != 1 || spec.Ports[0].Port != 80 || labels["team"] != "a" || importOf(m).Annotations["note"] != "a" ||
				spec.SessionAffinityConfig == nil || *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds != 60 ||
				spec.TrafficDistribution == nil || *spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster || len(spec.IPs) != 2 {
				return fmt.Errorf("import is %+v with labels %v", spec, labels)
			}
			return nil
		})
	}

	t.Run("the younger export's owner gives in, and all agree", func(t *testing.T) {
		must(t, west.kube.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		west.apply(t, service("shop", "web", eastSpec), exportWith("shop", "web", "{exportedLabels: {team: a}, exportedAnnotations: {note: a}}"))
		for _, m := range set {
			mended := m.conflictOf(t, "shop", "web", "NoConflicts")
			if mended.LastTransitionTime.Before(&there.LastTransitionTime) || mended.Status != metav1.ConditionFalse {
				t.Errorf("condition is %v", mended)
			}
		}
		eventually(t, "the news", func() error {
			if got := east.events(t, "ServiceExport", "shop", "web"); got["Normal NoConflicts"] == 0 {
				return fmt.Errorf("events are %v", got)
			}
			return nil
		})
	})

	t.Run("when the oldest export goes the next one wins", func(t *testing.T) {
		west.apply(t, service("shop", "web", "{sessionAffinity: None, ports: [{name: http, port: 8080}]}"))
		east.conflictOf(t, "shop", "web", "PortConflict,SessionAffinityConflict,TrafficDistributionConflict")
		must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		west.conflictOf(t, "shop", "web", "NoConflicts")
		for _, m := range set {
			eventually(t, "the younger export's values in "+m.id, func() error {
				if spec := importOf(m).Spec; len(spec.Ports) != 1 || spec.Ports[0].Port != 8080 || spec.SessionAffinity != corev1.ServiceAffinityNone {
					return fmt.Errorf("import is %+v", spec)
				}
				return nil
			})
		}
	})
}
