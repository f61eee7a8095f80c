package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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
	{Name: tokyo2, ServiceCIDRs: "172.16.16.0/20", Controllers: true},
}

// world is all that runs.
type world struct {
	screen   *screen
	bed      *kubetest.Bed
	clusters map[string]*kubetest.Cluster
	consumer *kubetest.Cluster // tokyo2
	client   *kubernetes.Clientset
	dynamic  dynamic.Interface
	programs struct{ syncd, dns string } // files
	syncds   map[string]*program         // by cluster
	dns      resolver                    // mcs-core-dns
	upstream *upstream
	marks    int        // questions asked to find them in an audit log
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
	w := &world{
		screen: s, bed: bed, clusters: map[string]*kubetest.Cluster{}, syncds: map[string]*program{},
		failed: make(chan error, 8), ending: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	s.step("building mcs-core-dns and syncd (first time: a few minutes)")
	if w.programs.syncd, err = bed.Build(ctx, "./cmd/syncd"); err != nil {
		return nil, err
	}
	if w.programs.dns, err = bed.Build(ctx, "./cmd/mcs-core-dns"); err != nil {
		return nil, err
	}
	s.step("starting three clusters: etcd, kube-apiserver and kube-controller-manager for each")
	clusters, err := bed.StartClusters(ctx, clusterConfigs...)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		w.clusters[c.Name()] = c
	}
	w.consumer = w.clusters[tokyo2]
	config := w.consumer.Config()
	config.WarningHandlerWithContext = rest.NoWarnings{} // that Endpoints are deprecated
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	s.step("installing the CRDs of the MCS API, GKE's kind of ServiceExport and the roles of deploy/rbac; each cluster gets the kubeconfigs of its peers as Secrets")
	if err := w.furnish(ctx); err != nil {
		return nil, err
	}
	s.step("starting syncd for each cluster, and mcs-core-dns for %s with the Corefile that GKE ships", tokyo2)
	for _, c := range clusters {
		if err := w.startSyncd(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := w.startDNS(ctx); err != nil {
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
	gke, err := deploy.CRDs.ReadFile("crds/gke-compat/net.gke.io_serviceexports.yaml")
	if err != nil {
		return err
	}
	// First, so that it is no longer new either when the others are not.
	if err := c.Apply(ctx, gke); err != nil {
		return err
	}
	if err := c.InstallCRDs(ctx); err != nil {
		return err
	}
	documents := [][]byte{[]byte(testNamespace)}
	for _, name := range nodes[c.Name()] {
		documents = append(documents, []byte(node(name)))
	}
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
		access, err := peer.UserKubeconfig(peerUser)
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

var errTimeout = errors.New("not after")

// await calls f until it gives nil, for at most timeout.
func (w *world) await(ctx context.Context, what string, pause time.Duration, f func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w %v: %w", what, errTimeout, timeout, err)
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
