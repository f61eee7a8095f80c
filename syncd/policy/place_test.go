package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/syncd/model"
	"github.com/k8s-mcs/k8s-mcs/syncd/plan"
)

func TestPlaces(t *testing.T) {
	own := func(ready int) Cluster { return Cluster{ID: "hub", Own: true, Told: true, Ready: ready, All: 4} }
	synced := func(ready int) Cluster {
		return Cluster{ID: "west", State: Synced, OnLost: Fallback, Told: true, Ready: ready, All: 4}
	}
	lost := func(policy OnLost) Cluster {
		return Cluster{ID: "east", State: Stale, OnLost: policy, Told: true, Ready: 1, All: 1}
	}
	peer := func(state State, told bool) Cluster {
		return Cluster{ID: "east", State: state, OnLost: Fallback, Told: told}
	}
	for name, c := range map[string]struct {
		clusters []Cluster
		prefer   Prefer
		want     Place // of east
	}{
		"keep keeps":    {[]Cluster{lost(Keep), synced(1)}, Prefer{}, Place{}},
		"withdraw does": {[]Cluster{lost(Withdraw)}, Prefer{}, Place{Park: Parked}},
		"fallback parks where another cluster has ready endpoints":     {[]Cluster{lost(Fallback), synced(1)}, Prefer{}, Place{Park: Parked}},
		"fallback parks where this cluster has":                        {[]Cluster{lost(Fallback), own(1)}, Prefer{}, Place{Park: Parked}},
		"fallback keeps the only ones":                                 {[]Cluster{lost(Fallback)}, Prefer{}, Place{}},
		"fallback keeps where the others have none ready":              {[]Cluster{lost(Fallback), synced(0), own(0)}, Prefer{}, Place{}},
		"fallback keeps where the others are lost too":                 {[]Cluster{lost(Fallback), {ID: "west", State: Stale, Told: true, Ready: 1}}, Prefer{}, Place{}},
		"fallback waits for one that is not read yet":                  {[]Cluster{lost(Fallback), {ID: "west", State: Connecting}}, Prefer{}, Place{Park: AsIs}},
		"fallback waits for slices of another that are not read yet":   {[]Cluster{lost(Fallback), {ID: "west", State: Synced}}, Prefer{}, Place{Park: AsIs}},
		"fallback waits for own slices that are not read yet":          {[]Cluster{lost(Fallback), {ID: "hub", Own: true}}, Prefer{}, Place{Park: AsIs}},
		"a peer that is not read after a restart stays as it is":       {[]Cluster{peer(Connecting, false), own(1)}, Prefer{}, Place{Park: AsIs}},
		"one that refuses serves":                                      {[]Cluster{peer(Held, true), own(1)}, Prefer{}, Place{}},
		"all silent at once: all serve":                                {[]Cluster{peer(SelfIsolated, true), own(1)}, Prefer{}, Place{}},
		"enough own endpoints hold peers back":                         {[]Cluster{peer(Synced, true), own(2)}, Prefer{Ready: 2}, Place{HeldBack: true}},
		"too few do not":                                               {[]Cluster{peer(Synced, true), own(1)}, Prefer{Ready: 2}, Place{}},
		"a share of own endpoints that is large enough does":           {[]Cluster{peer(Synced, true), own(2)}, Prefer{Percent: 50}, Place{HeldBack: true}},
		"a share that is too small does not":                           {[]Cluster{peer(Synced, true), own(1)}, Prefer{Percent: 50}, Place{}},
		"none ready is never enough":                                   {[]Cluster{peer(Synced, true), {ID: "hub", Own: true, Told: true}}, Prefer{Percent: 50}, Place{}},
		"endpoints of other peers are not own ones":                    {[]Cluster{peer(Synced, true), synced(4)}, Prefer{Ready: 1}, Place{}},
		"a lost peer is parked, whether it would be held back or not":  {[]Cluster{lost(Fallback), own(2)}, Prefer{Ready: 1}, Place{Park: Parked, HeldBack: true}},
		"one that is not read yet is held back all the same, as it is": {[]Cluster{peer(Connecting, false), own(2)}, Prefer{Ready: 1}, Place{Park: AsIs, HeldBack: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Places(c.clusters, c.prefer)["east"]; got != c.want {
				t.Errorf("place is %+v, want %+v", got, c.want)
			}
		})
	}
}

var (
	web   = mcs.ServiceKey{Namespace: "shop", Name: "web"}
	local = plan.Local{Cluster: "hub", Prefix: "mcs-"}
)

func view(address string) (*model.Import, model.View) {
	port := model.Port{Name: "http", Protocol: "TCP", Number: 80}
	offer := model.Export{Cluster: "east", Key: web, Kind: model.ClusterSetIP, Ports: []model.Port{port}, Slices: []model.Slice{{
		Name: "web-1", AddressType: model.IPv4, Ports: []model.SlicePort{{Name: "http", Protocol: "TCP", Number: 8080}},
		Endpoints: []model.Endpoint{{Addresses: []netip.Addr{netip.MustParseAddr(address)}, Ready: true, Serving: true}},
	}}}
	return &model.Import{Key: web, Kind: model.ClusterSetIP, Ports: []model.Port{port}, Clusters: []mcs.ClusterID{"east"}},
		model.View{Key: web, Exports: []model.Export{offer}}
}

