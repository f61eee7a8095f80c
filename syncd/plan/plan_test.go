package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs/api"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

var (
	key   = mcs.ServiceKey{Namespace: "test", Name: "whereami"}
	local = Local{Cluster: "hub", Prefix: "gke-mcs-", Families: []model.Family{model.IPv4, model.IPv6}}
	now   = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
)

func anImport() *model.Import {
	return &model.Import{
		Key: key, Kind: model.ClusterSetIP, Ports: []model.Port{{Name: "http", Protocol: "TCP", Number: 80}},
		Traffic:  model.Traffic{SessionAffinity: "None", InternalTrafficPolicy: "Cluster"},
		Families: []model.Family{model.IPv4}, Clusters: []mcs.ClusterID{"east"},
	}
}

func anExport() model.Export {
	return model.Export{
		Cluster: "east", Key: key, Kind: model.ClusterSetIP, Created: now.Time,
		Ports:    []model.Port{{Name: "http", Protocol: "TCP", Number: 80}},
		Families: []model.Family{model.IPv4},
		Slices: []model.Slice{{
			Name: "whereami-x7k2p", AddressType: model.IPv4, TriggerTime: "2026-01-01T00:00:00Z",
			Ports: []model.SlicePort{{Name: "http", Protocol: "TCP", Number: 8080}},
			Endpoints: []model.Endpoint{{
				Addresses: []netip.Addr{netip.MustParseAddr("10.5.0.10")}, Ready: true, Serving: true,
				Hostname: "whereami-0", NodeName: "node-1", Zone: "zone-a", TargetKind: "Pod", TargetName: "whereami-0",
			}},
		}},
	}
}

// made is a derived Service as the API server gives it back.
func made(imp *model.Import, ips ...string) *corev1.Service {
	s := Service(imp, nil, local).Object
	s.UID, s.ResourceVersion = "u", "1"
	s.Spec.ClusterIP, s.Spec.ClusterIPs = ips[0], ips
	return s
}

func TestDerivedService(t *testing.T) {
	imp := anImport()
	change := Service(imp, nil, local)
	s := change.Object
	if change.Verb != Create || s.Namespace != "test" || s.Name != "gke-mcs-isu46k25p2" {
		t.Fatalf("%s %s/%s", change.Verb, s.Namespace, s.Name)
	}
	if !OwnsService(s, key) || s.Labels["k8s-mcs.io/service-name"] != "whereami" || s.Annotations["k8s-mcs.io/service-import"] != "test/whereami" {
		t.Errorf("labels are %v, annotations %v", s.Labels, s.Annotations)
	}
	if OwnsService(s, mcs.ServiceKey{Namespace: "test", Name: "other"}) {
		t.Error("it passes for the Service of another import")
	}
	for name, c := range map[string]struct {
		have   func(*corev1.Service)
		imp    func(*model.Import)
		verb   Verb
		expect func(*corev1.Service) bool
	}{
		"one that is right is left alone": {},
		"labels and annotations of others stay, and are no difference": {
			have: func(s *corev1.Service) { s.Labels["team"], s.Annotations["note"] = "a", "b" },
		},
		"a changed port is written, and the address stays": {
			imp:    func(i *model.Import) { i.Ports[0].Number = 8080 },
			verb:   Update,
			expect: func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 8080 && s.Spec.ClusterIP == "10.96.0.1" },
		},
		"a selector that somebody set is taken off": {
			have:   func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} },
			verb:   Update,
			expect: func(s *corev1.Service) bool { return s.Spec.Selector == nil },
		},
		"an affinity comes with its time-out": {
			imp:  func(i *model.Import) { i.SessionAffinity = "ClientIP" },
			verb: Update,
			expect: func(s *corev1.Service) bool {
				return s.Spec.SessionAffinity == "ClientIP" && *s.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == 10800
			},
		},
		"a second family is added in place": {
			imp:  func(i *model.Import) { i.Families = []model.Family{model.IPv6, model.IPv4} },
			verb: Update,
			expect: func(s *corev1.Service) bool {
				return fmt.Sprint(s.Spec.IPFamilies) == "[IPv4 IPv6]" && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack && s.Spec.ClusterIP == "10.96.0.1"
			},
		},
		"a second family is dropped in place": {
			have: func(s *corev1.Service) {
				s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00::1")
				s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv6Protocol)
				*s.Spec.IPFamilyPolicy = corev1.IPFamilyPolicyPreferDualStack
			},
			verb: Update,
			expect: func(s *corev1.Service) bool {
				return fmt.Sprint(s.Spec.ClusterIPs) == "[10.96.0.1]" && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
			},
		},
		"the primary family does not change": {
			imp:    func(i *model.Import) { i.Families = []model.Family{model.IPv6} },
			verb:   Update,
			expect: func(s *corev1.Service) bool { return fmt.Sprint(s.Spec.IPFamilies) == "[IPv4 IPv6]" },
		},
		"exporters without a family of this cluster have no Service": {
			imp: func(i *model.Import) { i.Families = nil }, verb: Delete,
		},
		"a headless import has no Service": {
			imp: func(i *model.Import) { i.Kind = model.Headless }, verb: Delete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			have := made(anImport(), "10.96.0.1")
			imp := anImport()
			if c.have != nil {
				c.have(have)
			}
			if c.imp != nil {
				c.imp(imp)
			}
			before := have.DeepCopy()
			change := Service(imp, have, local)
			if change.Verb != c.verb || c.expect != nil && !c.expect(change.Object) {
				t.Errorf("%s: %+v", change.Verb, change.Object.Spec)
			}
			if diff := cmp.Diff(before, have); diff != "" {
				t.Errorf("what exists was changed:\n%s", diff)
			}
			if change.Verb == Update {
				if again := Service(imp, change.Object, local); again.Verb != None {
					t.Errorf("the plan carried out wants %s: %s", again.Verb, again.Why)
				}
			}
		})
	}
	if change := Service(nil, nil, local); change.Verb != None {
		t.Errorf("without an import: %s", change.Verb)
	}
	if change := Service(nil, made(anImport(), "10.96.0.1"), local); change.Verb != Delete {
		t.Errorf("with an import that is gone: %s", change.Verb)
	}
}

