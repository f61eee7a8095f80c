package main

import (
	"context"
	"time"

	"github.com/miekg/dns"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renewNamespace deletes the namespace in the importing cluster and makes it
// again. The exporters do not notice.
func (s *story) renewNamespace(ctx context.Context) error {
	begin := time.Now()
	if err := remove(ctx, s.consumer, namespaces, "", "test"); err != nil {
		return err
	}
	f, err := s.until(ctx, "namespace test in "+tokyo2, []string{"gone"}, func(ctx context.Context) ([]string, error) {
		live, err := s.client.CoreV1().Namespaces().Get(ctx, "test", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return []string{"gone"}, nil
		}
		if err != nil {
			return nil, err
		}
		return []string{string(live.Status.Phase)}, nil
	})
	if err != nil {
		return err
	}
	s.screen.took("namespace test of "+tokyo2+" is deleted, and has gone", time.Since(begin), "with all that was in it")
	if err := s.check(f); err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "what is not imported has no name", "NXDOMAIN"); err != nil {
		return err
	}

	begin = time.Now()
	if err := apply(ctx, s.consumer, testNamespace); err != nil {
		return err
	}
	if s.ip, err = s.assigned(ctx, "whereami"); err != nil {
		return err
	}
	what := "namespace test of " + tokyo2 + " is made again"
	if err := s.reach(ctx, what, "whereami", s.whereamiIs(exporters, endpointsOf(backends, exporters...)...)); err != nil {
		return err
	}
	if err := s.views(ctx, viewImports, viewEndpoints); err != nil {
		return err
	}
	if err := s.dig(ctx, whereamiA, "a new Service has a new IP", "NOERROR", s.ip); err != nil {
		return err
	}
	own := question{"udp", dns.TypeA, "whereami-1." + osaka1 + "." + headlessName}
	if err := s.dig(ctx, own, "the headless Service is back as well", "NOERROR", ordinals[osaka1][1].ip); err != nil {
		return err
	}
	s.screen.took("all is back", time.Since(begin), "after the namespace was made, and without a word to "+tokyo1+" or "+osaka1)
	return nil
}