// labels are the ones that places move, sorted, without their domains.
func labels(s *discoveryv1.EndpointSlice) string {
	var found []string
	for _, label := range slices.Sorted(maps.Keys(s.Labels)) {
		switch label {
		case mcs.LabelServiceName, mcs.LabelSourceCluster, mcs.LabelParkedService, mcs.LabelParkedCluster, mcs.LabelHeadless:
			found = append(found, label[strings.LastIndex(label, "/")+1:]+"="+s.Labels[label])
		}
	}
	return strings.Join(found, " ")
}

// A slice goes through all places; each move is one write, and none is repeated.
func TestSlicesMoveWithOneWrite(t *testing.T) {
	var have []*discoveryv1.EndpointSlice
	const serves = "service-name=web source-cluster=east"
	for i, step := range []struct {
		place   Place
		address string
		verb    plan.Verb
		want    string
	}{
		{Place{}, "10.1.0.1", plan.Create, serves},
		{Place{Park: AsIs}, "10.1.0.1", plan.None, serves},
		{Place{Park: Parked}, "10.1.0.1", plan.Update, "parked-cluster=east parked-service=web headless="},
		{Place{Park: Parked}, "10.1.0.1", plan.None, "parked-cluster=east parked-service=web headless="},
		{Place{Park: AsIs}, "10.1.0.1", plan.None, "parked-cluster=east parked-service=web headless="},
		{Place{Park: Parked}, "10.1.0.2", plan.Update, "parked-cluster=east parked-service=web headless="},
		{Place{HeldBack: true}, "10.1.0.2", plan.Update, serves + " headless="},
		{Place{HeldBack: true}, "10.1.0.2", plan.None, serves + " headless="},
		{Place{}, "10.1.0.2", plan.Update, serves},
		{Place{}, "10.1.0.2", plan.None, serves},
	} {
		imp, v := view(step.address)
		changes := Slices(imp, v, have, map[mcs.ClusterID]Place{"east": step.place}, local)
		verb := plan.None
		if len(changes) > 0 {
			verb = changes[0].Verb
		}
		have = plan.Standing(have, changes)
		if len(changes) > 1 || verb != step.verb || len(have) != 1 || labels(have[0]) != step.want || have[0].Endpoints[0].Addresses[0] != step.address {
			t.Fatalf("step %d: %s, then %v", i, fmt.Sprint(verb), have)
		}
	}
	if have[0].Labels[mcs.LabelSliceService] != mcs.DerivedName("mcs-", web) {
		t.Errorf("labels are %v: kube-proxy never lets go of a slice that loses %s", have[0].Labels, mcs.LabelSliceService)
	}
}

// A slice that takes the place of another stands before that one goes.
func TestNewSlicesComeFirstAndOldOnesGoLast(t *testing.T) {
	imp, v := view("10.1.0.1")
	second := v.Exports[0].Slices[0]
	second.Name = "web-2"
	v.Exports[0].Slices = append(v.Exports[0].Slices, second)
	have := plan.Standing(nil, Slices(imp, v, nil, nil, local))

	changed := second
	changed.Endpoints = []model.Endpoint{{Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}, Ready: true, Serving: true}}
	third := second
	third.Name = "web-3"
	v.Exports[0].Slices = []model.Slice{changed, third}
	var verbs []plan.Verb
	for _, c := range Slices(imp, v, have, nil, local) {
		verbs = append(verbs, c.Verb)
	}
	if want := []plan.Verb{plan.Create, plan.Update, plan.Delete}; !slices.Equal(verbs, want) {
		t.Errorf("writes are %v, want %v", verbs, want)
	}
}

func TestSlicesOfAPeerThatCannotBeToldStayParked(t *testing.T) {
	imp, v := view("10.1.0.1")
	parked := Slices(imp, v, nil, map[mcs.ClusterID]Place{"east": {Park: Parked}}, local)[0].Object
	v.Exports[0].Slices, v.Unknown = nil, []mcs.ClusterID{"east"}
	for _, place := range []Place{{Park: AsIs}, {Park: Parked}} {
		if changes := Slices(imp, v, []*discoveryv1.EndpointSlice{parked}, map[mcs.ClusterID]Place{"east": place}, local); len(changes) > 0 {
			t.Errorf("%+v: changes %+v", place, changes)
		}
	}
	// Its Secret is removed: nothing speaks for it any more.
	v.Unknown, v.Exports = nil, nil
	for _, i := range []*model.Import{imp, nil} {
		changes := Slices(i, v, []*discoveryv1.EndpointSlice{parked}, nil, local)
		if len(changes) != 1 || changes[0].Verb != plan.Delete || changes[0].Object.Name != parked.Name {
			t.Errorf("changes %+v", changes)
		}
	}
}

