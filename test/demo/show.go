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
)

// screen is what the demo says. Steps carry the seconds since the start.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
	block bool // the last thing said is a block
}

func newScreen(out io.Writer) *screen { return &screen{out: out, begin: time.Now()} }

// step says what goes on.
func (s *screen) step(format string, args ...any) {
	s.print(fmt.Sprintf("%6.1fs  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...)))
}

// line says anything else.
func (s *screen) line(format string, args ...any) { s.print(fmt.Sprintf(format, args...) + "\n") }

// chapter is a heading with a number.
func (s *screen) chapter(number int, text string) {
	s.print(fmt.Sprintf("\n=== %d. %s\n", number, text))
}

// took says how long something took, and where it then was.
func (s *screen) took(what string, d time.Duration, where string) {
	s.print(strings.TrimRight(fmt.Sprintf("  %-66s %7s  %s", what, short(d), where), " ") + "\n")
}

func (s *screen) title(text string) { s.print("\n" + text + "\n") }

// Write takes the lines of the test bed as steps.
func (s *screen) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		s.step("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

func (s *screen) print(text string) { s.write(text, false) }

// printBlock says lines with an empty one before and after.
func (s *screen) printBlock(text string) { s.write(text, true) }

func (s *screen) write(text string, block bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.block || block) && !strings.HasPrefix(text, "\n") {
		text = "\n" + text
	}
	s.block = block
	_, _ = io.WriteString(s.out, text) // a screen that is gone is no reason to stop
}

// view is a table of tokyo2 that kubectl prints.
type view struct{ command, path, selector, field string }

// viewOnly is a view of one object of a list.
func viewOnly(v view, name string) view {
	v.field = "metadata.name=" + name
	v.command += " --field-selector " + v.field
	return v
}

// views prints tables of tokyo2.
func (w *world) views(ctx context.Context, list ...view) error {
	for _, v := range list {
		table, err := w.table(ctx, v)
		if err != nil {
			return err
		}
		w.screen.printBlock(fmt.Sprintf("  $ %s\n%s\n", v.command, indent(table)))
	}
	return nil
}

// answer prints an answer's records as they are.
func (s *screen) answer(command, remark string, reply answer) {
	var text strings.Builder
	fmt.Fprintf(&text, "  $ %s\n", command)
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
	s.printBlock(text.String())
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
	others := 0
	for _, one := range list {
		if _, known := mayWrite[one.user]; !known {
			others++
		}
		wrote := strings.Join(one.wrote, ", ")
		switch one.user {
		case "system:apiserver":
			wrote = "its own bookkeeping"
		case "kube-controller-manager":
			wrote = "service accounts, certificates, and the end of the namespace"
		}
		s.line("  %s (%s): %s", one.who, one.user, wrote)
	}
	if others == 0 {
		s.line("  nobody else")
	}
}

// table asks the API server for the columns that kubectl prints.
func (w *world) table(ctx context.Context, v view) (string, error) {
	path := v.path
	request := w.client.Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if v.selector != "" {
		request.Param("labelSelector", v.selector)
	}
	if v.field != "" {
		request.Param("fieldSelector", v.field)
	}
	content, err := request.DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	var table metav1.Table
	if err := json.Unmarshal(content, &table); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if len(table.Rows) == 0 {
		return "No resources found in test namespace.", nil
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
		row(func(i int) any {
			if r.Cells[i] == nil {
				return "" // as kubectl has it
			}
			return r.Cells[i]
		})
	}
	if err := tab.Flush(); err != nil {
		return "", fmt.Errorf("print %s: %w", path, err)
	}
	return strings.TrimRight(text.String(), "\n"), nil
}

func trimmed(document string) string {
	return strings.TrimSpace(strings.TrimPrefix(document, "---"))
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
