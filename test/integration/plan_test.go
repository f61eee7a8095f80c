package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
)

// planned is a member whose import of a service is looked at.
type planned struct {
	*member
	namespace, name string
}

func (p planned) imported(t *testing.T) *api.ServiceImport {
	t.Helper()
	i, err := p.mcs.MulticlusterV1beta1().ServiceImports(p.namespace).Get(t.Context(), p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return i
}

func (p planned) derivedName() string {
	return mcs.DerivedName("mcs-", mcs.ServiceKey{Namespace: p.namespace, Name: p.name})
}

func (p planned) derived(t *testing.T) *corev1.Service {
	t.Helper()
	s, err := p.kube.CoreV1().Services(p.namespace).Get(t.Context(), p.derivedName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return s
}

// ready waits for the import and its Service.
func (p planned) ready(t *testing.T) *corev1.Service {
	t.Helper()
	eventually(t, "a ready import "+p.name, func() error {
		if i := p.imported(t); i == nil || !meta.IsStatusConditionTrue(i.Status.Conditions, "Ready") {
			return fmt.Errorf("import is %v", i)
		}
		return nil
	})
	return p.derived(t)
}

// condition waits until the import has a condition, or none of that type.
func (p planned) condition(t *testing.T, kind, reason string) string {
	t.Helper()
	var message string
	eventually(t, "condition "+kind+" "+reason, func() error {
		i := p.imported(t)
		if i == nil {
			return errors.New("no import")
		}
		c := meta.FindStatusCondition(i.Status.Conditions, kind)
		switch {
		case c == nil && reason == "":
			return nil
		case c == nil || c.Reason != reason || c.ObservedGeneration != i.Generation:
			return fmt.Errorf("conditions are %v", i.Status.Conditions)
		}
		message = c.Message
		return nil
	})
	return message
}

// TestPlan compares what syncd writes with what the API server makes of it.
func TestPlan(t *testing.T) { //nolint:tparallel // they share one syncd, whose writes are counted
	t.Parallel()
	set := clusterset(t, "hub", "east")
	hub, east := set[0], set[1]
	mesh(t, hub, east)
	for _, m := range set {
		m.namespace(t, "shop", "full")
	}
	hubSyncd := hub.syncd(t)
	east.syncd(t)
	http := func(addresses ...string) func(name string) string {
		return func(name string) string {
			return slice("shop", name, name+"-1", "[{name: http, port: 8080}]", addresses...)
		}
	}
	offer := func(t *testing.T, m *member, name, spec string) planned {
		t.Helper()
		m.apply(t, service("shop", name, spec), http("10.1.0.1")(name), export("shop", name))
		return planned{hub, "shop", name}
	}

	t.Run("a derived Service that somebody edits is put back, and keeps its address", func(t *testing.T) {
		p := offer(t, east, "edited", httpService)
		before := p.ready(t)
		edited := before.DeepCopy()
		edited.Spec.Ports = append(edited.Spec.Ports, corev1.ServicePort{Name: "backdoor", Port: 22, Protocol: corev1.ProtocolTCP})
		edited.Spec.Selector = map[string]string{"app": "other"}
		edited.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		delete(edited.Labels, mcs.LabelOriginService)
		_, err := hub.kube.CoreV1().Services("shop").Update(t.Context(), edited, metav1.UpdateOptions{})
		must(t, err)
		eventually(t, "the Service as it was", func() error {
			now := p.derived(t)
			if now.ResourceVersion == before.ResourceVersion {
				return errors.New("not edited yet")
			}
			if len(now.Spec.Ports) != 1 || len(now.Spec.Selector) > 0 || now.Spec.SessionAffinity != corev1.ServiceAffinityNone || now.Labels[mcs.LabelOriginService] != "edited" {
				return fmt.Errorf("it is %+v with labels %v", now.Spec, now.Labels)
			}
			return nil
		})
		if now := p.derived(t); now.UID != before.UID || now.Spec.ClusterIP != before.Spec.ClusterIP {
			t.Errorf("address is %s, was %s", now.Spec.ClusterIP, before.Spec.ClusterIP)
		}
	})

	t.Run("an unnamed port gets a name beside another one, keeps it, and the address stays", func(t *testing.T) {
		p := offer(t, east, "unnamed", "{ports: [{port: 80}]}")
		before := p.ready(t)
		ports := func() string {
			var all []string
			for _, port := range p.derived(t).Spec.Ports {
				all = append(all, fmt.Sprintf("%s:%d", port.Name, port.Port))
			}
			return strings.Join(all, " ")
		}
		if got := ports(); got != ":80" {
			t.Errorf("ports are %s", got)
		}
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { offer(t, hub, "unnamed", "{ports: [{name: metrics, port: 9090}]}") }, "port-80:80 metrics:9090"},
			{func() {
				must(t, hub.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "unnamed", metav1.DeleteOptions{}))
			}, "port-80:80"},
		} {
			step.change()
			eventually(t, "ports "+step.want, func() error {
				got := strings.Split(ports(), " ")
				want := strings.Split(step.want, " ")
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					return fmt.Errorf("ports are %v", got)
				}
				return nil
			})
		}
		if now := p.derived(t).Spec.ClusterIP; now != before.Spec.ClusterIP {
			t.Errorf("address is %s, was %s", now, before.Spec.ClusterIP)
		}
	})

	t.Run("a second family comes and goes in place", func(t *testing.T) {
		p := offer(t, east, "families", "{ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], ports: [{name: http, port: 80}]}")
		before := p.ready(t)
		check := func(policy corev1.IPFamilyPolicy, families string) {
			t.Helper()
			eventually(t, "families "+families, func() error {
				now, imp := p.derived(t), p.imported(t)
				if *now.Spec.IPFamilyPolicy != policy || fmt.Sprint(now.Spec.IPFamilies) != families || now.Spec.ClusterIP != before.Spec.ClusterIP {
					return fmt.Errorf("Service has %s %v %v", *now.Spec.IPFamilyPolicy, now.Spec.IPFamilies, now.Spec.ClusterIPs)
				}
				if !slices.Equal(imp.Spec.IPs, now.Spec.ClusterIPs) || !slices.Equal(imp.Spec.IPFamilies, now.Spec.IPFamilies) {
					return fmt.Errorf("import has %v %v", imp.Spec.IPFamilies, imp.Spec.IPs)
				}
				return nil
			})
		}
		check(corev1.IPFamilyPolicySingleStack, "[IPv4]")
		offer(t, hub, "families", "{ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], ports: [{name: http, port: 80}]}")
		check(corev1.IPFamilyPolicyPreferDualStack, "[IPv4 IPv6]")
		must(t, hub.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "families", metav1.DeleteOptions{}))
		check(corev1.IPFamilyPolicySingleStack, "[IPv4]")

		// The primary family leaves the clusterset, and cannot leave the Service.
		must(t, hub.kube.CoreV1().Services("shop").Delete(t.Context(), "families", metav1.DeleteOptions{}))
		offer(t, hub, "families", "{ipFamilyPolicy: SingleStack, ipFamilies: [IPv6], ports: [{name: http, port: 80}]}")
		check(corev1.IPFamilyPolicyPreferDualStack, "[IPv4 IPv6]")
		must(t, east.mcs.MulticlusterV1beta1().ServiceExports("shop").Delete(t.Context(), "families", metav1.DeleteOptions{}))
		p.condition(t, "IPFamilies", "IPFamilyConflict")
		check(corev1.IPFamilyPolicyPreferDualStack, "[IPv4 IPv6]")
	})

	t.Run("zone hints come with a traffic distribution, and an endpoint without a zone is told", func(t *testing.T) {
		p := offer(t, east, "zones", "{trafficDistribution: PreferSameZone, ports: [{name: http, port: 80}]}")
		p.ready(t)
		if message := p.condition(t, "ZoneRouting", "EndpointWithoutZone"); !strings.Contains(message, "cluster east") {
			t.Errorf("message is %q", message)
		}
		hub.wantEvents(t, "ServiceImport", "shop", "zones", map[string]int{"Warning EndpointWithoutZone": 1})
		east.apply(t, strings.Replace(http("10.1.0.1")("zones"), "conditions: {ready: true}", "conditions: {ready: true}\n  zone: zone-a\n  nodeName: node-1\n  hints: {forZones: [{name: evil}]}", 1))
		eventually(t, "the hint", func() error {
			list, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelServiceName + "=zones"})
			must(t, err)
			e := list.Items[0].Endpoints[0]
			if e.Hints == nil || len(e.Hints.ForZones) != 1 || e.Hints.ForZones[0].Name != "zone-a" || len(e.Hints.ForNodes) > 0 || e.NodeName != nil {
				return fmt.Errorf("endpoint is %+v", e)
			}
			return nil
		})
		p.condition(t, "ZoneRouting", "")
	})

	t.Run("a local traffic policy without own endpoints is told", func(t *testing.T) {
		p := offer(t, east, "policy", "{internalTrafficPolicy: Local, ports: [{name: http, port: 80}]}")
		if derived := p.ready(t); *derived.Spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal {
			t.Errorf("policy is %s", *derived.Spec.InternalTrafficPolicy)
		}
		p.condition(t, "LocalEndpoints", "NoLocalEndpoints")
		hub.wantEvents(t, "ServiceImport", "shop", "policy", map[string]int{"Warning NoLocalEndpoints": 1})
	})

	t.Run("exported labels travel, but for those that are reserved", func(t *testing.T) {
		p := offer(t, east, "labels", httpService)
		east.apply(t, exportWith("shop", "labels", `{exportedLabels: {team: a, service.kubernetes.io/headless: ""}, exportedAnnotations: {note: b, k8s-mcs.io/exports: evil}}`))
		if message := p.condition(t, "ExportedMetadata", "KeysDropped"); !strings.Contains(message, "2 under a reserved domain") {
			t.Errorf("message is %q", message)
		}
		imp := p.imported(t)
		if _, headless := imp.Labels[mcs.LabelHeadless]; imp.Labels["team"] != "a" || imp.Annotations["note"] != "b" || headless || imp.Annotations[mcs.AnnotationExports] == "evil" {
			t.Errorf("labels are %v, annotations %v", imp.Labels, imp.Annotations)
		}
		if derived := p.derived(t); derived.Labels["team"] != "" || derived.Annotations["note"] != "" {
			t.Errorf("the derived Service has labels %v", derived.Labels)
		}
	})

	t.Run("a headless service without ports has an empty list of them", func(t *testing.T) {
		p := offer(t, east, "portless", "{clusterIP: None}")
		p.ready(t)
		if imp := p.imported(t); imp.Spec.Type != api.Headless || imp.Spec.Ports == nil || len(imp.Spec.Ports) > 0 {
			t.Errorf("import is %+v", imp.Spec)
		}
	})

	t.Run("somebody else's ServiceImport is left alone, and told on the export", func(t *testing.T) {
		imports := hub.mcs.MulticlusterV1beta1().ServiceImports("shop")
		foreign, err := imports.Create(t.Context(), &api.ServiceImport{
			ObjectMeta: metav1.ObjectMeta{Name: "foreign"},
			Spec:       api.ServiceImportSpec{Type: api.Headless, Ports: []api.ServicePort{}},
		}, metav1.CreateOptions{})
		must(t, err)
		p := offer(t, hub, "foreign", httpService)
		eventually(t, "the condition", func() error {
			e, err := hub.mcs.MulticlusterV1beta1().ServiceExports("shop").Get(t.Context(), "foreign", metav1.GetOptions{})
			must(t, err)
			c := meta.FindStatusCondition(e.Status.Conditions, "Ready")
			if c == nil || c.Reason != "NameTaken" || !strings.Contains(c.Message, "serviceimports shop/foreign") || !meta.IsStatusConditionTrue(e.Status.Conditions, "Valid") {
				return fmt.Errorf("conditions are %v", e.Status.Conditions)
			}
			return nil
		})
		hub.wantEvents(t, "ServiceExport", "shop", "foreign", map[string]int{"Warning NameTaken": 1})
		if now := p.imported(t); now.ResourceVersion != foreign.ResourceVersion {
			t.Errorf("it was written: %v", now)
		}
		must(t, imports.Delete(t.Context(), "foreign", metav1.DeleteOptions{}))
		p.ready(t)
		hub.wantEvents(t, "ServiceExport", "shop", "foreign", map[string]int{"Warning NameTaken": 1, "Normal Ready": 1})
	})

	t.Run("a type change takes the address from the import before the Service goes, and gives it back after", func(t *testing.T) {
		exportLater(t, east, hub, "shop", "turned",
			[]string{service("shop", "turned", httpService), http("10.1.0.1")("turned"), export("shop", "turned")},
			[]string{service("shop", "turned", "{clusterIP: None, ports: [{name: http, port: 80}]}"), http("10.9.0.1")("turned"), export("shop", "turned")})
		p := planned{hub, "shop", "turned"}
		for _, m := range set {
			m.conflictOf(t, "shop", "turned", "TypeConflict")
		}
		eventually(t, "endpoints of both", func() error {
			return hub.wantMirrored(t, "shop", "turned", map[string]string{"east": "10.1.0.1", "hub": "10.9.0.1"})
		})
		turn := func(kind api.ServiceImportType, want []string, change func()) {
			t.Helper()
			before := len(writesOnceQuiet(t, hub, syncdUser))
			change()
			eventually(t, string(kind), func() error {
				if i := p.imported(t); i == nil || i.Spec.Type != kind || (p.derived(t) == nil) != (kind == api.Headless) {
					return fmt.Errorf("import is %v", i)
				}
				return nil
			})
			var order []string
			for _, e := range writesOnceQuiet(t, hub, syncdUser)[before:] {
				if e.Subresource == "" && (strings.Contains(e.Name, "turned") || e.Name == p.derivedName() || e.Resource == "services") {
					order = append(order, e.Verb+" "+e.Resource)
				}
			}
			order = slices.Compact(slices.DeleteFunc(order, func(write string) bool {
				return write == "create endpointslices" || write == "delete endpointslices" // those that stay are looked at
			}))
			if i := slices.Index(order, want[0]); i < 0 || !slices.Equal(order[i:], want) {
				t.Errorf("writes are %q, want them to end in %q", order, want)
			}
		}
		turn(api.Headless, []string{"update endpointslices", "update serviceimports", "delete services"}, func() {
			must(t, east.kube.CoreV1().Services("shop").Delete(t.Context(), "turned", metav1.DeleteOptions{}))
		})
		turn(api.ClusterSetIP, []string{"create services", "update endpointslices", "update serviceimports"}, func() {
			east.apply(t, service("shop", "turned", httpService))
		})
	})

	t.Run("a full quota is told, and tried again once a Service is gone", func(t *testing.T) {
		quotas := hub.kube.CoreV1().ResourceQuotas("full")
		hard := corev1.ResourceList{corev1.ResourceServices: resource.MustParse("1")}
		quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
		}, metav1.CreateOptions{})
		must(t, err)
		use := func(n string) {
			t.Helper()
			quota, err = quotas.Get(t.Context(), "few", metav1.GetOptions{})
			must(t, err)
			// No controller runs here that would count.
			quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourceServices: resource.MustParse(n)}}
			_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
			must(t, err)
		}
		use("0")
		hub.apply(t, service("full", "other", httpService))
		use("1")
		east.apply(t, service("full", "web", httpService), slice("full", "web", "web-1", "[{name: http, port: 8080}]", "10.1.0.5"), export("full", "web"))
		p := planned{hub, "full", "web"}
		if message := p.condition(t, "Ready", "Pending"); !strings.Contains(message, "exceeded quota") {
			t.Errorf("message is %q", message)
		}
		hub.wantEvents(t, "ServiceImport", "full", "web", map[string]int{"Warning Pending": 1})
		if imp := p.imported(t); len(imp.Spec.IPs) > 0 {
			t.Errorf("IPs are %v", imp.Spec.IPs)
		}
		use("0")
		must(t, hub.kube.CoreV1().Services("full").Delete(t.Context(), "other", metav1.DeleteOptions{}))
		p.ready(t)
		hub.wantEvents(t, "ServiceImport", "full", "web", map[string]int{"Warning Pending": 1, "Normal Ready": 1})
	})
	t.Run("another prefix gives the Service and its slices another name, and leaves none behind", func(t *testing.T) {
		p := offer(t, east, "prefixed", httpService)
		p.ready(t)
		must(t, hubSyncd.Stop(t.Context()))
		hub.syncd(t, "--derived-prefix", "gke-mcs-")
		name := mcs.DerivedName("gke-mcs-", mcs.ServiceKey{Namespace: "shop", Name: "prefixed"})
		eventually(t, "the Service of the new name alone", func() error {
			if old := p.derived(t); old != nil {
				return fmt.Errorf("there still is %s", old.Name)
			}
			derived, err := hub.kube.CoreV1().Services("shop").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if imp := p.imported(t); !slices.Equal(imp.Spec.IPs, derived.Spec.ClusterIPs) {
				return fmt.Errorf("import has %v, the Service %v", imp.Spec.IPs, derived.Spec.ClusterIPs)
			}
			tied, err := hub.kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelSliceService + "=" + name})
			must(t, err)
			if len(tied.Items) != 1 {
				return fmt.Errorf("%d slices are tied to it", len(tied.Items))
			}
			return hub.wantMirrored(t, "shop", "prefixed", map[string]string{"east": "10.1.0.1"})
		})
	})
}
