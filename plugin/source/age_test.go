package source

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/plugin/internal/apitest"
)

func TestAgeIsThatOfTheSlowestWatch(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	s, err := New(Options{Config: server.Config(), Log: &notes{}, Observer: &notes{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, known := s.Age(); known || s.Stale() {
		t.Error("without data there is an age, or it is stale")
	}
	s, _ = run(t, server)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	slices := s.watches[1]
	set := func(age time.Duration) {
		slices.heard.Store(time.Now().Add(-age).UnixNano())
		s.assessAge()
	}
	set(staleAfter - time.Minute)
	if age, known := s.Age(); !known || age < staleAfter-time.Minute || age > staleAfter || s.Stale() {
		t.Errorf("age is %v (%v), stale %v, want about 2 min and not stale", age, known, s.Stale())
	}
	set(staleAfter + time.Second)
	if !s.Stale() {
		t.Error("data of which nothing was heard for more than 3 min is not stale")
	}
	server.Apply(t, strings.ReplaceAll(pearImport, "10.96.7.10", "10.96.7.11")) // the other watch
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 11]]")
	if s.assessAge(); !s.Stale() {
		t.Error("one watch was heard of, and the age is no longer that of the slowest")
	}
	server.Apply(t, figSlice)
	eventually(t, "an event makes it fresh", func() bool { return !s.Stale() })
	if age, _ := s.Age(); age > time.Minute {
		t.Errorf("after an event the age is %v", age)
	}
}

func TestDataIsStaleWhileAResourceCannotBeRead(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	server.Apply(t, pearImport)
	s, _ := run(t, server)
	wantAnswer(t, s, "pear.orchard.svc", "[[10 96 7 10]]")
	if s.Stale() {
		t.Error("stale at the start")
	}
	server.Fail("serviceimports", http.StatusInternalServerError)
	server.CutWatches()
	eventually(t, "stale", s.Stale)
	server.Fail("serviceimports", 0)
	eventually(t, "fresh", func() bool { return !s.Stale() })
}

func TestOnlyNewTriggersOfTheProcessCount(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	gone := time.Time{}
	for name, c := range map[string]struct {
		before []time.Time
		at     time.Time
		want   int
	}{
		"a first one":              {nil, ago(2 * time.Second), 1},
		"the same again":           {[]time.Time{ago(2 * time.Second)}, ago(2 * time.Second), 0},
		"an older one":             {[]time.Time{ago(2 * time.Second)}, ago(3 * time.Second), 0},
		"a newer one":              {[]time.Time{ago(2 * time.Second)}, ago(time.Second), 1},
		"the same of a new slice":  {[]time.Time{ago(2 * time.Second), gone}, ago(2 * time.Second), 1},
		"one in the future":        {nil, now.Add(time.Hour), 0},
		"one before the live data": {nil, ago(31 * time.Hour), 0},
		"one of more than a day":   {nil, ago(25 * time.Hour), 0},
		"none":                     {nil, gone, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tr triggers
			tr.note("orchard", "fig-b", ago(time.Second)) // in the first list
			tr.begin(ago(30 * time.Hour))
			if got := tr.take(); len(got) != 0 {
				t.Errorf("the first list counts: %v", got)
			}
			for _, at := range c.before {
				tr.note("orchard", "fig-b", at)
			}
			tr.take()
			tr.note("orchard", "fig-b", c.at)
			if got := tr.take(); len(got) != c.want {
				t.Errorf("%d triggers wait, want %d", len(got), c.want)
			}
		})
	}
}

func TestAChangedSliceTellsHowLongItTook(t *testing.T) {
	t.Parallel()
	server := apitest.New(t)
	at := func(d time.Duration) string {
		return strings.Replace(figSlice, "  name: fig-b", "  annotations: {endpoints.kubernetes.io/last-change-trigger-time: '"+
			time.Now().Add(d).UTC().Format(time.RFC3339Nano)+"'}\n  name: fig-b", 1)
	}
	server.Apply(t, figImport+"\n---\n"+at(-time.Minute))
	s, n := run(t, server)
	wantAnswer(t, s, "fig.orchard.svc", "[[10 22 0 4]]")
	if got := n.read(&n.programmed); got != 0 {
		t.Errorf("the first list was counted %d times", got)
	}
	server.Apply(t, strings.ReplaceAll(at(-time.Millisecond), "10.22.0.4", "10.22.0.5"))
	wantAnswer(t, s, "fig.orchard.svc", "[[10 22 0 5]]")
	eventually(t, "the change is counted", func() bool { return n.read(&n.programmed) == 1 })
}
