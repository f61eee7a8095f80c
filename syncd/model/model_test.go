package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var key = mcs.ServiceKey{Namespace: "shop", Name: "web"}

func fullExport() Export {
	return Export{
		Cluster: "west.eu", Key: key, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: ClusterSetIP,
		Ports:    []Port{{"http", "TCP", 80, "kubernetes.io/h2c"}, {"", "UDP", 53, ""}},
		Traffic:  Traffic{"ClientIP", 60, "Local", "PreferClose"},
		Families: []Family{IPv6, IPv4},
		Labels:   map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"},
	}
}

// The text stands in clusters: an older or newer syncd must read the same in it.
func TestStoredOffersHaveThisForm(t *testing.T) {
	text, omitted := EncodeExports([]Export{fullExport()})
	want := `{"version":1,"exports":[{"cluster":"west.eu","created":"2026-01-02T03:04:05Z","type":"ClusterSetIP",` +
		`"ports":[{"name":"http","protocol":"TCP","port":80,"appProtocol":"kubernetes.io/h2c"},{"protocol":"UDP","port":53}],` +
		`"sessionAffinity":"ClientIP","sessionAffinityTimeoutSeconds":60,"internalTrafficPolicy":"Local",` +
		`"trafficDistribution":"PreferClose","ipFamilies":["IPv6","IPv4"],"labels":{"team":"a"},"annotations":{"note":"b"}}]}`
	if text != want || len(omitted) > 0 {
		t.Errorf("stored offers are\n%s\nwant\n%s", text, want)
	}
}

func TestStoredOffersComeBackWithoutTheirSlices(t *testing.T) {
	want := fullExport()
	with := want
	with.Slices = []Slice{{Name: "web-1"}}
	text, _ := EncodeExports([]Export{with})
	got, err := DecodeExports(key, text)
	if diff := cmp.Diff([]Export{want}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestStoredOffersThatAreTooLargeLeaveTheYoungestOut(t *testing.T) {
	var exports []Export
	for i := range 200 {
		e := fullExport()
		e.Cluster = mcs.ClusterID(fmt.Sprintf("c%03d", i))
		exports = append(exports, e)
	}
	text, omitted := EncodeExports(exports)
	got, err := DecodeExports(key, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > MaxStored || len(text) < MaxStored/2 || len(got)+len(omitted) != len(exports) {
		t.Errorf("%d bytes, %d stored and %d omitted of %d", len(text), len(got), len(omitted), len(exports))
	}
	if last := omitted[len(omitted)-1]; last != "c199" || got[0].Cluster != "c000" {
		t.Errorf("stored from %s, omitted up to %s", got[0].Cluster, last)
	}
}

func TestStoredOffersThatMakeNoSense(t *testing.T) {
	good, _ := EncodeExports([]Export{fullExport()})
	for name, c := range map[string]struct {
		text    string
		problem string
		good    int
	}{
		"no JSON":                             {"{", "unexpected end", 0},
		"a version of the future":             {strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2, this syncd reads version 1", 0},
		"a bad id does not hide a good offer": {strings.Replace(good, `[{"cluster"`, `[{"cluster":"A B","type":"Headless"},{"cluster"`, 1), "exports[0]", 1},
		"an unknown type":                     {strings.Replace(good, "ClusterSetIP", "Magic", 1), `type "Magic"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeExports(key, c.text)
			if err == nil || !strings.Contains(err.Error(), c.problem) || len(got) != c.good {
				t.Errorf("%d offers and error %v, want %d and %q", len(got), err, c.good, c.problem)
			}
		})
	}
}

// A zone can push a time past the year that JSON can carry.
func TestATimeBeyondRFC3339IsStoredAsTheLast(t *testing.T) {
	e := fullExport()
	e.Created = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600))
	text, _ := EncodeExports([]Export{e})
	got, err := DecodeExports(key, text)
	if err != nil || got[0].Created.Year() != 9999 {
		t.Errorf("decoded %v, %v", got, err)
	}
}

func FuzzDecodeExports(f *testing.F) {
	good, _ := EncodeExports([]Export{fullExport()})
	for _, seed := range []string{good, `{"version":1,"exports":[]}`, `{"version":1,"exports":[{}]}`, `[]`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := DecodeExports(key, text)
		if err != nil {
			return
		}
		again, omitted := EncodeExports(first)
		second, err := DecodeExports(key, again)
		if err != nil {
			t.Fatalf("decoded %q, but not what it encodes to: %v", text, err)
		}
		if len(second)+len(omitted) != len(first) {
			t.Fatalf("%d offers became %d", len(first), len(second))
		}
	})
}

func TestOffer(t *testing.T) {
	source := &Source{Ports: []Port{{"http", "TCP", 80, ""}}}
	for name, c := range map[string]struct {
		closed bool
		source *Source
		kind   Kind
		reason string
	}{
		"a Service with a cluster IP":       {false, source, ClusterSetIP, ""},
		"a headless Service":                {false, &Source{Headless: true}, Headless, ""},
		"no Service":                        {false, nil, "", "NoService"},
		"an ExternalName Service":           {false, &Source{ExternalName: true}, "", "InvalidServiceType"},
		"a Service that syncd made":         {false, &Source{Derived: true}, "", "DerivedService"},
		"a namespace that is not to travel": {true, source, "", "NamespaceNotAllowed"},
	} {
		t.Run(name, func(t *testing.T) {
			e, problem := Offer("east", key, c.closed, Declaration{}, c.source)
			switch {
			case c.reason == "" && (problem != nil || e.Kind != c.kind):
				t.Errorf("offer is %v, %v", e, problem)
			case c.reason != "" && (problem == nil || problem.Reason != c.reason || problem.Message == ""):
				t.Errorf("problem is %v, want %s", problem, c.reason)
			}
		})
	}
}
