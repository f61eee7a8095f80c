package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/miekg/dns"
)

// clusterDNS is what stands for kube-dns in tokyo2: a stock CoreDNS with the
// domain of the clusterset as a stub domain. It is the program mcs-core-dns,
// which has all of CoreDNS's plugins, without k8s_mcs.
const clusterDNS = `.:%d {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
    }
}
clusterset.local:%[1]d {
    bind 127.0.0.1
    errors
    forward . 127.0.0.1:%[3]d
}
`

// askClusterDNS asks as a Pod does: the cluster's own DNS, which knows nothing
// of multi-cluster services but whom to ask.
func (s *story) askClusterDNS(ctx context.Context) error {
	port, err := s.bed.Port()
	if err != nil {
		return err
	}
	file := filepath.Join(s.bed.Dir(), "Corefile.cluster")
	text := fmt.Sprintf(clusterDNS, port, s.consumer.Kubeconfig(), s.dns.port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	s.screen.step("starting a stock CoreDNS as the DNS of %s, with clusterset.local as a stub domain", tokyo2)
	if _, err := s.start(ctx, "cluster DNS", s.programs.dns, "-conf", file); err != nil {
		return err
	}
	pod := resolver{port}
	reverse, err := dns.ReverseAddr(s.ip)
	if err != nil {
		return err
	}
	derived := derivedName + ".test.svc.cluster.local."
	for _, ask := range []struct {
		question question
		remark   string
		want     []string
	}{
		{whereamiA, "the stub domain leads to mcs-core-dns", []string{s.ip}},
		{question{"udp", dns.TypePTR, reverse}, "the cluster's own answer, for the derived Service is one of its Services", []string{derived}},
		{question{"udp", dns.TypeA, derived}, "which can be used by that name, too", []string{s.ip}},
	} {
		want := slices.Concat([]string{"status NOERROR"}, ask.question.records(ask.want...))
		if err := s.digAt(ctx, pod, ask.question, ask.remark, want); err != nil {
			return err
		}
	}
	local := question{"udp", dns.TypeA, localName}
	return s.digAt(ctx, pod, local, "what other clusters export is not in the cluster's own domain", []string{"status NXDOMAIN"})
}
