package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
	"github.com/k8s-mcs/k8s-mcs/test/bench/load"
	"github.com/k8s-mcs/k8s-mcs/test/bench/server"
	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
)

// startTime is how long a server may take.
const startTime = time.Minute

// settle is how long after the first right answers memory is read.
const settle = 3 * time.Second

// starts measures how long a server takes from its start to right answers, and
// its memory a moment later.
func (b *bench) starts(ctx context.Context) error {
	start, wantsStart := b.goal("start", "")
	rss, wantsRSS := b.goal("rss", "")
	if !wantsStart && !wantsRSS {
		return nil
	}
	var times, sizes []verdict.Pair
	var err error
	for range b.pairs {
		var t, m [2]float64
		for i, who := range []server.Who{server.Ours, server.Stock} {
			if t[i], m[i], err = b.oneStart(ctx, who); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
		times = append(times, verdict.Pair{Ours: t[0], Stock: t[1]})
		sizes = append(sizes, verdict.Pair{Ours: m[0], Stock: m[1]})
	}
	if wantsStart {
		if err := b.judge(ctx, start, times, err); err != nil {
			return err
		}
	}
	if wantsRSS {
		return b.judge(ctx, rss, sizes, err)
	}
	return nil
}

// oneStart starts a server and ends it. The time is in seconds, the memory in MiB.
func (b *bench) oneStart(ctx context.Context, who server.Who) (seconds, mebibytes float64, err error) {
	s, err := b.rig.Start(ctx, who, server.Alone)
	if err != nil {
		return 0, 0, err
	}
	defer b.kill(s)
	took, err := untilRight(ctx, s, b.set.Sample(), who == server.Ours)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", s.Name, err)
	}
	select {
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	case <-time.After(settle):
	}
	memory, err := s.RSS()
	return took.Seconds(), float64(memory) / (1 << 20), err
}

// untilRight waits until the server is ready and every sampled answer is
// right. With strict set, a server that says that it is ready before is an error.
func untilRight(ctx context.Context, s *server.Server, sample []data.Query, strict bool) (time.Duration, error) {
	deadline := s.Begin.Add(startTime)
	for {
		ready := s.Ready(ctx)
		wrong := load.Check(ctx, s.Addr, 250*time.Millisecond, sample...)
		took := time.Since(s.Begin)
		switch {
		case ready && wrong == nil:
			return took, nil
		case ready && strict:
			return 0, fmt.Errorf("ready after %s, and then an answer is not right: %w", took, wrong)
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case s.Ended():
			return 0, fmt.Errorf("it has ended; its log:\n%s", tail(s.Log()))
		case time.Now().After(deadline):
			return 0, fmt.Errorf("not ready and right after %s (ready: %t): %w; its log:\n%s", startTime, ready, wrong, tail(s.Log()))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// tail is the end of a log.
func tail(log string) string {
	lines := strings.SplitAfter(log, "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "")
}
