package mcs

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	v1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

func TestWordsOfTheStandardAreThoseOfItsModules(t *testing.T) {
	for _, c := range []struct{ ours, theirs string }{
		{LabelServiceName, v1beta1.LabelServiceName},
		{LabelSourceCluster, v1beta1.LabelSourceCluster},
		{LabelSliceService, discoveryv1.LabelServiceName},
		{LabelSliceManagedBy, discoveryv1.LabelManagedBy},
		{LabelHeadless, corev1.IsHeadlessService},
		{LabelSkipMirror, discoveryv1.LabelSkipMirror},
		{AnnotationTriggerTime, corev1.EndpointsLastChangeTriggerTime},
	} {
		if c.ours != c.theirs {
			t.Errorf("%q differs from the API module's %q", c.ours, c.theirs)
		}
	}
}

func TestClusterID(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		problem string // part of the error; empty when the id is right
	}{
		"one label":                               {"tyo-cluster-01", ""},
		"two labels":                              {"gke-1.us-central1", ""},
		"digits only":                             {"01", ""},
		"63 characters":                           {strings.Repeat("a", 63), ""},
		"empty":                                   {"", "empty"},
		"64 characters":                           {strings.Repeat("a", 64), "at most 63"},
		"three labels":                            {"a.b.c", "3 labels"},
		"upper case":                              {"Tyo", "lower-case"},
		"an underscore would look like a port":    {"_tcp", "not a DNS label"},
		"a dash at the end":                       {"a-", "not a DNS label"},
		"a dot at the end":                        {"a.", "not a DNS label"},
		"a letter outside ASCII":                  {"münchen", "not a DNS label"},
		"a label beginning with a dash":           {"a.-b", "not a DNS label"},
		"two labels that are too long in all":     {strings.Repeat("a", 32) + "." + strings.Repeat("b", 31), "at most 63"},
		"two labels that are just short enough":   {strings.Repeat("a", 31) + "." + strings.Repeat("b", 31), ""},
		"a slash, as in a full membership's name": {"projects/1/memberships/x", "not a DNS label"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := ParseClusterID(c.in)
			switch {
			case c.problem == "" && (err != nil || string(id) != c.in):
				t.Errorf("ParseClusterID(%q) = %q, %v", c.in, id, err)
			case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
				t.Errorf("ParseClusterID(%q): error %v, want one with %q", c.in, err, c.problem)
			}
		})
	}
}

func TestServiceKeyParsesWhatItPrints(t *testing.T) {
	want := ServiceKey{Namespace: "test", Name: "whereami"}
	if got, err := ParseServiceKey(want.String()); err != nil || got != want {
		t.Errorf("ParseServiceKey(%s) = %v, %v", want, got, err)
	}
	for _, bad := range []string{"", "a", "/a", "a/", "a/b/c"} {
		if got, err := ParseServiceKey(bad); err == nil {
			t.Errorf("ParseServiceKey(%q) = %v, want an error", bad, got)
		}
	}
}

func TestUsableAddress(t *testing.T) {
	for addr, want := range map[string]bool{
		"10.5.0.10":       true,
		"192.168.1.1":     true,
		"fd00::1":         true,
		"2001:db8::1":     true,
		"127.0.0.1":       false,
		"::1":             false,
		"169.254.169.254": false,
		"fe80::1":         false,
		"fe80::1%eth0":    false,
		"224.0.0.1":       false,
		"ff02::1":         false,
		"255.255.255.255": false,
		"0.0.0.0":         false,
		"::":              false,
		"::ffff:10.0.0.1": false,
	} {
		ok, reason := UsableAddress(netip.MustParseAddr(addr))
		if ok != want || ok == (reason != "") {
			t.Errorf("UsableAddress(%s) = %v, %q", addr, ok, reason)
		}
	}
	if ok, _ := UsableAddress(netip.Addr{}); ok {
		t.Error("the zero address is usable")
	}
}