func TestMirroredSlice(t *testing.T) {
	changes := EndpointSlices(anImport(), model.View{Exports: []model.Export{anExport()}}, nil, local)
	if len(changes) != 1 || changes[0].Verb != Create {
		t.Fatalf("changes are %v", changes)
	}
	yes, no, empty, http, tcp, number := true, false, "whereami-0", "http", corev1.ProtocolTCP, int32(8080)
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "test", Name: mcs.SliceName("east", key, "whereami-x7k2p", "IPv4"),
			Labels: map[string]string{
				"multicluster.kubernetes.io/service-name":   "whereami",
				"multicluster.kubernetes.io/source-cluster": "east",
				"endpointslice.kubernetes.io/managed-by":    "syncd.k8s-mcs.io",
				"kubernetes.io/service-name":                "gke-mcs-isu46k25p2",
			},
			Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &http, Protocol: &tcp, Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"10.5.0.10"},
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			Hostname:   &empty, Zone: new("zone-a"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "whereami-0"},
		}},
	}
	if diff := cmp.Diff(want, changes[0].Object); diff != "" {
		t.Error(diff)
	}
}

func TestMirroredSlices(t *testing.T) {
	standing := func() *discoveryv1.EndpointSlice {
		s := EndpointSlices(anImport(), model.View{Exports: []model.Export{anExport()}}, nil, local)[0].Object
		s.UID, s.ResourceVersion = "u", "1"
		return s
	}
	for name, c := range map[string]struct {
		imp    func(*model.Import)
		export func(*model.Export)
		view   func(*model.View)
		verbs  string
		expect func(*discoveryv1.EndpointSlice) bool
	}{
		"one that is right is left alone": {},
		"a trigger time alone is no difference": {
			export: func(e *model.Export) { e.Slices[0].TriggerTime = "2027-01-01T00:00:00Z" },
		},
		"an endpoint that is not ready is written so": {
			export: func(e *model.Export) { e.Slices[0].Endpoints[0].Ready = false },
			verbs:  "update",
			expect: func(s *discoveryv1.EndpointSlice) bool {
				return !*s.Endpoints[0].Conditions.Ready && s.ResourceVersion == "1"
			},
		},
		"a headless import hides it from kube-proxy and keeps the tie to the Service's name": {
			imp:   func(i *model.Import) { i.Kind = model.Headless },
			verbs: "update",
			expect: func(s *discoveryv1.EndpointSlice) bool {
				_, hidden := s.Labels["service.kubernetes.io/headless"]
				return hidden && s.Labels["kubernetes.io/service-name"] == "gke-mcs-isu46k25p2"
			},
		},
		"the port follows its Service's port to the name of the import": {
			imp:    func(i *model.Import) { i.Ports[0].Name = "web" },
			verbs:  "update",
			expect: func(s *discoveryv1.EndpointSlice) bool { return *s.Ports[0].Name == "web" && *s.Ports[0].Port == 8080 },
		},
		"a port that lost its name to another cluster is left out, and the endpoints stay": {
			imp:    func(i *model.Import) { i.Ports[0].Number = 8080 },
			verbs:  "update",
			expect: func(s *discoveryv1.EndpointSlice) bool { return len(s.Ports) == 0 && len(s.Endpoints) == 1 },
		},
		"the ports of a headless import are not translated": {
			imp:    func(i *model.Import) { i.Kind, i.Ports = model.Headless, nil },
			verbs:  "update",
			expect: func(s *discoveryv1.EndpointSlice) bool { return *s.Ports[0].Name == "http" },
		},
		"a source slice that is gone takes its mirror along": {
			export: func(e *model.Export) { e.Slices = nil }, verbs: "delete",
		},
		"a slice of the other family is another one": {
			export: func(e *model.Export) { e.Slices[0].AddressType = model.IPv6 }, verbs: "create delete",
		},
		"a cluster that is gone takes its slices along": {
			view: func(v *model.View) { v.Exports = nil }, verbs: "delete",
		},
		"a cluster that cannot be told keeps its slices": {
			view: func(v *model.View) { v.Exports[0].Slices, v.Unknown = nil, []mcs.ClusterID{"east"} },
		},
		"a kept slice still follows the type of the import": {
			imp:   func(i *model.Import) { i.Kind = model.Headless },
			view:  func(v *model.View) { v.Exports[0].Slices, v.Unknown = nil, []mcs.ClusterID{"east"} },
			verbs: "update",
			expect: func(s *discoveryv1.EndpointSlice) bool {
				_, hidden := s.Labels["service.kubernetes.io/headless"]
				return hidden && len(s.Endpoints) == 1
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			imp, export, have := anImport(), anExport(), standing()
			if c.imp != nil {
				c.imp(imp)
			}
			if c.export != nil {
				c.export(&export)
			}
			view := model.View{Key: key, Exports: []model.Export{export}}
			if c.view != nil {
				c.view(&view)
			}
			changes := EndpointSlices(imp, view, []*discoveryv1.EndpointSlice{have}, local)
			var verbs []string
			for _, change := range changes {
				verbs = append(verbs, string(change.Verb))
			}
			if strings.Join(verbs, " ") != c.verbs {
				t.Fatalf("changes are %q, want %q", verbs, c.verbs)
			}
			if c.expect != nil && !c.expect(changes[0].Object) {
				t.Errorf("slice is %+v", changes[0].Object)
			}
			if len(changes) == 1 && changes[0].Verb == Update {
				if again := EndpointSlices(imp, view, []*discoveryv1.EndpointSlice{changes[0].Object}, local); len(again) > 0 {
					t.Errorf("the plan carried out wants %s: %s", again[0].Verb, again[0].Why)
				}
			}
		})
	}
}

