package caserun

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

const (
	homeNamespace = "k8s-mcs"

	dnsUser   = "system:serviceaccount:kube-system:mcs-core-dns"
	syncdUser = "system:serviceaccount:k8s-mcs:syncd"
	peerUser  = "system:serviceaccount:k8s-mcs:peer"
	group     = "system:serviceaccounts"
)

// member is a control plane with our CRDs and roles and nothing else.
type member struct {
	*kubetest.Cluster
	objects     dynamic.Interface
	kube        kubernetes.Interface
	controllers bool // kube-controller-manager runs
}

// pool lends control planes to cases, so many at a time, and cleans them in
// between: that takes a tenth of a second, where a new one takes several of
// both processors.
type pool struct {
	bed   *kubetest.Bed
	limit int

	mu      sync.Mutex
	changed *sync.Cond
	out     int // lent
	made    int
	idle    []*member
}

func newPool(bed *kubetest.Bed, limit int) *pool {
	p := &pool{bed: bed, limit: limit}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// take waits for n control planes, controllers of them with
// kube-controller-manager, which come first and are always new.
func (p *pool) take(ctx context.Context, n, controllers int) ([]*member, error) {
	if n > p.limit {
		return nil, fmt.Errorf("take %d control planes: there is memory for %d", n, p.limit)
	}
	p.mu.Lock()
	for p.limit-p.out < n {
		p.changed.Wait()
	}
	p.out += n
	var members, surplus []*member
	reused := min(n-controllers, len(p.idle))
	members = append(members, p.idle[:reused]...)
	p.idle = p.idle[reused:]
	// Idle ones count as well: what is too many ends.
	for len(p.idle) > 0 && p.out+len(p.idle) > p.limit {
		surplus, p.idle = append(surplus, p.idle[0]), p.idle[1:]
	}
	var configs []kubetest.ClusterConfig
	for i := range n - reused {
		p.made++
		// Ranges repeat after 100: no two clusters of a case are that far apart.
		configs = append(configs, kubetest.ClusterConfig{
			Name:         fmt.Sprintf("cluster-%d", p.made),
			ServiceCIDRs: fmt.Sprintf("10.%d.0.0/16,fd00:10:%d::/112", 100+p.made%100, 100+p.made%100),
			Controllers:  i < controllers,
		})
	}
	p.mu.Unlock()

	var errs []error
	for _, m := range surplus {
		errs = append(errs, m.Kill())
	}
	fresh, err := p.start(ctx, configs)
	if err = errors.Join(append(errs, err)...); err != nil {
		p.giveBack(n)
		return nil, err
	}
	return append(fresh, members...), nil
}

// start starts control planes and makes members of them.
func (p *pool) start(ctx context.Context, configs []kubetest.ClusterConfig) ([]*member, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	clusters, err := p.bed.StartClusters(ctx, configs...)
	if err != nil {
		return nil, err
	}
	members := make([]*member, len(clusters))
	errs := make([]error, len(clusters))
	var all sync.WaitGroup
	for i, c := range clusters {
		all.Go(func() { members[i], errs[i] = join(ctx, c, configs[i].Controllers) })
	}
	all.Wait()
	return members, errors.Join(errs...)
}

func join(ctx context.Context, c *kubetest.Cluster, controllers bool) (*member, error) {
	config := c.Config()
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	m := &member{Cluster: c, objects: objects, kube: kube, controllers: controllers}
	if err := m.InstallCRDs(ctx); err != nil {
		return nil, err
	}
	err = m.applyRoles(ctx)
	return m, err
}

func (m *member) applyRoles(ctx context.Context) error {
	for _, name := range []string{"namespace.yaml", "syncd.yaml", "peer.yaml", "mcs-core-dns.yaml"} {
		manifest, err := deploy.RBAC.ReadFile("rbac/" + name)
		if err != nil {
			return fmt.Errorf("read roles: %w", err)
		}
		if err := m.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	return nil
}

// put takes control planes back. One that cannot be cleaned ends.
func (p *pool) put(ctx context.Context, members []*member, changed map[*member]bool) error {
	errs := make([]error, len(members))
	clean := make([]bool, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() {
			if !m.controllers {
				if errs[i] = m.clean(ctx, changed[m]); errs[i] == nil {
					clean[i] = true
					return
				}
			}
			errs[i] = errors.Join(errs[i], m.Kill())
		})
	}
	all.Wait()
	p.mu.Lock()
	for i, m := range members {
		if clean[i] {
			p.idle = append(p.idle, m)
		}
	}
	p.mu.Unlock()
	p.giveBack(len(members))
	return errors.Join(errs...)
}

func (p *pool) giveBack(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out -= n
	p.changed.Broadcast()
}
