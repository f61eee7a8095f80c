package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// changePeers takes a peer's Secret away, gives it back, and renews the
// credential in it, while syncd runs. Only that peer is connected to anew.
func (s *story) changePeers(ctx context.Context) error {
	begin := time.Now()
	if err := remove(ctx, s.consumer, secrets, "k8s-mcs", "peer-"+osaka1); err != nil {
		return err
	}
	err := s.reach(ctx, "the Secret of "+osaka1+" is removed from "+tokyo2, "whereami", s.whereamiIs([]string{tokyo1}, endpointsOf(backends, tokyo1)...))
	if err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "the same IP; the endpoints of "+osaka1+" have left", "NOERROR", s.ip); err != nil {
		return err
	}
	helloA := question{"udp", dns.TypeA, helloName}
	if err := s.dig(ctx, helloA, "what "+osaka1+" alone exports is gone", "NXDOMAIN"); err != nil {
		return err
	}
	if err := s.givePeer(ctx, osaka1); err != nil {
		return err
	}
	err = s.reach(ctx, "it is added again, with a new credential", "whereami", s.whereamiIs(exporters, endpointsOf(backends, exporters...)...))
	if err != nil {
		return err
	}
	if err := s.whole(ctx); err != nil {
		return err
	}
	if err := s.renewCredential(ctx); err != nil {
		return err
	}

	reads := func(e kubetest.AuditEvent) bool { return e.Verb == "list" || e.Verb == "watch" }
	tokyo, err := s.audit(ctx, s.clusters[tokyo1])
	if err != nil {
		return err
	}
	osaka, err := s.audit(ctx, s.clusters[osaka1])
	if err != nil {
		return err
	}
	others, own := requests(tokyo, peerUser, begin, reads), requests(osaka, peerUser, begin, reads)
	s.screen.line("  Lists and watches opened meanwhile, by the audit logs: %d in %s, %d in %s", len(own), osaka1, len(others), tokyo1)
	return s.check(
		finding{"lists and watches opened in " + tokyo1 + " while the Secret of " + osaka1 + " changes", nil, others},
		finding{"whether any were opened in " + osaka1, []string{"true"}, []string{strconv.FormatBool(len(own) > 0)}},
	)
}

// renewCredential writes another credential into a Secret in use. It is read
// with, and nothing else comes of it.
func (s *story) renewCredential(ctx context.Context) error {
	begin := time.Now()
	syncd := s.syncds[tokyo2]
	const read = `msg="cluster is read" cluster=` + osaka1
	before := syncd.count(read)
	if err := s.givePeer(ctx, osaka1); err != nil {
		return err
	}
	f, err := s.until(ctx, osaka1+" read anew by syncd of "+tokyo2, []string{strconv.Itoa(before + 1)}, func(context.Context) ([]string, error) {
		return []string{strconv.Itoa(syncd.count(read))}, nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if err := s.check(f); err != nil {
		return err
	}
	events, err := s.audit(ctx, s.consumer)
	if err != nil {
		return err
	}
	wrote := requests(events, syncdUser, begin, kubetest.AuditEvent.Changes)
	s.screen.took("its credential is replaced while in use", took, fmt.Sprintf("and syncd has read %s with the new one; it wrote %d objects", osaka1, len(wrote)))
	return s.check(finding{"what syncd of " + tokyo2 + " writes when a credential is replaced", nil, wrote})
}

// givePeer makes or replaces the Secret of a peer in tokyo2; each time it is a
// new credential.
func (s *story) givePeer(ctx context.Context, name string) error {
	access, err := s.clusters[name].UserKubeconfig(peerUser)
	if err != nil {
		return err
	}
	return s.consumer.Apply(ctx, peerSecret(name, access))
}
