package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// program is one of ours that runs.
type program struct {
	*kubetest.Process
	meant atomic.Bool // its end is
}

// count is how often a text is in the log so far.
func (p *program) count(text string) int { return strings.Count(p.Log(), text) }

func (w *world) startSyncd(ctx context.Context, c *kubetest.Cluster) error {
	access, err := w.userFile(c, "k8s-mcs", "syncd")
	if err != nil {
		return err
	}
	p, err := w.start(ctx, "syncd of "+c.Name(), w.programs.syncd,
		"--cluster-id="+c.Name(),
		"--kubeconfig="+access,
		"--namespace=k8s-mcs",
		"--derived-prefix=gke-mcs-",
		"--gke-compat",
		"--listen=127.0.0.1:0",
		"--log-format=text",
	)
	w.syncds[c.Name()] = p
	return err
}

// restartSyncd stops the syncd of a cluster and starts another one.
func (w *world) restartSyncd(ctx context.Context, cluster string) error {
	p := w.syncds[cluster]
	p.meant.Store(true)
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return w.startSyncd(ctx, w.clusters[cluster])
}

// logged waits for a text in the log of a program, and returns its line.
func (w *world) logged(ctx context.Context, p *program, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.WaitLog(ctx, text)
}

// startDNS starts mcs-core-dns with GKE's Corefile. What differs is what has to:
// addresses and ports, for this is no Pod of its own, and the kubeconfig.
func (w *world) startDNS(ctx context.Context) error {
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
	w.dns = resolver{ports[0]}
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
	_, err = w.start(ctx, "mcs-core-dns", w.programs.dns, "-conf", file)
	return err
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
func (w *world) start(ctx context.Context, name, file string, args ...string) (*program, error) {
	process, err := w.bed.Run(ctx, name, append([]string{file}, args...))
	if err != nil {
		return nil, err
	}
	p := &program{Process: process}
	go func() {
		p.Wait()
		select {
		case <-w.ending:
		default:
			if !p.meant.Load() {
				w.failed <- fmt.Errorf("%s ended by itself with code %d:\n%s", name, p.ExitCode(), p.Log())
			}
		}
	}()
	return p, nil
}