func TestTheNodeOfAnEndpointIsKeptForTheOwnClusterOnly(t *testing.T) {
	export := anExport()
	export.Cluster = local.Cluster
	changes := EndpointSlices(anImport(), model.View{Exports: []model.Export{export}}, nil, local)
	if got := changes[0].Object.Endpoints[0].NodeName; got == nil || *got != "node-1" {
		t.Errorf("node of an own endpoint is %v", got)
	}
}

func TestServiceImport(t *testing.T) {
	in := ImportInput{Import: anImport(), Exports: []model.Export{anExport()}, Service: made(anImport(), "10.96.0.1")}
	in.Import.Labels = map[string]string{
		"team": "a", "app.kubernetes.io/managed-by": "evil", "k8s-mcs.io/exports": "evil", "bad key!": "x", "long": strings.Repeat("x", 64),
	}
	created := ServiceImport(in, local)
	i := created.Object
	if created.Verb != Create || len(i.Spec.IPs) != 1 || i.Spec.IPs[0] != "10.96.0.1" || i.Spec.Type != api.ClusterSetIP {
		t.Fatalf("%s %+v", created.Verb, i.Spec)
	}
	wantLabels := map[string]string{"team": "a", "app.kubernetes.io/managed-by": "syncd.k8s-mcs.io"}
	if diff := cmp.Diff(wantLabels, i.Labels); diff != "" {
		t.Error(diff)
	}
	if got, err := model.DecodeExports(key, i.Annotations["k8s-mcs.io/exports"]); err != nil || len(got) != 1 || got[0].Cluster != "east" {
		t.Errorf("stored offers are %v, %v", got, err)
	}

	in.Have = i.DeepCopy()
	in.Have.Generation, in.Have.UID = 1, "u"
	if again := ServiceImport(in, local); again.Verb != None {
		t.Errorf("the plan carried out wants %s: %s", again.Verb, again.Why)
	}
	t.Run("a label that is exported no more goes, and one of others stays", func(t *testing.T) {
		in := in
		labelled := anExport()
		labelled.Labels = map[string]string{"team": "a"}
		text, _ := model.EncodeExports([]model.Export{labelled})
		in.Have = in.Have.DeepCopy()
		in.Have.Labels["other"], in.Have.Annotations["k8s-mcs.io/exports"] = "b", text
		bare := anImport()
		in.Import = bare
		change := ServiceImport(in, local)
		want := map[string]string{"other": "b", "app.kubernetes.io/managed-by": "syncd.k8s-mcs.io"}
		if diff := cmp.Diff(want, change.Object.Labels); change.Verb != Update || diff != "" {
			t.Error(change.Verb, diff)
		}
	})
	t.Run("ports are an empty list, never null", func(t *testing.T) {
		in := ImportInput{Import: &model.Import{Key: key, Kind: model.Headless}}
		if ports := ServiceImport(in, local).Object.Spec.Ports; ports == nil {
			t.Error("null")
		}
	})
	t.Run("an import that nobody exports goes", func(t *testing.T) {
		if change := ServiceImport(ImportInput{Have: in.Have}, local); change.Verb != Delete {
			t.Errorf("verb is %q", change.Verb)
		}
		if change := ServiceImport(ImportInput{}, local); change.Verb != None {
			t.Errorf("verb is %q without an import", change.Verb)
		}
	})
}

