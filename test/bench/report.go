package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/k8s-mcs/k8s-mcs/test/bench/verdict"
)

func writeJSON(file string, rows []verdict.Row) error {
	text, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return fmt.Errorf("encode rows: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil { //nolint:gosec // the file that -out names
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// machine says what the figures are of.
func machine() string {
	model := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo") // it is a caption
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d processors, %s, %s", runtime.NumCPU(), model, runtime.Version())
}

func printTable(out io.Writer, rows []verdict.Row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "row\tours\tagainst\tunit\tratio\tgoal\tstretch\tspread\t\t")
	for i := range rows {
		r := &rows[i]
		mark := "ok"
		switch {
		case r.Void != "":
			mark = "VOID"
		case !r.OK:
			mark = "over the goal"
		case r.Ratio <= r.Stretch:
			mark = "ok, stretch"
		}
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%s\t%.3f\t%.3g\t%.3g\t%.2f\t%s\t\n",
			r.Name, r.Ours, r.Stock, r.Unit, r.Ratio, r.Goal, r.Stretch, r.Spread, mark)
	}
	_ = w.Flush() // to a terminal
}
