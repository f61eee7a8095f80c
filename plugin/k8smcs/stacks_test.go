package k8smcs

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// stackOfNew is the stack that a new goroutine starts with, in bytes.
func stackOfNew() int {
	const n = 2000
	var before, after runtime.MemStats
	done := make(chan struct{})
	defer close(done)
	started := make(chan struct{})
	runtime.ReadMemStats(&before)
	for range n {
		go func() { started <- struct{}{}; <-done }()
	}
	for range n {
		<-started
	}
	runtime.ReadMemStats(&after)
	return int(after.StackInuse-before.StackInuse) / n
}

func TestNewGoroutinesStartWithEnoughStackForAQuery(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	keepStacksDeep(ctx)
	// A collection decides for those that come after it, once the goroutines wait.
	for end := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		got := stackOfNew()
		if got >= 8<<10 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a new goroutine has a stack of %d bytes, want 8 KiB", got)
		}
	}
}