func TestImportStatus(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ImportInput)
		status metav1.ConditionStatus
		reason string
		say    string
	}{
		"a clusterset IP makes it ready":            {func(*ImportInput) {}, "True", "Ready", ""},
		"a headless one is ready without a Service": {func(in *ImportInput) { in.Import.Kind, in.Service = model.Headless, nil }, "True", "Ready", ""},
		"it waits for the Service":                  {func(in *ImportInput) { in.Service = nil }, "False", "Pending", "no clusterset IP yet"},
		"it says what the API server refused": {
			func(in *ImportInput) { in.Service, in.Refusal = nil, "exceeded quota: services" }, "False", "Pending", "exceeded quota: services",
		},
		"it says that no family is shared": {
			func(in *ImportInput) { in.Service, in.Import.Families = nil, nil }, "False", "IPFamilyNotSupported", "no IP family",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := ImportInput{Import: anImport(), Exports: []model.Export{anExport()}, Service: made(anImport(), "10.96.0.1")}
			in.Have = ServiceImport(in, local).Object
			in.Have.Generation = 3
			c.change(&in)
			change := ImportStatus(in, local, now)
			got := meta.FindStatusCondition(change.Object.Status.Conditions, "Ready")
			if change.Verb != Update || got == nil || got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.say) || got.ObservedGeneration != 3 {
				t.Fatalf("%s: %+v", change.Verb, got)
			}
			if s := change.Object.Status; len(s.Clusters) != 1 || s.Clusters[0].Cluster != "east" || s.EndpointSliceObjects != "Present" {
				t.Errorf("status is %+v", s)
			}
			in.Have = change.Object
			if again := ImportStatus(in, local, metav1.NewTime(now.Add(time.Hour))); again.Verb != None {
				t.Error("the passing of time alone is a write")
			}
		})
	}
}

func TestReservedKeysDoNotTravel(t *testing.T) {
	for k, want := range map[string]bool{
		"team": false, "example.com/team": false, "notk8s.io/x": false,
		"kubernetes.io/x": true, "service.kubernetes.io/headless": true, "k8s.io/x": true, "x-k8s.io/x": true,
		"multicluster.x-k8s.io/x": true, "net.gke.io/x": true, "k8s-mcs.io/x": true, "a.k8s-mcs.io/x": true,
	} {
		if got := isReserved(k); got != want {
			t.Errorf("isReserved(%q) = %v", k, got)
		}
	}
}

