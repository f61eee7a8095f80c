package corefile

import (
	"strings"
	"testing"
)

func TestAdapt(t *testing.T) {
	everywhere := Local{
		DNS: "127.0.0.1:1053", Kubeconfig: "/k", Context: "c", Forward: "192.0.2.53",
		Health: "127.0.0.1:1", Ready: "127.0.0.1:2", Metrics: "127.0.0.1:3",
	}
	got, err := everywhere.Adapt(GKE)
	if err != nil {
		t.Fatal(err)
	}
	const want = `.:1053 {
    bind 127.0.0.1
    errors
    health 127.0.0.1:1 {
        lameduck 5s
    }
    ready 127.0.0.1:2
    k8s_mcs clusterset.local in-addr.arpa ip6.arpa {
        kubeconfig /k c
        fallthrough clusterset.local
        disablelegacysync
    }
    prometheus 127.0.0.1:3
    forward . 192.0.2.53 {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`
	if got != want {
		t.Errorf("adapted to\n%s", got)
	}
}

func TestAdaptGivesABlockToAPluginWithoutOne(t *testing.T) {
	got, err := Local{Kubeconfig: "/k"}.Adapt(MCSCoreDNS)
	if err != nil {
		t.Fatal(err)
	}
	if want := "    k8s_mcs clusterset.local {\n        kubeconfig /k\n    }\n"; !strings.Contains(got, want) {
		t.Errorf("adapted to\n%s\nwant in it\n%s", got, want)
	}
}

func TestAdaptLeavesTheTextAsItIsWhenNothingIsAsked(t *testing.T) {
	for _, text := range []string{GKE, MCSCoreDNS} {
		if got, err := (Local{}).Adapt(text); err != nil || got != text {
			t.Errorf("adapted to %v\n%s", err, got)
		}
	}
}

func TestAdaptRefusesWhatItCannotDo(t *testing.T) {
	for name, c := range map[string]struct {
		local Local
		text  string
		want  string
	}{
		"no forward to replace":     {Local{Forward: "192.0.2.53"}, MCSCoreDNS, "forward"},
		"an address without a port": {Local{DNS: "127.0.0.1"}, GKE, "want ADDRESS:PORT"},
		"another port":              {Local{DNS: "127.0.0.1:1053"}, ".:1053 {\n}\n", ":53 {"},
		"two plugins":               {Local{Kubeconfig: "/k"}, GKE + GKE, "k8s_mcs"},
		"none":                      {Local{Kubeconfig: "/k"}, ".:53 {\n}\n", "k8s_mcs"},
	} {
		if got, err := c.local.Adapt(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q; text\n%s", name, err, c.want, got)
		}
	}
}
