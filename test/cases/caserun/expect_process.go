package caserun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// browser asks for the pages of processes.
var browser = &http.Client{Timeout: 5 * time.Second}

// fetch gets a page of a process.
func (w *world) fetch(ctx context.Context, process, cluster, path string) (int, string, error) {
	var base string
	switch {
	case process == "dns" && w.dns != nil:
		base = "http://" + w.dns.pages[path]
		if w.dns.pages[path] == "" {
			return 0, "", skipf("http.path %s: the runner knows no such page of dns", path)
		}
	case process == "syncd":
		s, err := w.syncd(cluster)
		if err != nil {
			return 0, "", err
		}
		base = s.url
	default:
		return 0, "", fmt.Errorf("there is no process %s", process)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("get page: %w", err)
	}
	response, err := browser.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("get page: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// syncd is the one of a cluster, by default of amber.
func (w *world) syncd(cluster string) (*syncdProcess, error) {
	if cluster == "" {
		cluster = home
	}
	s, ok := w.syncds[cluster]
	if !ok {
		return nil, fmt.Errorf("there is no syncd in %s", cluster)
	}
	return s, nil
}

func (o HTTPCheck) eval(ctx context.Context, w *world) error {
	status, _, err := w.fetch(ctx, o.Process, o.Cluster, o.Path)
	if err != nil {
		return err
	}
	if status != o.Status {
		return fmt.Errorf("%s of %s is %d, want %d", o.Path, o.Process, status, o.Status)
	}
	return nil
}

// eval compares with the restarts that nobody asked for: nothing here starts a
// process again, so one that has ended would have been restarted.
func (o ProcessCheck) eval(_ context.Context, w *world) error {
	restarts := 0
	note := func(ended, stopped bool, log string) {
		if ended && !stopped || crash(log) != "" {
			restarts++
		}
	}
	switch {
	case o.Process == "dns" && w.dns != nil:
		note(w.dns.ended(), w.dns.stopped, w.dns.earlier+w.dns.Log())
	case o.Process == "syncd":
		if o.Cluster != "" {
			if _, err := w.syncd(o.Cluster); err != nil {
				return err
			}
		}
		for _, s := range w.sortedSyncds() {
			if o.Cluster == "" || s.cluster == o.Cluster {
				ended := false
				select {
				case <-s.Exited():
					ended = true
				default:
				}
				note(ended, s.stopped, s.earlier+s.Log())
			}
		}
	default:
		return fmt.Errorf("there is no process %s", o.Process)
	}
	if restarts != o.Restarts {
		return fmt.Errorf("%s has ended by itself %d times, want %d", o.Process, restarts, o.Restarts)
	}
	return nil
}

// levels are the words of cases for what the two kinds of logs write.
var levels = map[string][]string{
	"error":   {"[ERROR]", "ERROR"},
	"warning": {"[WARNING]", "WARN"},
	"info":    {"[INFO]", "INFO"},
	"debug":   {"[DEBUG]", "DEBUG"},
}

// levelOf is the level of a line of CoreDNS's log or of syncd's, "" if it has none.
func levelOf(line string) string {
	var entry struct{ Level string }
	structured := json.Unmarshal([]byte(line), &entry) == nil
	for _, level := range slices.Sorted(maps.Keys(levels)) {
		words := levels[level]
		if structured && entry.Level == words[1] || !structured && strings.HasPrefix(line, words[0]) {
			return level
		}
	}
	return ""
}

func (o LogCheck) eval(_ context.Context, w *world) error {
	var text strings.Builder
	switch {
	case o.Process == "dns" && w.dns != nil:
		text.WriteString(w.dns.earlier + w.dns.Log())
	case o.Process == "syncd":
		for _, s := range w.sortedSyncds() {
			if o.Cluster == "" || s.cluster == o.Cluster {
				text.WriteString(s.earlier + s.Log())
			}
		}
	default:
		return fmt.Errorf("there is no process %s", o.Process)
	}
	log, lines := text.String(), 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, o.Contains) && (o.Level == "" || levelOf(line) == o.Level) {
			lines++
		}
	}
	if lines == 0 {
		return fmt.Errorf("no line of level %q has %q; log of %s:\n%s", o.Level, o.Contains, o.Process, tail(log, 10))
	}
	if o.MaxPerMinute != nil {
		// The case's whole time counts as at least one minute, so a burst fails as well.
		minutes := max(1, time.Since(w.begin).Minutes())
		if rate := float64(lines) / minutes; rate > float64(*o.MaxPerMinute) {
			return fmt.Errorf("%d lines with %q in %.1f minutes, want at most %d a minute", lines, o.Contains, minutes, *o.MaxPerMinute)
		}
	}
	return nil
}

