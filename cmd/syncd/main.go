// Syncd keeps the ServiceImports, derived Services and mirrored EndpointSlices
// of one cluster equal to what the clusters of its clusterset export.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/k8s-mcs/k8s-mcs/syncd"
	"github.com/k8s-mcs/k8s-mcs/syncd/config"
)

// version is set at build time.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: 0 ended as asked, 1 failed, 2 misconfigured.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := config.Parse(args, os.Getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "syncd: wrong configuration:\n%v\n", err)
		return 2
	case c.ShowVersion:
		fmt.Fprintln(stdout, "syncd", version)
		return 0
	}
	log := newLog(c, stderr)
	// client-go says at its first levels what nobody asked for.
	c.LogLevel = max(c.LogLevel, slog.LevelInfo)
	klog.SetSlogLogger(newLog(c, stderr).With("from", "client-go"))
	log.Info("starting", "version", version, "cluster", c.ClusterID, "namespace", c.Namespace)
	if err := syncd.Run(ctx, c, log); err != nil {
		log.Error("cannot run", "err", err)
		return 1
	}
	return 0
}

func newLog(c config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
