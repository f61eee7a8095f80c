package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/deploy"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// The names and ranges of the public walkthrough that the demo follows.
const (
	tokyo1 = "tyo-cluster-01"
	osaka1 = "osa-cluster-01"
	tokyo2 = "tyo-cluster-02" // imports only
)

var clusterConfigs = []kubetest.ClusterConfig{
	{Name: tokyo1, ServiceCIDRs: "172.16.0.0/20", Controllers: true},
	{Name: osaka1, ServiceCIDRs: "172.16.32.0/20", Controllers: true},
	{Name: tokyo2, ServiceCIDRs: "172.16.16.0/20"},
}

// world is all that runs.
type world struct {
	screen   *screen
	bed      *kubetest.Bed
	clusters map[string]*kubetest.Cluster
	consumer *kubetest.Cluster // tokyo2
	client   *kubernetes.Clientset
	dynamic  dynamic.Interface
	upstream *upstream
	dnsPort  int
	failed   chan error // a program of ours that ended by itself
	ending   chan struct{}
}

// newWorld builds and starts everything. On an error nothing is left.
func newWorld(ctx context.Context, s *screen) (_ *world, err error) {
	s.step("looking for the control plane's binary")
	bed, err := kubetest.NewBed(ctx, s)
	if err != nil {
		return nil, err
	}
	w := &world{screen: s, bed: bed, clusters: map[string]*kubetest.Cluster{}, failed: make(chan error, 8), ending: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	s.step("building mcs-core-dns and syncd (first time: a few minutes)")
	programs, err := w.build(ctx, "./cmd/syncd", "./cmd/mcs-core-dns")
	if err != nil {
		return nil, err
	}
	s.step("starting three clusters: kube-apiserver and etcd for each, kube-controller-manager for the two that export")
	clusters, err := bed.StartClusters(ctx, clusterConfigs...)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		w.clusters[c.Name()] = c
	}
	w.consumer = w.clusters[tokyo2]
	if w.client, err = kubernetes.NewForConfig(w.consumer.Config()); err != nil {
		return nil, err
	}
	if w.dynamic, err = dynamic.NewForConfig(w.consumer.Config()); err != nil {
		return nil, err
	}
	s.step("installing the CRDs of the MCS API and the roles of deploy/rbac; each cluster gets the kubeconfigs of its peers as Secrets")
	if err := w.furnish(ctx); err != nil {
		return nil, err
	}
	s.step("starting syncd for each cluster, and mcs-core-dns for %s with the Corefile that GKE ships", tokyo2)
	for _, c := range clusters {
		if err := w.startSyncd(ctx, programs[0], c); err != nil {
			return nil, err
		}
	}
	if err := w.startDNS(ctx, programs[1]); err != nil {
		return nil, err
	}
	return w, nil
}

// close ends everything. The folder goes last.
func (w *world) close() error {
	close(w.ending)
	if w.upstream != nil {
		w.upstream.close()
	}
	return w.bed.Close()
}

func (w *world) build(ctx context.Context, packages ...string) ([]string, error) {
	paths := make([]string, len(packages))
	for i, pkg := range packages {
		path, err := w.bed.Build(ctx, pkg)
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	return paths, nil
}

// furnish gives each cluster what an operator would: CRDs, roles, and the
// Secrets of its peers.
func (w *world) furnish(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make(chan error, len(w.clusters))
	for _, c := range w.clusters {
		all.Go(func() { errs <- w.furnishOne(ctx, c) })
	}
	all.Wait()
	close(errs)
	var joined error
	for err := range errs {
		joined = errors.Join(joined, err)
	}
	return joined
}

func (w *world) furnishOne(ctx context.Context, c *kubetest.Cluster) error {
	if err := c.InstallCRDs(ctx); err != nil {
		return err
	}
	documents := [][]byte{[]byte(testNamespace)}
	for _, name := range []string{"namespace", "syncd", "peer", "mcs-core-dns"} {
		document, err := deploy.RBAC.ReadFile("rbac/" + name + ".yaml")
		if err != nil {
			return err
		}
		documents = append(documents, document)
	}
	for _, peer := range w.clusters {
		if peer == c {
			continue
		}
		access, err := peer.UserKubeconfig(serviceAccount("k8s-mcs", "peer"))
		if err != nil {
			return err
		}
		documents = append(documents, peerSecret(peer.Name(), access))
	}
	return c.Apply(ctx, documents...)
}

// serviceAccount is the user name of a ServiceAccount. A client certificate of
// that user has its rights, and needs no token.
func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

func (w *world) startSyncd(ctx context.Context, program string, c *kubetest.Cluster) error {
	access, err := w.userFile(c, "k8s-mcs", "syncd")
	if err != nil {
		return err
	}
	return w.start(ctx, "syncd of "+c.Name(), program,
		"--cluster-id="+c.Name(),
		"--kubeconfig="+access,
		"--namespace=k8s-mcs",
		"--derived-prefix=gke-mcs-",
		"--listen=127.0.0.1:0",
		"--log-format=text",
	)
}

// startDNS starts mcs-core-dns with GKE's Corefile. What differs is what has to:
// addresses and ports, for this is no Pod of its own, and the kubeconfig.
func (w *world) startDNS(ctx context.Context, program string) error {
	var err error
	if w.upstream, err = startUpstream(w.bed); err != nil {
		return err
	}
	ports := make([]int, 4)
	for i := range ports {
		if ports[i], err = w.bed.Port(); err != nil {
			return err
		}
	}
	w.dnsPort = ports[0]
	access, err := w.userFile(w.consumer, "kube-system", "mcs-core-dns")
	if err != nil {
		return err
	}
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	text, err := corefile.Local{
		DNS:        local(ports[0]),
		Health:     local(ports[1]),
		Ready:      local(ports[2]),
		Metrics:    local(ports[3]),
		Forward:    w.upstream.address,
		Kubeconfig: access,
	}.Adapt(corefile.GKE)
	if err != nil {
		return err
	}
	file := filepath.Join(w.bed.Dir(), "Corefile")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return w.start(ctx, "mcs-core-dns", program, "-conf", file)
}

func (w *world) userFile(c *kubetest.Cluster, namespace, name string) (string, error) {
	access, err := c.UserKubeconfig(serviceAccount(namespace, name))
	if err != nil {
		return "", err
	}
	file := filepath.Join(w.bed.Dir(), name+"."+c.Name()+".kubeconfig")
	return file, os.WriteFile(file, access, 0o600)
}

// start runs a program of ours, and makes its unwanted end known.
func (w *world) start(ctx context.Context, name, program string, args ...string) error {
	p, err := w.bed.Run(ctx, name, append([]string{program}, args...))
	if err != nil {
		return err
	}
	go func() {
		p.Wait()
		select {
		case <-w.ending:
		default:
			w.failed <- fmt.Errorf("%s ended by itself with code %d:\n%s", name, p.ExitCode(), p.Log())
		}
	}()
	return nil
}

// await calls f until it gives nil, for at most timeout.
func (w *world) await(ctx context.Context, what string, pause time.Duration, f func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not after %v: %w", what, timeout, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-w.failed:
			return err
		case <-time.After(pause):
		}
	}
}
