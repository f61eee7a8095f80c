package config

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/syncd/policy"
)

func none(string) string { return "" }

func TestDefaults(t *testing.T) {
	c, err := Parse([]string{"--cluster-id", "east"}, none, &bytes.Buffer{})
	want := Config{
		ClusterID: "east", Namespace: "k8s-mcs", Namespaces: policy.Namespaces{Denied: []string{"default", "kube-*"}}, DerivedPrefix: "mcs-", Listen: ":8080", LogLevel: slog.LevelInfo, LogFormat: "json",
		ProbeInterval: 5 * time.Second, StaleAfter: 5 * time.Minute, RecoverHold: 30 * time.Second, OnLost: policy.Fallback,
		BrakeWindow: 30 * time.Second, BrakeRelease: 10 * time.Minute, Bounds: policy.Bounds{Exports: 5000, Slices: 20000, Endpoints: 200000}, LeaderElect: true, LeaseDuration: 15 * time.Second,
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("Parse = %+v, %v", c, err)
	}
}

func TestNamespaceOfThePodIsTheDefault(t *testing.T) {
	pod := func(name string) string { return map[string]string{"POD_NAMESPACE": "mine"}[name] }
	if c, err := Parse([]string{"--cluster-id", "east"}, pod, &bytes.Buffer{}); err != nil || c.Namespace != "mine" {
		t.Errorf("Parse = %+v, %v", c, err)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string // parts of the error
	}{
		"a bad cluster id":            {[]string{"--cluster-id", "East"}, []string{"--cluster-id", `"East"`, "lower-case"}},
		"a cluster id of 64":          {[]string{"--cluster-id", strings.Repeat("a", 64)}, []string{"--cluster-id", "at most 63"}},
		"an empty prefix":             {[]string{"--cluster-id", "a", "--derived-prefix", ""}, []string{"--derived-prefix", "empty"}},
		"a prefix with a dot":         {[]string{"--cluster-id", "a", "--derived-prefix", "mcs."}, []string{"--derived-prefix", "letters, digits and '-'"}},
		"a prefix that is too long":   {[]string{"--cluster-id", "a", "--derived-prefix", strings.Repeat("a", 54)}, []string{"--derived-prefix", "at most 53"}},
		"a prefix with a digit first": {[]string{"--cluster-id", "a", "--derived-prefix", "1-"}, []string{"--derived-prefix", "beginning with a letter"}},
		"an address without a port":   {[]string{"--cluster-id", "a", "--listen", "localhost"}, []string{"--listen", "want host:port"}},
		"an unknown level":            {[]string{"--cluster-id", "a", "--log-level", "loud"}, []string{"--log-level", "debug, info, warn or error"}},
		"an unknown format":           {[]string{"--cluster-id", "a", "--log-format", "xml"}, []string{"--log-format", "json or text"}},
		"an argument":                 {[]string{"--cluster-id", "a", "extra"}, []string{`"extra"`, "flags only"}},
		"an unknown flag":             {[]string{"--clusterid", "a"}, []string{"clusterid"}},
		"a pattern in the middle":     {[]string{"--denied-namespaces", "a,*-system"}, []string{"--denied-namespaces", `"*-system"`, "kube-*"}},
		"a pattern that is allowed":   {[]string{"--allow-namespaces", "kube-*"}, []string{"--allow-namespaces", "names of namespaces"}},
		"an unknown policy":           {[]string{"--on-lost", "drop"}, []string{"--on-lost", "keep, fallback or withdraw"}},
		"a share above all":           {[]string{"--prefer", "local:101%"}, []string{"--prefer", "local:N%"}},
		"less than nothing":           {[]string{"--max-slices", "-1"}, []string{"--max-slices", "0 or more"}},
		"a probe at each moment":      {[]string{"--probe-interval", "1ms"}, []string{"--probe-interval", "at least 100ms"}},
		"stale before a probe fails":  {[]string{"--stale-after", "1s"}, []string{"--stale-after", "at least 5s"}},
		"all problems come together":  {[]string{"--cluster-id", "East", "--namespace", "", "--log-format", "xml"}, []string{"--cluster-id", "--namespace", "--log-format"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.args, none, &bytes.Buffer{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var usage bytes.Buffer
	if _, err := Parse([]string{"-h"}, none, &usage); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error is %v", err)
	}
	for _, name := range []string{"-cluster-id id", "-kubeconfig file", "-namespace namespace", "-derived-prefix prefix", "-listen address", "-gke-compat", "-probe-interval time", "-on-lost policy", "-prefer when", "-leader-elect", "-log-level level", "-log-format format", "-version"} {
		if !strings.Contains(usage.String(), "  "+name) {
			t.Errorf("usage lacks %q:\n%s", name, usage.String())
		}
	}
}
