package syncd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve answers /healthz, /readyz and /metrics until ctx ends. Healthy is a
// process that answers; ready is one that has read its own cluster, so that
// missing is empty. Neither waits for a peer: a peer that is away must not take
// this cluster's syncd down. Nor does ready wait for the lead: a standby is ready.
func serve(ctx context.Context, listener net.Listener, metrics prometheus.Gatherer, missing func() []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		waiting := missing()
		if len(waiting) == 0 {
			fmt.Fprintln(w, "ok")
			return
		}
		http.Error(w, "not read yet: "+strings.Join(waiting, ", "), http.StatusServiceUnavailable)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("close %s: %w", listener.Addr(), err)
	}
	return nil
}
