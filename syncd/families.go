package syncd

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/syncd/model"
)

const (
	// familiesEvery is how often the cluster's families are read again: a cluster
	// turns dual-stack once in its life.
	familiesEvery = 10 * time.Minute
	familiesRetry = 2 * time.Second
)

// followFamilies keeps s.families what the cluster gives Services.
func (s *syncer) followFamilies(ctx context.Context) {
	const name = "servicecidrs.networking.k8s.io"
	for {
		wait := familiesEvery
		families, err := readFamilies(ctx, s.clients.Kube)
		if ctx.Err() != nil {
			return
		}
		s.own.Report(name, err)
		if err != nil {
			wait = familiesRetry
		} else if before := s.families.Load(); before == nil || !slices.Equal(*before, families) {
			s.families.Store(&families)
			s.enqueueAll()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// readFamilies reads the ServiceCIDRs, the default one first, whose first range
// is the primary. A cluster older than these has a "kubernetes" Service, whose
// families are told instead; that is the primary alone.
func readFamilies(ctx context.Context, kube kubernetes.Interface) ([]model.Family, error) {
	cidrs, err := kube.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return familiesOfKubernetes(ctx, kube)
	}
	if err != nil {
		return nil, fmt.Errorf("list servicecidrs: %w", err)
	}
	const byDefault = "kubernetes"
	var ranges []string
	for _, c := range cidrs.Items {
		if c.Name == byDefault {
			ranges = slices.Insert(ranges, 0, c.Spec.CIDRs...)
		} else {
			ranges = append(ranges, c.Spec.CIDRs...)
		}
	}
	var families []model.Family
	for _, r := range ranges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			continue // the API server has checked it; another range may be right
		}
		family := model.IPv4
		if prefix.Addr().Is6() {
			family = model.IPv6
		}
		if !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	if len(families) == 0 {
		return nil, fmt.Errorf("list servicecidrs: no range in %d objects", len(cidrs.Items))
	}
	return families, nil
}

func familiesOfKubernetes(ctx context.Context, kube kubernetes.Interface) ([]model.Family, error) {
	service, err := kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Service default/kubernetes: %w", err)
	}
	var families []model.Family
	for _, f := range service.Spec.IPFamilies {
		families = append(families, model.Family(f))
	}
	return families, nil
}
