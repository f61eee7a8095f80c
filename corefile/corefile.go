// Package corefile holds the Corefiles of mcs-core-dns as real files: deploy,
// docs, demo and tests read the same text.
package corefile

import (
	_ "embed" // the Corefiles
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// GKE is the Corefile that Google's mcs-core-dns was published with. It loads
// as it is, inside a cluster.
//
//go:embed gke.Corefile
var GKE string

// MCSCoreDNS is the Corefile of our own deployment.
//
//go:embed mcs-core-dns.Corefile
var MCSCoreDNS string

// Local says how a Corefile is to be changed so that its server runs outside a
// cluster. Empty fields leave the text as it is.
type Local struct {
	// DNS is where questions are answered, ADDRESS:PORT.
	DNS string
	// Kubeconfig and Context (optional) are given to k8s_mcs.
	Kubeconfig, Context string
	// Forward replaces the upstream of GKE's forward line, ADDRESS or ADDRESS:PORT.
	Forward string
	// Health, Ready and Metrics are HTTP listeners, ADDRESS:PORT; the defaults
	// are :8080, :8181 and :9153.
	Health, Ready, Metrics string
}

// gkeUpstream is where the published Corefile forwards to: the metadata server.
const gkeUpstream = "169.254.169.254"

// Adapt changes text, one of the Corefiles above, by replacing whole words. It
// fails when a line that is to be changed is not there once.
func (l Local) Adapt(text string) (string, error) {
	edits := []struct{ when, old, new string }{
		{l.Health, "\n    health {", "\n    health " + l.Health + " {"},
		{l.Ready, "\n    ready\n", "\n    ready " + l.Ready + "\n"},
		{l.Metrics, "\n    prometheus :9153\n", "\n    prometheus " + l.Metrics + "\n"},
		{l.Forward, "forward . " + gkeUpstream, "forward . " + l.Forward},
	}
	if l.DNS != "" {
		addr, err := netip.ParseAddrPort(l.DNS)
		if err != nil {
			return "", fmt.Errorf("adapt Corefile: %w: want ADDRESS:PORT", err)
		}
		bind := fmt.Sprintf(":%d {\n    bind %s\n", addr.Port(), addr.Addr())
		edits = append(edits, struct{ when, old, new string }{l.DNS, ":53 {\n", bind})
	}
	for _, e := range edits {
		if e.when == "" {
			continue
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("adapt Corefile: %q is there %d times: want it once", strings.TrimSpace(e.old), n)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	if l.Kubeconfig == "" {
		return text, nil
	}
	return addKubeconfig(text, strings.TrimRight(l.Kubeconfig+" "+l.Context, " "))
}

// addKubeconfig gives the option to the one k8s_mcs of text, which may have a
// block already.
func addKubeconfig(text, args string) (string, error) {
	before, after, ok := strings.Cut(text, "\n    k8s_mcs ")
	if !ok || strings.Contains(after, "\n    k8s_mcs ") {
		return "", errors.New("adapt Corefile: want k8s_mcs in it once")
	}
	zones, after, _ := strings.Cut(after, "\n")
	option := "\n        kubeconfig " + args
	if rest, ok := strings.CutSuffix(zones, " {"); ok {
		return before + "\n    k8s_mcs " + rest + " {" + option + "\n" + after, nil
	}
	return before + "\n    k8s_mcs " + zones + " {" + option + "\n    }\n" + after, nil
}