func TestTheExportsPolicyIsKeptOnItsSlices(t *testing.T) {
	imp, v := view("10.1.0.1")
	keep, none := Keep, OnLost("")
	var have []*discoveryv1.EndpointSlice
	for i, step := range []struct {
		note *OnLost
		want OnLost
		verb plan.Verb
	}{
		{&keep, Keep, plan.Create},
		{&keep, Keep, plan.None},
		{nil, Keep, plan.None}, // the export cannot be read
		{&none, "", plan.Update},
		{nil, "", plan.None},
	} {
		changes := Slices(imp, v, have, map[mcs.ClusterID]Place{"east": {Note: step.note}}, local)
		verb := plan.None
		if len(changes) > 0 {
			verb = changes[0].Verb
		}
		if have = plan.Standing(have, changes); verb != step.verb || NoteOf(have[0]) != step.want {
			t.Errorf("step %d: %q, then %v", i, verb, have[0].Annotations)
		}
	}
}

func TestAnnotationsOfAPeerSecret(t *testing.T) {
	defaults := PeerOptions{OnLost: Fallback, StaleAfter: 1}
	for name, c := range map[string]struct {
		annotation, value string
		problem           string
		is                func(PeerOptions) bool
	}{
		"a policy":             {mcs.AnnotationOnLost, "withdraw", "", func(o PeerOptions) bool { return o.OnLost == Withdraw }},
		"a bad policy":         {mcs.AnnotationOnLost, "drop", "keep, fallback or withdraw", func(o PeerOptions) bool { return o.OnLost == Fallback }},
		"a time":               {mcs.AnnotationStaleAfter, "10m", "", func(o PeerOptions) bool { return o.StaleAfter.Minutes() == 10 }},
		"a bad time":           {mcs.AnnotationStaleAfter, "-1m", "such as 5m", func(o PeerOptions) bool { return o.StaleAfter == 1 }},
		"a word":               {mcs.AnnotationReleaseHeld, "2026-01-02T03:04:05Z", "", func(o PeerOptions) bool { return o.Release.Equal(start) }},
		"a bad word":           {mcs.AnnotationReleaseHeld, "now", "want a time", func(o PeerOptions) bool { return o.Release.IsZero() }},
		"namespaces":           {mcs.AnnotationAllowNamespaces, "shop, bank", "", func(o PeerOptions) bool { return o.AllowsNamespace("bank") && !o.AllowsNamespace("other") }},
		"no namespaces":        {mcs.AnnotationAllowNamespaces, "", "", func(o PeerOptions) bool { return !o.AllowsNamespace("shop") }},
		"a pattern is no name": {mcs.AnnotationAllowNamespaces, "shop,*", "names of namespaces", func(o PeerOptions) bool { return !o.AllowsNamespace("shop") }},
		"ranges": {mcs.AnnotationAllowCIDRs, "10.1.0.0/16,fd00::/8", "", func(o PeerOptions) bool {
			return o.AllowsAddress(netip.MustParseAddr("10.1.2.3")) && !o.AllowsAddress(netip.MustParseAddr("10.2.0.1"))
		}},
		"a bad range": {mcs.AnnotationAllowCIDRs, "10.1.0.0/16,10.2", "ranges such as", func(o PeerOptions) bool { return !o.AllowsAddress(netip.MustParseAddr("10.1.2.3")) }},
		"nothing narrows": {"other", "x", "", func(o PeerOptions) bool {
			return o.AllowsNamespace("a") && o.AllowsAddress(netip.MustParseAddr("10.1.2.3"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ParsePeerOptions(map[string]string{c.annotation: c.value}, defaults)
			if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) || !c.is(o) {
				t.Errorf("options %+v, error %v", o, err)
			}
		})
	}
}

func TestAnnotationsOfAServiceExport(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		problems    []string
	}{
		"none":             {map[string]string{"other": "x"}, nil},
		"good ones":        {map[string]string{mcs.AnnotationOnLost: "keep", mcs.AnnotationPrefer: "local:2"}, nil},
		"a bad policy":     {map[string]string{mcs.AnnotationOnLost: "drop"}, []string{mcs.AnnotationOnLost, "keep, fallback or withdraw"}},
		"a bad preference": {map[string]string{mcs.AnnotationPrefer: "remote"}, []string{mcs.AnnotationPrefer, "local:N"}},
		"one for a Secret": {map[string]string{mcs.AnnotationStaleAfter: "5m"}, []string{mcs.AnnotationStaleAfter, "Secret of a peer"}},
		"two come as one":  {map[string]string{mcs.AnnotationOnLost: "", mcs.AnnotationPrefer: ""}, []string{mcs.AnnotationOnLost, mcs.AnnotationPrefer}},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckExport(c.annotations)
			if (err != nil) != (c.problems != nil) {
				t.Fatal(err)
			}
			for _, part := range c.problems {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestPrefer(t *testing.T) {
	for text, want := range map[string]Prefer{"none": {}, "local": {Ready: 1}, "local:3": {Ready: 3}, "local:50%": {Percent: 50}} {
		if got, err := ParsePrefer(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "remote", "local:", "local:0", "local:-1", "local:101%", "local:x%", "none:1"} {
		if got, err := ParsePrefer(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
