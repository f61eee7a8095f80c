package k8smcs

import "context"

// CoreDNS runs each query on a new goroutine, and the plugins around ours take
// 4 to 8 KiB of stack. A goroutine starts with the size that the stacks seen by
// the last garbage collection had on average: nearly all of those wait with
// 1 KiB, and so each query's stack would grow twice, which is a third of all that
// a query costs. A few goroutines that wait with much stack mend the average.

const (
	// deepStacks with deepStack bytes each are 2 MiB, and make an average of more
	// than 4 KiB for as long as there are fewer than about 500 other goroutines.
	deepStacks = 16
	deepStack  = 120 << 10 // a stack of 128 KiB, of which enough is used that it is not shrunk
)

// keepStacksDeep begins them. They wait until ctx ends, and do nothing.
func keepStacksDeep(ctx context.Context) {
	for range deepStacks {
		go waitDeep(ctx.Done())
	}
}

func waitDeep(done <-chan struct{}) {
	var room [deepStack]byte
	use(&room)
	<-done
	use(&room)
}

// use keeps the compiler from leaving room out.
//
//go:noinline
func use(room *[deepStack]byte) { room[0]++ }
