package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
	"github.com/k8s-mcs/k8s-mcs/test/bench/load"
	"github.com/k8s-mcs/k8s-mcs/test/bench/server"
	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
)

// allocations counts allocations per query of a mix: those of its first, its
// middle and its last query, of which the greatest is the row's.
func (b *bench) allocations(ctx context.Context) error {
	mixes := b.mixes("allocs")
	if len(mixes) == 0 {
		return nil
	}
	ours, err := b.startCounting(ctx, server.Ours)
	if err != nil {
		return err
	}
	defer b.kill(ours)
	stock, err := b.startCounting(ctx, server.Stock)
	if err != nil {
		return err
	}
	defer b.kill(stock)
	for _, mix := range mixes {
		goal, _ := b.goal("allocs", mix)
		queries := b.set.Queries(mix)
		var worst verdict.Pair
		var errs []error
		for _, i := range []int{0, len(queries) / 2, len(queries) - 1} {
			a, err1 := countAllocations(ctx, ours, queries[i])
			s, err2 := countAllocations(ctx, stock, queries[i])
			errs = append(errs, err1, err2)
			worst = verdict.Pair{Ours: max(worst.Ours, a), Stock: max(worst.Stock, s)}
		}
		if err := b.judge(ctx, goal, []verdict.Pair{worst}, errors.Join(errs...)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startCounting(ctx context.Context, who server.Who) (*server.Server, error) {
	s, err := b.rig.StartCounting(ctx, who)
	if err != nil {
		return nil, err
	}
	_, err = untilRight(ctx, s, b.set.Sample(), false)
	return s, err
}

// countAllocations asks a server with the plugin bench_allocs, see cmd/allocs.
func countAllocations(ctx context.Context, s *server.Server, q data.Query) (float64, error) {
	if err := load.Check(ctx, s.Addr, load.Long, q); err != nil {
		return 0, err
	}
	m := load.Message(q)
	m.CheckingDisabled = true
	client := &dns.Client{Timeout: load.Long, UDPSize: dns.MaxMsgSize}
	if _, _, err := client.ExchangeContext(ctx, m, s.Addr); err != nil {
		return 0, fmt.Errorf("ask for %s: %w", q.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, load.Long)
	defer cancel()
	prefix := fmt.Sprintf("allocs %s %s ", q.Name, dns.TypeToString[q.Type])
	line, err := s.WaitLog(ctx, prefix)
	if err != nil {
		return 0, err
	}
	var n float64
	if _, err := fmt.Sscanf(line[len(prefix):], "%g", &n); err != nil {
		return 0, fmt.Errorf("read %q: %w", line, err)
	}
	return n, nil
}
