package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// killPeer kills a peer's API server, restarts syncd while it is away, and
// starts it again. No answer changes, and nothing is written, until something
// changes in the peer.
func (s *story) killPeer(ctx context.Context) error {
	osaka := s.clusters[osaka1]
	before, err := s.askAll(ctx)
	if err != nil {
		return err
	}
	begin, pid := time.Now(), osaka.Pids()[0]
	if err := osaka.Kill(); err != nil {
		return err
	}
	s.screen.step("killed the API server of %s, pid %d, with SIGKILL", osaka1, pid)
	const away = `msg="cannot read cluster" cluster=` + osaka1
	line, err := s.logged(ctx, s.syncds[tokyo2], away)
	if err != nil {
		return err
	}
	s.screen.line("    syncd of %s: %s", tokyo2, shorten(line))
	if err := s.askAgain(ctx, before, true); err != nil {
		return err
	}

	old := s.syncds[tokyo2]
	if err := s.restartSyncd(ctx, tokyo2); err != nil {
		return err
	}
	s.screen.step("restarted syncd of %s: pid %d before, %d now", tokyo2, old.Pid(), s.syncds[tokyo2].Pid())
	if _, err := s.logged(ctx, s.syncds[tokyo2], away); err != nil {
		return err
	}
	if err := s.wentThrough(ctx); err != nil {
		return err
	}
	if err := s.askAgain(ctx, before, false); err != nil {
		return err
	}
	events, err := s.audit(ctx, s.consumer)
	if err != nil {
		return err
	}
	wrote := requests(events, syncdUser, begin, kubetest.AuditEvent.Changes)
	s.screen.line("  By the audit log of %s, syncd wrote %d objects since the kill, its Leases aside", tokyo2, len(wrote))
	if err := s.check(finding{"what syncd of " + tokyo2 + " writes while " + osaka1 + " is away", nil, wrote}); err != nil {
		return err
	}

	s.screen.step("starting the API server of %s again", osaka1)
	return s.recovers(ctx, osaka, pid)
}

// recovers starts a killed cluster and takes the time until a change arrives.
func (s *story) recovers(ctx context.Context, c *kubetest.Cluster, killed int) error {
	if err := c.Start(ctx); err != nil {
		return err
	}
	s.screen.step("it is ready, pid %d (it was %d)", c.Pids()[0], killed)
	backend := backends[osaka1][0]
	backend.ready = false
	if err := s.turn(ctx, "Pod "+backend.name+" becomes unready", backend); err != nil {
		return err
	}
	backend.ready = true
	if err := apply(ctx, c, backend.yaml()); err != nil {
		return err
	}
	return s.reach(ctx, "it becomes ready again", "whereami", s.whereamiIs(exporters, endpointsOf(backends, exporters...)...))
}

// wentThrough waits until the syncd of tokyo2 has looked at every service once.
func (s *story) wentThrough(ctx context.Context) error {
	line, err := s.logged(ctx, s.syncds[tokyo2], "msg=listening ")
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(line, "addr=")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second}
	return s.await(ctx, "syncd of "+tokyo2+" at work", 10*time.Millisecond, func() error {
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		const count = `mcs_syncd_sync_duration_seconds_count{result="success"} `
		_, text, _ := strings.Cut(string(page), "\n"+count)
		text, _, _ = strings.Cut(text, "\n")
		if n, _ := strconv.ParseFloat(text, 64); n < exportedServices {
			return fmt.Errorf("it has gone through %s services", text)
		}
		return nil
	})
}

// exportedServices are whereami, whereami-headless and hello.
const exportedServices = 3

// askAll asks everything that was asked so far.
func (s *story) askAll(ctx context.Context) (map[question]answer, error) {
	all := map[question]answer{}
	for _, q := range s.asked {
		reply, err := s.dns.ask(ctx, q)
		if err != nil {
			return nil, err
		}
		all[q] = reply
	}
	return all, nil
}

// askAgain asks everything and compares. With show each answer is a line.
func (s *story) askAgain(ctx context.Context, before map[question]answer, show bool) error {
	now, err := s.askAll(ctx)
	if err != nil {
		return err
	}
	var findings []finding
	same := 0
	for _, q := range s.asked {
		f := finding{"answer to " + q.String() + " while " + osaka1 + " is away", before[q].lines(), now[q].lines()}
		if f.right() {
			same++
		}
		if show {
			s.screen.line("    %-4s %-70s %s", dns.TypeToString[q.kind], strings.TrimSuffix(q.name, "."), now[q].brief())
		}
		findings = append(findings, f)
	}
	s.screen.line("  Asked all %d questions again: %d answers are the same", len(findings), same)
	return s.check(findings...)
}

// brief is an answer in one line.
func (a answer) brief() string {
	lines := a.lines()
	brief := strings.TrimPrefix(lines[0], "status ")
	var data []string
	for _, line := range lines[1:] {
		// "answer NAME TYPE DATA..."
		if fields := strings.SplitN(line, " ", 4); fields[0] == "answer" {
			data = append(data, fields[3])
		}
	}
	switch {
	case len(data) == 0:
		return brief
	case slices.ContainsFunc(data, func(d string) bool { return strings.Contains(d, " ") }):
		return fmt.Sprintf("%s, %d with a target", brief, len(data))
	default:
		return brief + " " + strings.Join(data, " ")
	}
}

// shorten leaves out what an API server that is away adds to every line.
func shorten(line string) string {
	_, line, _ = strings.Cut(line, "msg=")
	line, _, _ = strings.Cut(line, " err=")
	return line
}
