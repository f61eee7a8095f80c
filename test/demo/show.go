package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

// screen is what the demo says. Steps carry the seconds since the start.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

func newScreen(out io.Writer) *screen { return &screen{out: out, begin: time.Now()} }

// step says what goes on.
func (s *screen) step(format string, args ...any) {
	s.print(fmt.Sprintf("%6.1fs  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...)))
}

// line says anything else.
func (s *screen) line(format string, args ...any) { s.print(fmt.Sprintf(format, args...) + "\n") }

func (s *screen) title(text string) { s.print("\n" + text + "\n") }

// Write takes the lines of the test bed as steps.
func (s *screen) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		s.step("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text) // a screen that is gone is no reason to stop
}

// show prints what the consumer has, as kubectl and dig would.
func (w *world) show(ctx context.Context, got observation) error {
	w.screen.title("In " + tokyo2)
	for _, view := range []struct{ command, path, selector string }{
		{"kubectl get serviceimports -n test", "/apis/multicluster.x-k8s.io/v1beta1/namespaces/test/serviceimports", ""},
		{"kubectl get services -n test", "/api/v1/namespaces/test/services", ""},
		{"kubectl get endpointslices -n test -l " + mcs.LabelServiceName + "=whereami", "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices", mcs.LabelServiceName + "=whereami"},
	} {
		table, err := w.table(ctx, view.path, view.selector)
		if err != nil {
			return err
		}
		w.screen.line("\n  $ %s\n%s", view.command, indent(table))
	}
	w.screen.title("What mcs-core-dns of " + tokyo2 + " answers")
	for _, q := range questions {
		if reply, ok := got.answers[q]; ok {
			w.screen.answer(q.dig(w.dnsPort), remarks[q], reply)
		}
	}
	return nil
}

// answer prints an answer's records as they are.
func (s *screen) answer(command, remark string, reply answer) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n  $ %s\n", command)
	for _, line := range reply.lines()[:1] {
		fmt.Fprintf(&text, "    ;; %s, %s: %s\n", line, short(reply.took), remark)
	}
	for _, section := range []struct {
		name    string
		records []fmt.Stringer
	}{
		{"", stringers(reply.message.Answer)},
		{";; authority: ", stringers(reply.message.Ns)},
		{";; additional: ", stringers(reply.message.Extra)},
	} {
		for _, record := range section.records {
			fmt.Fprintf(&text, "    %s%s\n", section.name, strings.ReplaceAll(record.String(), "\t", " "))
		}
	}
	s.print(text.String())
}

func stringers[T fmt.Stringer](list []T) []fmt.Stringer {
	all := make([]fmt.Stringer, len(list))
	for i, one := range list {
		all[i] = one
	}
	return all
}

// writers prints who changed what in the consumer.
func (s *screen) writers(list []writer) {
	s.title("Who wrote in " + tokyo2 + ", by its audit log")
	others := 0
	for _, one := range list {
		if _, known := mayWrite[one.user]; !known {
			others++
		}
		wrote := strings.Join(one.wrote, ", ")
		if one.user == "system:apiserver" {
			wrote = "its own bookkeeping"
		}
		s.line("  %s (%s): %s", one.who, one.user, wrote)
	}
	if others == 0 {
		s.line("  nobody else")
	}
}

// table asks the API server for the columns that kubectl prints.
func (w *world) table(ctx context.Context, path, selector string) (string, error) {
	request := w.client.Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if selector != "" {
		request.Param("labelSelector", selector)
	}
	content, err := request.DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	var table metav1.Table
	if err := json.Unmarshal(content, &table); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	var text bytes.Buffer
	tab := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	row := func(cell func(int) any) {
		var cells []string
		for i, column := range table.ColumnDefinitions {
			if column.Priority == 0 {
				cells = append(cells, fmt.Sprint(cell(i)))
			}
		}
		fmt.Fprintln(tab, strings.Join(cells, "\t"))
	}
	row(func(i int) any { return strings.ToUpper(table.ColumnDefinitions[i].Name) })
	for _, r := range table.Rows {
		row(func(i int) any { return r.Cells[i] })
	}
	if err := tab.Flush(); err != nil {
		return "", fmt.Errorf("print %s: %w", path, err)
	}
	return strings.TrimRight(text.String(), "\n"), nil
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// short is a duration as one reads it: milliseconds below a second.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