const (
	aboutPeers  = "peer connectivity"
	aboutPlugin = "series of the plugin"

	// What the product calls them.
	peerStates   = "mcs_syncd_peer_state"
	peerIsWell   = "Synced"
	pluginSeries = "coredns_k8s_mcs_"
)

// page is a page of metrics: series with labels to value, in the order they came.
type page struct {
	series []string
	values map[string]float64
	types  map[string]string // of families
}

func parsePage(text string) (*page, error) {
	p := &page{values: map[string]float64{}, types: map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if _, twice := p.types[name]; twice {
				return nil, fmt.Errorf("metric %s is there twice", name)
			}
			p.types[name] = kind
		}
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%q is no line of metrics", line)
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no line of metrics: %w", line, err)
		}
		p.series = append(p.series, line[:at])
		p.values[line[:at]] = value
	}
	return p, nil
}

// shown is one thing that a metric can show.
type shown func(ctx context.Context, w *world, o MetricCheck, p *page) error

// shownBy finds how to see what "shows" says.
func shownBy(part string) (shown, bool) {
	switch part {
	case "present":
		return showsPresent, true
	case "absent":
		return func(ctx context.Context, w *world, o MetricCheck, p *page) error {
			if showsPresent(ctx, w, o, p) == nil {
				return errors.New("there are series, want none")
			}
			return nil
		}, true
	case "each name once":
		return showsOnce, true
	case "down", "up":
		return func(_ context.Context, _ *world, o MetricCheck, p *page) error {
			return showsPeer(o, p, part == "up")
		}, true
	}
	step, ok := strings.CutPrefix(part, "counters not below step ")
	n, err := strconv.Atoi(step)
	if !ok || err != nil {
		return nil, false
	}
	return func(_ context.Context, w *world, _ MetricCheck, p *page) error { return showsNoFall(w, p, n) }, true
}

func showsPresent(_ context.Context, _ *world, o MetricCheck, p *page) error {
	prefix := pluginSeries
	if o.About == aboutPeers {
		prefix = peerStates
	}
	if !slices.ContainsFunc(p.series, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
		return fmt.Errorf("there is no series that begins with %s", prefix)
	}
	return nil
}

func showsOnce(_ context.Context, _ *world, _ MetricCheck, p *page) error {
	seen := map[string]bool{}
	for _, s := range p.series {
		if seen[s] {
			return fmt.Errorf("series %s is there twice", s)
		}
		seen[s] = true
	}
	return nil
}

func showsNoFall(w *world, p *page, step int) error {
	before, ok := w.scrapes[step]
	if !ok {
		return fmt.Errorf("metrics were not read after step %d", step)
	}
	for _, s := range before.series {
		family, _, _ := strings.Cut(s, "{")
		if !strings.HasPrefix(s, pluginSeries) || before.types[family] != "counter" {
			continue
		}
		now, ok := p.values[s]
		if !ok || now < before.values[s] {
			return fmt.Errorf("counter %s is %v (there: %t) after %v in step %d", s, now, ok, before.values[s], step)
		}
	}
	return nil
}

func showsPeer(o MetricCheck, p *page, up bool) error {
	states := map[string]float64{}
	for _, s := range p.series {
		if !strings.HasPrefix(s, peerStates+"{") || !hasLabels(s, o.Labels) {
			continue
		}
		_, after, _ := strings.Cut(s, `state="`)
		state, _, _ := strings.Cut(after, `"`)
		states[state] = p.values[s]
	}
	if len(states) == 0 {
		return fmt.Errorf("there is no series %s with %v", peerStates, o.Labels)
	}
	if well := states[peerIsWell] == 1; well != up {
		return fmt.Errorf("%s with %v is %v, want up %t", peerStates, o.Labels, states, up)
	}
	return nil
}

func hasLabels(series string, labels map[string]string) bool {
	for key, value := range labels {
		if !strings.Contains(series, key+`="`+value+`"`) {
			return false
		}
	}
	return true
}

// scrape reads the metrics of a process.
func (w *world) scrape(ctx context.Context, process, cluster string) (*page, error) {
	status, body, err := w.fetch(ctx, process, cluster, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("/metrics of %s is %d", process, status)
	}
	return parsePage(body)
}

func (o MetricCheck) eval(ctx context.Context, w *world) error {
	p, err := w.scrape(ctx, o.Process, o.Cluster)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(o.Shows, ", ") {
		see, ok := shownBy(part)
		if !ok {
			return skipf("expect.metrics: the runner does not know how to see %q", part)
		}
		if err := see(ctx, w, o, p); err != nil {
			return err
		}
	}
	return nil
}

func (o UpstreamCheck) eval(_ context.Context, w *world) error {
	if w.stub == nil {
		return errors.New("there is no upstream")
	}
	if n := w.stub.questions(o.Name); n > o.Max {
		return fmt.Errorf("the upstream was asked %d times for %s, want at most %d", n, o.Name, o.Max)
	}
	return nil
}
