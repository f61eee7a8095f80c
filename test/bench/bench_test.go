package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
	"github.com/k8s-mcs/k8s-mcs/test/bench/load"
	"github.com/k8s-mcs/k8s-mcs/test/bench/server"
	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// TestBenchAtSizeS measures a few rows of each kind for a moment. It judges no
// time: other tests run meanwhile.
func TestBenchAtSizeS(t *testing.T) {
	cpus, err := findProcessors()
	if err != nil {
		t.Fatal(err)
	}
	rows := `^(plugin|own)/(mixed|hl250-a-tc)/S|^gke/small/S|^floor/.*/S|^p99/.*/S`
	if !kubetest.RaceDetector { // with it, a sync.Pool forgets at random, and so allocations vary
		rows += `|^allocs/.*/S`
	}
	goals := selected(regexp.MustCompile(rows))
	o := options{pairs: verdict.MinPairs, sample: 20 * time.Millisecond, changes: 3}
	b, err := newBench(t.Context(), kubetest.ForTest(t), o, cpus, goals, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // other tests of this process may run anywhere
		if err := move(context.WithoutCancel(t.Context()), cpus.all, os.Getpid()); err != nil {
			t.Error(err)
		}
	})
	if err := b.fill(t.Context(), data.S); err != nil {
		t.Fatal(err)
	}

	t.Run("every row is measured, and no allocation is too many", func(t *testing.T) {
		if err := b.size(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, failure := range verdict.Failures(goals, b.rows) {
			if !strings.Contains(failure, "has a ratio of") {
				t.Error(failure)
			}
		}
	})

	ours, err := b.start(t.Context(), b.set, server.Ours, server.Alone)
	if err != nil {
		t.Fatal(err)
	}
	stock, err := b.start(t.Context(), b.set, server.Stock, server.Alone)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("ours and stock agree in all mixes", func(t *testing.T) {
		for _, mix := range []data.Mix{data.CIPA, data.HostA, data.SRV, data.NXDOMAIN, data.NODATA, data.HL3A, data.HL50A, data.HL250A, data.HL250ATC, data.Small, data.Mixed} {
			if err := load.Compare(t.Context(), ours.Addr, stock.Addr, b.set.Queries(mix)); err != nil {
				t.Errorf("%s: %v", mix, err)
			}
		}
	})

	t.Run("a server that knows less makes a row void", func(t *testing.T) {
		blind, err := b.rig.Start(t.Context(), server.Ours, server.Alone, "namespaces elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		for !blind.Ready(t.Context()) && !blind.Ended() {
			time.Sleep(5 * time.Millisecond)
		}
		judged := bench{options: o, out: t.Output(), set: b.set, goals: selected(regexp.MustCompile("^plugin/cip-a/S"))}
		if err := judged.queries(t.Context(), "plugin", blind, stock); err != nil {
			t.Fatal(err)
		}
		if len(judged.rows) != 1 || !strings.Contains(judged.rows[0].Void, "ours") || judged.rows[0].Failure() == "" {
			t.Errorf("rows %+v, want a void one", judged.rows)
		}
	})

	t.Run("a change is seen by the watch and in DNS", func(t *testing.T) {
		stop := b.churn(t.Context())
		for _, s := range [][2]*server.Server{{ours, stock}, {stock, ours}} {
			delays, err := b.delays(t.Context(), s[0], s[1])
			if err != nil || len(delays) != o.changes {
				t.Errorf("%s: %d delays, error %v", s[0].Name, len(delays), err)
			}
		}
		if _, err := stop(); err != nil {
			t.Error(err)
		}
	})

	t.Run("processor time and memory are read", func(t *testing.T) {
		heap, err := ours.Heap(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rss, err := ours.RSS()
		if err != nil {
			t.Fatal(err)
		}
		cpu, err := ours.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if heap < 1<<20 || rss < heap || cpu < time.Millisecond {
			t.Errorf("heap %d, RSS %d, CPU %s: want a megabyte, more than that, and a millisecond", heap, rss, cpu)
		}
	})
}

func TestProcessorsAreSplit(t *testing.T) {
	for list, want := range map[string]processors{
		"0-1":     {"0-1", "0", "1"},
		"0-3":     {"0-3", "0", "1-3"},
		"2,5-7":   {"2,5-7", "2", "5-7"},
		"2-3,7":   {"2-3,7", "2", "3,7"},
		"8-15,24": {"8-15,24", "8", "9-15,24"},
		"4":       {"4", "4", "4"},
	} {
		if got, err := splitProcessors(list); err != nil || got != want {
			t.Errorf("%s: %+v, error %v, want %+v", list, got, err, want)
		}
	}
	if got, err := splitProcessors("a-b"); err == nil {
		t.Errorf("a-b: %+v without an error", got)
	}
}

func TestFlagsThatCannotBeMet(t *testing.T) {
	for _, args := range [][]string{{"-rows", "("}, {"-rows", "plugin/cip-a/XL"}, {"-fast"}} {
		if err := run(t.Context(), args, t.Output()); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestEveryFamilyOfRowsIsInTheDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range verdict.Goals() {
		family, _, _ := strings.Cut(g.Name, "/")
		if !strings.Contains(string(text), "`"+family+"/") {
			t.Errorf("docs/performance.md does not speak of rows `%s/`", family)
		}
	}
}
