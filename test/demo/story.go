package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// chapter is one thing that the demo shows. Its title is also what docs/gke.md
// refers to.
type chapter struct {
	title string
	play  func(*story, context.Context) error
}

// chapters are in the order of the story: each begins where the last one ended.
var chapters = []chapter{
	{"A Service of two clusters, in a third", (*story).exportWhereami},
	{"Through the cluster's own DNS", (*story).askClusterDNS},
	{"How long a change takes", (*story).measure},
	{"One exporter scales to zero", (*story).scaleToZero},
	{"Headless, and each Pod by its name", (*story).exportHeadless},
	{"GKE's own kind of ServiceExport", (*story).exportAsGKE},
	{"A namespace goes and comes back", (*story).renewNamespace},
	{"Peers come and go", (*story).changePeers},
	{"A peer's API server is killed", (*story).killPeer},
	{"The same name comes back as headless", (*story).comeBackHeadless},
	{"Who wrote in tyo-cluster-02", (*story).showWriters},
}

// story is what the chapters know of each other.
type story struct {
	*world
	want expectation

	// ip is the clusterset IP of whereami in tokyo2, as it is now.
	ip string
	// asked are the questions to mcs-core-dns so far.
	asked []question
	// right counts what was looked at.
	right int
}

// tell plays the chapters. It stops at the first one in which something is not
// as wanted, for the next one would begin elsewhere.
func (w *world) tell(ctx context.Context, want expectation) (*story, error) {
	s := &story{world: w, want: want}
	for i, c := range chapters {
		w.screen.chapter(i+1, c.title)
		if err := c.play(s, ctx); err != nil {
			if wrong, ok := errors.AsType[*wrongError](err); ok {
				return s, wrong
			}
			return s, fmt.Errorf("chapter %q: %w", c.title, err)
		}
	}
	w.screen.line("")
	w.screen.line("All is as wanted: %d objects, answers and changes.", s.right)
	return s, nil
}

// check counts findings, and returns those that are not right as an error.
func (s *story) check(findings ...finding) error {
	var wrong []finding
	for _, f := range findings {
		if f.right() {
			s.right++
		} else {
			wrong = append(wrong, f)
		}
	}
	if len(wrong) > 0 {
		return &wrongError{wrong}
	}
	return nil
}

// until looks until it sees what is wanted, for at most timeout. What it sees
// last is then a finding that is not right.
func (w *world) until(ctx context.Context, what string, want []string, look func(context.Context) ([]string, error)) (finding, error) {
	f := finding{what: what, want: want}
	var broken error
	err := w.await(ctx, what, 5*time.Millisecond, func() error {
		if f.got, broken = look(ctx); broken != nil {
			return broken
		}
		if !f.right() {
			return errors.New("not yet")
		}
		return nil
	})
	switch {
	case err == nil, f.right():
		return f, nil
	case broken == nil && errors.Is(err, errTimeout):
		return f, nil
	default:
		return f, err
	}
}

// reach waits until a service is in tokyo2 as wanted, and says how long that took.
func (s *story) reach(ctx context.Context, what, service string, want state) error {
	begin := time.Now()
	f, err := s.until(ctx, service+" in "+tokyo2+" after: "+what, want.lines(), func(ctx context.Context) ([]string, error) {
		got, err := s.look(ctx, service)
		return got.lines(), err
	})
	if err != nil {
		return err
	}
	s.screen.took(what, time.Since(begin), "")
	return s.check(f)
}

// dig asks mcs-core-dns until status and answers are right, and shows them. The
// data are those of the wanted records, in any order.
func (s *story) dig(ctx context.Context, q question, remark, status string, data ...string) error {
	return s.digAt(ctx, s.dns, q, remark, append([]string{"status " + status}, q.records(data...)...))
}

// digAt asks any resolver. Lines wanted of the additional section are looked
// at only if there are some, those of the authority section never.
func (s *story) digAt(ctx context.Context, at resolver, q question, remark string, want []string) error {
	var reply answer
	const additional = "additional "
	whole := slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, additional) })
	f, err := s.until(ctx, "answer to "+q.String(), want, func(ctx context.Context) ([]string, error) {
		var err error
		if reply, err = at.ask(ctx, q); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(reply.lines(), func(line string) bool {
			return strings.HasPrefix(line, "authority ") || !whole && strings.HasPrefix(line, additional)
		}), nil
	})
	if err != nil {
		return err
	}
	s.screen.answer(at.dig(q), remark, reply)
	if at == s.dns && !slices.Contains(s.asked, q) {
		s.asked = append(s.asked, q)
	}
	return s.check(f)
}
