// Command kube is the control plane of the project's tests: one multi-call
// binary that is kube-apiserver with its etcd in the same process, or
// kube-controller-manager. The base name of argv[0], or else the first
// argument, chooses.
//
// It serves on loopback only, needs no root, and ends when its standard input
// does, so that it cannot outlive the test that started it. The Kubernetes
// code is the released one, unchanged; package kubetest of the root module
// starts it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients in both programs
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric with the version
)

const (
	nameAPIServer         = "kube-apiserver"
	nameControllerManager = "kube-controller-manager"
)

func main() {
	name, args := program(os.Args)
	var err error
	switch name {
	case nameAPIServer:
		err = runAPIServer(args)
	case nameControllerManager:
		err = runControllerManager(args)
	default:
		err = fmt.Errorf("no program %q: want %s or %s as the name of the binary or as the first argument", name, nameAPIServer, nameControllerManager)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

// program tells what to be, and with which arguments.
func program(argv []string) (name string, args []string) {
	switch base := filepath.Base(argv[0]); {
	case base == nameAPIServer || base == nameControllerManager:
		return base, argv[1:]
	case len(argv) > 1:
		return argv[1], argv[2:]
	default:
		return "", nil
	}
}

// parentGone returns a channel that is closed when standard input ends. The
// parent holds the other end of that pipe, so its death closes it whatever
// kind of death it was.
func parentGone() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return gone
}

// require reports every flag in names that was left empty.
func require(flags *flag.FlagSet, names ...string) error {
	var missing []error
	for _, name := range names {
		if flags.Lookup(name).Value.String() == "" {
			missing = append(missing, fmt.Errorf("flag -%s of %s is missing", name, flags.Name()))
		}
	}
	return errors.Join(missing...)
}
