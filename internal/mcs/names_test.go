package mcs

import (
	"regexp"
	"strings"
	"testing"
)

func TestDerivedNameIsTheOneGKEPublished(t *testing.T) {
	for key, want := range map[string]string{
		"test/whereami":               "gke-mcs-isu46k25p2",
		"multi-cluster-demo/whereami": "gke-mcs-7pqvt62non",
		"app/myapp":                   "gke-mcs-1a8qqpah56",
	} {
		k, err := ParseServiceKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if got := DerivedName("gke-mcs-", k); got != want {
			t.Errorf("DerivedName(%s) = %s, want %s", key, got, want)
		}
	}
}

func TestSliceNameStaysTheSameForever(t *testing.T) {
	got := SliceName("osa-cluster-01", ServiceKey{"test", "whereami"}, "whereami-abc12", "IPv4")
	if want := "whereami-mc8ffbjbn3pb"; got != want {
		t.Errorf("SliceName = %s, want %s: a change here orphans slices in running clusters", got, want)
	}
}

func TestSliceNameIsInjectiveInItsParts(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		what    string
		cluster ClusterID
		key     ServiceKey
		slice   string
		family  string
	}{
		{"as it is", "west", ServiceKey{"shop", "p"}, "p-1", "IPv4"},
		{"other cluster", "basil-west", ServiceKey{"shop", "p"}, "p-1", "IPv4"},
		{"dash moved from cluster to service", "west", ServiceKey{"shop", "p-basil"}, "p-1", "IPv4"},
		{"other namespace", "west", ServiceKey{"sho", "p"}, "p-1", "IPv4"},
		{"letter moved from namespace to service", "west", ServiceKey{"sho", "pp"}, "p-1", "IPv4"},
		{"other slice", "west", ServiceKey{"shop", "p"}, "p-2", "IPv4"},
		{"other family", "west", ServiceKey{"shop", "p"}, "p-1", "IPv6"},
	} {
		name := SliceName(c.cluster, c.key, c.slice, c.family)
		if before, ok := seen[name]; ok {
			t.Errorf("%s and %s share the name %s", before, c.what, name)
		}
		seen[name] = c.what
	}
}

func TestSliceNameOfTheLongestServiceIsAValidObjectName(t *testing.T) {
	for _, service := range []string{
		strings.Repeat("a", 63),
		strings.Repeat("a", 39) + "-" + strings.Repeat("b", 23), // cut right after the dash
		"4ever",
	} {
		name := SliceName("c", ServiceKey{strings.Repeat("n", 63), service}, strings.Repeat("s", 253), "IPv6")
		if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) || len(name) > 63 {
			t.Errorf("SliceName for %s is %q: not a valid object name", service, name)
		}
	}
}
