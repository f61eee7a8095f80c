// Package server runs the servers that are compared, each alone on one
// processor, and reads off what they use.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// Who answers the names of the clusterset.
type Who string

// The two that are compared are one binary: mcs-core-dns.
const (
	Ours  Who = "ours"  // plugin k8s_mcs
	Stock Who = "stock" // plugin kubernetes with its option multicluster
)

// Chain is the plugins around the one that answers.
type Chain string

// The chains.
const (
	Alone Chain = "plugin" // nothing that a query meets
	GKE   Chain = "gke"    // errors, prometheus and loadbalance for both
	Own   Chain = "own"    // ours: corefile/mcs-core-dns.Corefile; stock: errors, prometheus, loadbalance and cache 30
)

// Rig starts servers for one cluster.
type Rig struct {
	bed                    *kubetest.Bed
	processor              string
	binary, floor, allocs  string
	kubeconfig             string // file
	apiServer              string // URL
	caFile, certFile, keys string // files
	started                int
}

// NewRig builds the binaries; mcs-core-dns only if none is given. The processor
// is the one that servers run on.
func NewRig(ctx context.Context, bed *kubetest.Bed, cluster *kubetest.Cluster, binary, processor string) (*Rig, error) {
	r := &Rig{bed: bed, processor: processor, binary: binary, kubeconfig: cluster.Kubeconfig()}
	var err error
	if binary == "" {
		if r.binary, err = bed.Build(ctx, "./cmd/mcs-core-dns"); err != nil {
			return nil, err
		}
	}
	if r.floor, err = bed.Build(ctx, "./test/bench/cmd/floor"); err != nil {
		return nil, err
	}
	if r.allocs, err = bed.Build(ctx, "./test/bench/cmd/allocs"); err != nil {
		return nil, err
	}
	if err := r.writeCredentials(cluster); err != nil {
		return nil, err
	}
	return r, nil
}

// writeCredentials makes the files for stock. With a kubeconfig it would read
// everything as JSON; with the option endpoint it reads protobuf, as in a Pod.
func (r *Rig) writeCredentials(cluster *kubetest.Cluster) error {
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	context := config.Contexts[config.CurrentContext]
	api, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	r.apiServer = api.Server
	for name, content := range map[*string][]byte{
		&r.caFile:   api.CertificateAuthorityData,
		&r.certFile: user.ClientCertificateData,
		&r.keys:     user.ClientKeyData,
	} {
		file, err := os.CreateTemp(r.bed.Dir(), "pem-*")
		if err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
		_, err = file.Write(content)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
		*name = file.Name()
	}
	return nil
}

// Server is a running one.
type Server struct {
	*kubetest.Process
	Name  string
	Addr  string // DNS, UDP and TCP
	Begin time.Time
	file  string // Corefile
	ready string // URL; empty for the floor
	pprof string // URL
}

// Start starts a server. The lines are more options of k8s_mcs.
func (r *Rig) Start(ctx context.Context, who Who, chain Chain, lines ...string) (*Server, error) {
	s, err := r.place(string(who) + "-" + string(chain))
	if err != nil {
		return nil, err
	}
	text, err := r.corefile(s, who, chain, lines)
	if err != nil {
		return nil, err
	}
	return s, r.runCorefile(ctx, s, r.binary, text)
}

// StartCounting starts a server that prints how many allocations a query
// costs, see cmd/allocs.
func (r *Rig) StartCounting(ctx context.Context, who Who) (*Server, error) {
	s, err := r.place(string(who) + "-allocs")
	if err != nil {
		return nil, err
	}
	text, err := r.corefile(s, who, Alone, nil)
	if err != nil {
		return nil, err
	}
	return s, r.runCorefile(ctx, s, r.allocs, strings.Replace(text, "{\n", "{\nbench_allocs\n", 1))
}

func (r *Rig) runCorefile(ctx context.Context, s *Server, binary, text string) error {
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write Corefile: %w", err)
	}
	return r.run(ctx, s, binary, "-conf", s.file)
}

// StartFloor starts the bare server.
func (r *Rig) StartFloor(ctx context.Context) (*Server, error) {
	s, err := r.place("floor")
	if err != nil {
		return nil, err
	}
	s.ready = ""
	return s, r.run(ctx, s, r.floor, s.Addr)
}

func (r *Rig) place(name string) (*Server, error) {
	r.started++
	s := &Server{Name: fmt.Sprintf("%s-%d", name, r.started)}
	s.file = filepath.Join(r.bed.Dir(), "Corefile."+s.Name)
	for _, to := range []*string{&s.Addr, &s.ready, &s.pprof} {
		port, err := r.bed.Port()
		if err != nil {
			return nil, err
		}
		*to = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return s, nil
}

func (r *Rig) run(ctx context.Context, s *Server, argv ...string) (err error) {
	s.Begin = time.Now()
	s.Process, err = r.bed.Run(ctx, s.Name, append([]string{"taskset", "-c", r.processor}, argv...))
	return err
}

func (r *Rig) corefile(s *Server, who Who, chain Chain, lines []string) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "", err
	}
	metrics, err := r.bed.Port()
	if err != nil {
		return "", err
	}
	measured := fmt.Sprintf("errors\nprometheus 127.0.0.1:%d\nloadbalance\n", metrics)
	around := map[Chain]string{Alone: "", GKE: measured, Own: measured + "cache 30\n"}[chain]
	answer := fmt.Sprintf("k8s_mcs clusterset.local {\nkubeconfig %s\nstartup_timeout 2m\n%s\n}\n", r.kubeconfig, strings.Join(lines, "\n"))
	if who == Stock {
		answer = fmt.Sprintf("kubernetes clusterset.local {\nmulticluster clusterset.local\nendpoint %s\ntls %s %s %s\nstartup_timeout 2m\n}\n",
			r.apiServer, r.certFile, r.keys, r.caFile)
	} else if chain == Own {
		health, err := r.bed.Port()
		if err != nil {
			return "", err
		}
		return corefile.Local{
			DNS: s.Addr, Kubeconfig: r.kubeconfig, Ready: s.ready,
			Health: fmt.Sprintf("127.0.0.1:%d", health), Metrics: fmt.Sprintf("127.0.0.1:%d", metrics),
		}.Adapt(corefile.MCSCoreDNS)
	}
	return fmt.Sprintf(".:%s {\nbind %s\nready %s\npprof %s\n%s%s}\n", port, host, s.ready, s.pprof, around, answer), nil
}

// pages is a client for the pages of a server; a heap profile takes a moment.
var pages = &http.Client{Timeout: time.Minute}

// Ready asks the ready plugin. A server that does not listen yet is not.
func (s *Server) Ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ready+"/ready", http.NoBody)
	if err != nil {
		return false
	}
	response, err := pages.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Ended reports whether the server has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.Exited():
		return true
	default:
		return false
	}
}
