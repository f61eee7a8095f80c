package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// ClusterConfig says what a cluster is to be.
type ClusterConfig struct {
	// Name is the cluster's name for messages and kubeconfig contexts, unique
	// in a Bed, and a DNS label or two.
	Name string
	// ServiceCIDRs is one range for ClusterIPs, or two of different families
	// with a comma between. Empty gives each cluster two of its own.
	ServiceCIDRs string
	// Controllers says to run kube-controller-manager as well: namespaces,
	// garbage collection, service accounts and EndpointSlices. Without it
	// nothing in the cluster does anything by itself: namespaces never finish
	// deleting and Pods are refused, for they have no service account.
	Controllers bool
}

// Cluster is one control plane. It may be used by several goroutines.
type Cluster struct {
	bed    *Bed
	name   string
	config ClusterConfig
	port   int
	server string // URL
	pki    *pki

	dataDir        string
	auditLog       string
	kubeconfigFile string // of the admin
	managerFile    string // kubeconfig of kube-controller-manager
	rest           *rest.Config

	verbs     sync.Mutex // held by Start, Stop and Kill, one at a time
	mu        sync.Mutex // guards what follows
	apiserver *Process   // the newest one, nil before the first start
	manager   *supervised
}

// StartClusters makes and starts clusters side by side and returns, in the
// order of cfgs, when all of them are ready.
func (b *Bed) StartClusters(ctx context.Context, cfgs ...ClusterConfig) ([]*Cluster, error) {
	clusters := make([]*Cluster, len(cfgs))
	for i, cfg := range cfgs {
		c, err := b.newCluster(cfg)
		if err != nil {
			return nil, err
		}
		clusters[i] = c
	}
	errs := make([]error, len(clusters))
	var all sync.WaitGroup
	for i, c := range clusters {
		all.Go(func() {
			begin := time.Now()
			if errs[i] = c.Start(ctx); errs[i] == nil {
				_, _ = fmt.Fprintf(b.log, "cluster %s is ready after %.1f s\n", c.name, time.Since(begin).Seconds())
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return clusters, nil
}

// newCluster gives a cluster its place, port and certificates.
func (b *Bed) newCluster(cfg ClusterConfig) (*Cluster, error) {
	if cfg.Name == "" || filepath.Base(cfg.Name) != cfg.Name {
		return nil, fmt.Errorf("make cluster: %q is not a name", cfg.Name)
	}
	port, err := b.Port()
	if err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", cfg.Name, err)
	}
	dir := filepath.Join(b.dir, "clusters", cfg.Name)
	c := &Cluster{
		bed:            b,
		name:           cfg.Name,
		config:         cfg,
		port:           port,
		server:         "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		dataDir:        filepath.Join(dir, "data"),
		auditLog:       filepath.Join(dir, "audit.log"),
		kubeconfigFile: filepath.Join(dir, "admin.kubeconfig"),
		managerFile:    filepath.Join(dir, "kube-controller-manager.kubeconfig"),
	}
	if err := b.enter(c); err != nil {
		return nil, err
	}
	if c.pki, err = newPKI(filepath.Join(dir, "pki"), cfg.Name); err != nil {
		return nil, fmt.Errorf("make cluster %s: %w", cfg.Name, err)
	}
	admin, err := c.writeKubeconfig(c.kubeconfigFile, "admin", "system:masters")
	if err != nil {
		return nil, err
	}
	if c.rest, err = restConfig(admin); err != nil {
		return nil, err
	}
	if cfg.Controllers {
		if _, err := c.writeKubeconfig(c.managerFile, "system:kube-controller-manager"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// enter adds the cluster to the Bed and gives it ranges of its own if it has none.
func (b *Bed) enter(c *Cluster) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("make cluster %s: %w", c.name, errClosed)
	}
	if slices.ContainsFunc(b.clusters, func(other *Cluster) bool { return other.name == c.name }) {
		return fmt.Errorf("make cluster %s: there is one of this name", c.name)
	}
	if c.config.ServiceCIDRs == "" {
		n := 100 + len(b.clusters)
		if n > 255 {
			return fmt.Errorf("make cluster %s: more than 156 in one test bed; give it ServiceCIDRs", c.name)
		}
		// Kubernetes allows no IPv6 range wider than /108.
		c.config.ServiceCIDRs = fmt.Sprintf("10.%d.0.0/16,fd00:10:%d::/112", n, n)
	}
	b.clusters = append(b.clusters, c)
	return nil
}

func (c *Cluster) writeKubeconfig(file, user string, groups ...string) ([]byte, error) {
	content, err := c.UserKubeconfig(user, groups...)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("write kubeconfig of %s: %w", c.name, err)
	}
	return content, nil
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Config is the admin's access, a copy for each caller. It does not limit requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.rest) }

// Kubeconfig is the path of the admin's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfigFile }

// UserKubeconfig makes a kubeconfig for a user with a client certificate of
// the cluster, at the API server's own address. A user may do what RBAC says,
// which is nothing for one nobody has heard of.
func (c *Cluster) UserKubeconfig(user string, groups ...string) ([]byte, error) {
	cert, key, err := c.pki.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("make user %s of %s: %w", user, c.name, err)
	}
	return kubeconfig(c.name, c.server, user, c.pki.caPEM, cert, key)
}

// Start starts the cluster, again after Stop or Kill, and returns when it is
// ready. A cluster that runs is left alone.
func (c *Cluster) Start(ctx context.Context) error {
	c.verbs.Lock()
	defer c.verbs.Unlock()
	c.mu.Lock()
	runs := c.apiserver != nil && c.apiserver.running()
	c.mu.Unlock()
	if !runs {
		if err := c.startServer(ctx); err != nil {
			return err
		}
	}
	return c.startManager(ctx)
}

func (c *Cluster) startServer(ctx context.Context) error {
	p, err := c.bed.Run(ctx, c.name+"/kube-apiserver", []string{
		c.bed.kube, "kube-apiserver",
		"-data-dir=" + c.dataDir,
		"-pki-dir=" + c.pki.dir,
		"-port=" + strconv.Itoa(c.port),
		"-service-cidrs=" + c.config.ServiceCIDRs,
		"-audit-log=" + c.auditLog,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiserver = p
	c.mu.Unlock()
	if _, err := p.WaitLog(ctx, `{"ready":"kube-apiserver"`); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

// Stop ends the cluster as a machine's shutdown does: SIGTERM, then it waits.
func (c *Cluster) Stop(ctx context.Context) error {
	c.verbs.Lock()
	defer c.verbs.Unlock()
	c.superviseEnd()
	var errs []error
	for _, p := range c.processes() {
		if err := p.signal(syscall.SIGTERM); err != nil {
			errs = append(errs, err)
			continue
		}
		// A stopped process gets its signals when it goes on.
		errs = append(errs, p.signal(syscall.SIGCONT))
	}
	for _, p := range c.processes() {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Kill ends the cluster as a power cut does, except that nothing is lost that
// was written: SIGKILL.
func (c *Cluster) Kill() error {
	c.verbs.Lock()
	defer c.verbs.Unlock()
	c.superviseEnd()
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// Hang stops the cluster in the middle of what it does: SIGSTOP. Connections
// stay open, and nothing is answered from its return on.
func (c *Cluster) Hang() error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, p := range c.processes() {
		if err := p.standsStill(); err != nil {
			return err
		}
	}
	return nil
}

// Resume ends Hang.
func (c *Cluster) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) error {
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.signal(s))
	}
	return errors.Join(errs...)
}

// Pids are the cluster's processes that run, the API server first.
func (c *Cluster) Pids() []int {
	var pids []int
	for _, p := range c.processes() {
		if p.running() {
			pids = append(pids, p.Pid())
		}
	}
	return pids
}

// processes are the newest ones, the API server first.
func (c *Cluster) processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*Process
	if c.apiserver != nil {
		list = append(list, c.apiserver)
	}
	if c.manager != nil {
		if p := c.manager.current(); p != nil {
			list = append(list, p)
		}
	}
	return list
}
