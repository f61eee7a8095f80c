// Command demo shows the whole path on this machine: three Kubernetes control
// planes, a Service exported from two of them, syncd for each, and mcs-core-dns
// answering for the third. It needs Linux and the go command, and no cluster,
// container or root.
//
// It stays until it is interrupted. With DEMO_EXIT=1 in the environment it ends
// by itself, with 0 only if everything is as it should be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitWrong  = 1 // something is not as wanted; the differences are printed
	exitBroken = 2 // the demo could not be run to its end

	exitInterrupted = 130 // as shells have it
)

func main() {
	want := whereami()
	endpoints := flag.String("expect-endpoints", strings.Join(want.endpoints, ","), "`endpoints` of whereami that are right, with a comma between")
	flag.StringVar(&want.clusterIP, "expect-ip", "", "clusterset `IP` that is right (default: the one that the consumer's API server gave the derived Service)")
	flag.Parse()
	want.endpoints = strings.Split(*endpoints, ",")
	os.Exit(demonstrate(want, os.Getenv("DEMO_EXIT") == "1"))
}

// demonstrate is main without the process: it returns the exit code.
func demonstrate(want expectation, leave bool) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go endWithParent(ctx, cancel)
	// A second interrupt ends at once; children die with us all the same.
	context.AfterFunc(ctx, stop)

	s := newScreen(os.Stdout)
	err := run(ctx, s, want, leave)
	var wrong *wrongError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		s.line("\n%v", wrong)
		return exitWrong
	case ctx.Err() != nil:
		s.line("interrupted; nothing is left")
		return exitInterrupted
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitBroken
	}
}

// run is the demo from the build to the end. With leave it does not stay.
func run(ctx context.Context, s *screen, want expectation, leave bool) (err error) {
	s.line("k8s-mcs: a Service exported from two clusters, answered by DNS in a third")
	s.line("")
	w, err := newWorld(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	told, err := w.tell(ctx, want)
	if leave {
		return err
	}
	if err != nil {
		wrong, ok := errors.AsType[*wrongError](err)
		if !ok {
			return err
		}
		s.line("\n%v", wrong)
	}
	s.title("What mcs-core-dns answers now")
	for _, q := range told.asked {
		if reply, err := w.dns.ask(ctx, q); err == nil {
			s.answer(w.dns.dig(q), "now", reply)
		}
	}
	s.line("")
	s.line("Ask for yourself:")
	s.line("  dig @127.0.0.1 -p %d whereami.test.svc.clusterset.local", w.dns.port)
	s.line("  kubectl --kubeconfig %s get serviceimports,services,endpointslices -n test", w.consumer.Kubeconfig())
	s.line("Ctrl-C ends the demo and leaves nothing.")
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.failed:
		return err
	}
}

// endWithParent cancels when the process that started this one is gone: a
// killed "go run" tells its child nothing.
func endWithParent(ctx context.Context, cancel context.CancelFunc) {
	parent := os.Getppid()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for os.Getppid() == parent {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	cancel()
}

// timeout bounds each wait for the clusters to agree. On two processors that
// others use as well, seconds are usual.
const timeout = time.Minute
