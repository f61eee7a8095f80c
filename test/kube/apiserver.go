package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// auditPolicy logs one line per request, and for a watch one more when it
// begins.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

const (
	// drainTime bounds the orderly end of the API server on SIGTERM; what is
	// open after it is cut, as an overdue Pod would be.
	drainTime = time.Second
	// closeTime bounds the end of etcd, whose data is safe without it.
	closeTime = 500 * time.Millisecond
)

// runAPIServer runs etcd and kube-apiserver until SIGTERM or the end of
// standard input. It prints one JSON line on standard output when /readyz is ok.
func runAPIServer(args []string) error {
	flags := flag.NewFlagSet(nameAPIServer, flag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "folder of etcd's data and of the audit policy; kept over restarts")
	pkiDir := flags.String("pki-dir", "", "folder with ca.crt, apiserver.crt, apiserver.key and sa.key")
	port := flags.Int("port", 0, "port on 127.0.0.1 to serve on")
	serviceCIDRs := flags.String("service-cidrs", "", "range of ClusterIPs, or two of different families with a comma between")
	auditLog := flags.String("audit-log", "", "file that the audit log is appended to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := require(flags, "data-dir", "pki-dir", "service-cidrs", "audit-log"); err != nil {
		return err
	}
	if *port < 1 || *port > 65535 {
		return fmt.Errorf("flag -port of %s is %d: want 1 to 65535", nameAPIServer, *port)
	}

	begin := time.Now()
	gone := parentGone()
	go func() {
		<-gone
		os.Exit(0)
	}()
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGINT)

	if err := os.MkdirAll(*dataDir, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	policy := filepath.Join(*dataDir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	etcd, endpoint, err := startEtcd(filepath.Join(*dataDir, "etcd"))
	if err != nil {
		return err
	}

	pki := func(name string) string { return filepath.Join(*pkiDir, name) }
	command := app.NewAPIServerCommand()
	command.SetArgs([]string{
		"--etcd-servers=" + endpoint,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(*port),
		// Stated, because the default asks the machine for a route, and there may be none.
		"--advertise-address=127.0.0.1",
		// The Endpoints of the service "kubernetes" must not be a loopback address.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("sa.key"),
		"--service-account-signing-key-file=" + pki("sa.key"),
		"--service-cluster-ip-range=" + *serviceCIDRs,
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + *auditLog,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=4096",
		"--profiling=false",
	})
	ended := make(chan int, 1)
	go func() { ended <- cli.Run(command) }()
	go announce(*port, pki("ca.crt"), begin)

	select {
	case code := <-ended:
		return fmt.Errorf("%s ended by itself with code %d", nameAPIServer, code)
	case <-terminate:
	}
	// The command has caught the signal as well and is draining.
	select {
	case <-ended:
	case <-time.After(drainTime):
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		etcd.Server.HardStop()
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
	}
	return nil
}

// announce waits until /readyz is ok and says so on standard output.
func announce(port int, caFile string, begin time.Time) {
	ca, err := os.ReadFile(caFile) //nolint:gosec // the caller says which
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube: read certificate authority:", err)
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	for !ready(client, fmt.Sprintf("https://127.0.0.1:%d/readyz", port)) {
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Printf("{\"ready\":%q,\"port\":%d,\"milliseconds\":%d}\n", nameAPIServer, port, time.Since(begin).Milliseconds())
}

func ready(client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && string(body) == "ok"
}