func TestEndpointsAsGKEShowsThem(t *testing.T) {
	compat := local
	compat.GKECompat = true
	slice := func(cluster mcs.ClusterID, ready bool, addresses ...string) *discoveryv1.EndpointSlice {
		e := anExport()
		e.Cluster = cluster
		e.Slices[0].Endpoints = nil
		for _, a := range addresses {
			e.Slices[0].Endpoints = append(e.Slices[0].Endpoints, model.Endpoint{Addresses: []netip.Addr{netip.MustParseAddr(a)}, Ready: ready, Serving: ready})
		}
		return EndpointSlices(anImport(), model.View{Exports: []model.Export{e}}, nil, compat)[0].Object
	}
	standing := []*discoveryv1.EndpointSlice{slice("osa", true, "10.6.1.6", "10.6.0.9"), slice("tyo", true, "10.5.0.10"), slice("zzz", false, "10.7.0.1")}
	change := Endpoints(anImport(), standing, nil, compat)
	e := change.Object
	if change.Verb != Create || e.Name != "gke-mcs-isu46k25p2" || e.Labels["endpointslice.kubernetes.io/skip-mirror"] != "true" || !OwnsEndpoints(e, key) {
		t.Fatalf("%s %+v", change.Verb, e)
	}
	port := api.EndpointPort{Name: "http", Protocol: "TCP", Port: 8080}
	want := []api.EndpointSubset{{
		Addresses:         []api.EndpointAddress{{IP: "10.5.0.10"}, {IP: "10.6.0.9"}, {IP: "10.6.1.6"}},
		NotReadyAddresses: []api.EndpointAddress{{IP: "10.7.0.1"}},
		Ports:             []api.EndpointPort{port},
	}}
	if diff := cmp.Diff(want, e.Subsets); diff != "" {
		t.Error(diff)
	}
	if again := Endpoints(anImport(), standing, e, compat); again.Verb != None {
		t.Errorf("the plan carried out wants %s: %s", again.Verb, again.Why)
	}
	if fewer := Endpoints(anImport(), standing[:1], e, compat); fewer.Verb != Update || len(fewer.Object.Subsets[0].Addresses) != 2 {
		t.Errorf("with fewer slices: %s", fewer.Verb)
	}
	headless := anImport()
	headless.Kind = model.Headless
	for name, gone := range map[string]Change[*api.Endpoints]{
		"a headless import": Endpoints(headless, standing, e, compat),
		"no import":         Endpoints(nil, nil, e, compat),
		"no compatibility":  Endpoints(anImport(), standing, e, local),
	} {
		if gone.Verb != Delete {
			t.Errorf("%s: %q, want delete", name, gone.Verb)
		}
	}
	if none := Endpoints(headless, standing, nil, compat); none.Verb != None {
		t.Errorf("a headless import without Endpoints: %s", none.Verb)
	}
	t.Run("no more than the API's own controller writes", func(t *testing.T) {
		var many []string
		for i := range MaxEndpoints + 5 {
			many = append(many, fmt.Sprintf("10.9.%d.%d", i/250, i%250+1))
		}
		got := Endpoints(anImport(), []*discoveryv1.EndpointSlice{slice("osa", true, many...)}, nil, compat).Object.Subsets
		if len(got) != 1 || len(got[0].Addresses) != MaxEndpoints {
			t.Errorf("%d addresses", len(got[0].Addresses))
		}
	})
}

func TestStandingSlicesAreThoseAfterTheChanges(t *testing.T) {
	named := func(name string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	changed := named("b")
	got := Standing([]*discoveryv1.EndpointSlice{named("a"), named("b"), named("c")}, []Change[*discoveryv1.EndpointSlice]{
		{Verb: Delete, Object: named("a")}, {Verb: Update, Object: changed}, {Verb: Create, Object: named("d")},
	})
	var names []string
	for _, s := range got {
		names = append(names, s.Name)
	}
	if strings.Join(names, " ") != "b c d" || got[0] != changed {
		t.Errorf("standing are %v", names)
	}
}

func TestAnnotationsOfGKEComeAndGoWithTheFlag(t *testing.T) {
	compat := local
	compat.GKECompat = true
	service := Service(anImport(), nil, compat).Object
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "10.96.0.1", []string{"10.96.0.1"}
	in := ImportInput{Import: anImport(), Service: service}
	in.Have = ServiceImport(in, compat).Object
	if service.Annotations["net.gke.io/service-import"] != "whereami" || in.Have.Annotations["net.gke.io/derived-service"] != "gke-mcs-isu46k25p2" {
		t.Errorf("annotations are %v and %v", service.Annotations, in.Have.Annotations)
	}
	if s := Service(anImport(), service, local).Object; s.Annotations["net.gke.io/service-import"] != "" {
		t.Errorf("annotations of the Service are %v without the flag", s.Annotations)
	}
	if i := ServiceImport(in, local).Object; i.Annotations["net.gke.io/derived-service"] != "" {
		t.Errorf("annotations of the import are %v without the flag", i.Annotations)
	}
}
