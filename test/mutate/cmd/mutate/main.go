// Command mutate breaks package plugin/zone in many small ways, one at a time,
// and fails when its tests do not notice one. It is run in the root of the
// repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/k8s-mcs/k8s-mcs/test/mutate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := mutate.Run(ctx, ".", mutate.Edits, runtime.NumCPU(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}
