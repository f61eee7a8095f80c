package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logText finds code spans that are parts of log lines: several words.
var logText = regexp.MustCompile("`([A-Za-z]+(?: [A-Za-z]+)+)`")

// metric finds names of our metrics.
var metric = regexp.MustCompile("`(?:coredns_k8s_mcs|mcs_syncd)_([a-z_]+)`")

func TestFailureModesNamesReasonsThatAreWritten(t *testing.T) {
	text := read(t, "docs", "failure-modes.md")
	for heading, folders := range map[string][]string{
		"syncd cannot read a cluster":               {filepath.Join("syncd", "peer"), filepath.Join("internal", "watch")},
		"A Service is exported and does not arrive": {filepath.Join("syncd", "model")},
	} {
		var listed []string
		for _, row := range table(text, heading) {
			if reason, ok := strings.CutPrefix(row[0], "`"); ok {
				listed = append(listed, strings.TrimSuffix(reason, "`"))
			}
		}
		var written []string
		for _, folder := range folders {
			written = append(written, reasons(t, folder)...)
		}
		difference(t, "docs/failure-modes.md, "+heading, listed, written)
	}
}

// reasons are the values of the constants of a package that are called ReasonX
// or are of a type Reason.
func reasons(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	for _, path := range goFiles(t, folder) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if typ, ok := spec.Type.(*ast.Ident); !strings.HasPrefix(spec.Names[0].Name, "Reason") && (!ok || typ.Name != "Reason") {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				reason, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, reason)
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("%s has no constant for a reason", folder)
	}
	return found
}

// TestFailureModesQuotesTheLog keeps the texts that an operator searches for
// those that the programs write.
func TestFailureModesQuotesTheLog(t *testing.T) {
	var source strings.Builder
	for _, folder := range []string{"cmd", "internal", "plugin", "syncd"} {
		for _, path := range goFiles(t, folder) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(content)
		}
	}
	text := read(t, "docs", "failure-modes.md")
	texts := logText.FindAllStringSubmatch(text, -1)
	for _, match := range texts {
		if !strings.Contains(source.String(), match[1]) && !slices.Contains(composed, match[1]) {
			t.Errorf("docs/failure-modes.md quotes %q, which no program writes", match[1])
		}
	}
	metrics := metric.FindAllStringSubmatch(text, -1)
	for _, match := range metrics {
		if !strings.Contains(source.String(), `"`+match[1]+`"`) && !strings.Contains(source.String(), `"mcs_syncd_`+match[1]+`"`) {
			t.Errorf("docs/failure-modes.md names a metric %q, which no program has", match[0])
		}
	}
	if len(texts) == 0 || len(metrics) == 0 {
		t.Error("found no log line or no metric: this test no longer reads the document")
	}
}

// TestFailureModesKnowsEveryTrouble finds the lines with which the programs report
// trouble, and wants a part of each in the document.
func TestFailureModesKnowsEveryTrouble(t *testing.T) {
	var known []string // code spans of several words
	for line := range strings.Lines(read(t, "docs", "failure-modes.md")) {
		for i, text := range strings.Split(line, "`") {
			if i%2 == 1 && strings.Contains(text, " ") {
				known = append(known, text)
			}
		}
	}
	found := 0
	for _, folder := range []string{"cmd", "internal", "plugin", "syncd"} {
		for _, path := range goFiles(t, folder) {
			for _, line := range troubles(t, path) {
				found++
				if !slices.Contains(filledIn, line) && !slices.ContainsFunc(known, func(text string) bool { return strings.Contains(line, text) }) {
					t.Errorf("%s logs %q, which docs/failure-modes.md does not name", path, line)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d lines only: this test no longer reads the programs", found)
	}
}

// troubles are the texts that a file logs as warnings and errors.
func troubles(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Warn", "Warning", "Warningf", "Error", "Errorf"}, method.Sel.Name) || !isLog(method.X) {
			return true
		}
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			line, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, line)
		}
		return true
	})
	return texts
}

// isLog reports a logger by its name: log, or something's log or Log.
func isLog(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "Log"
	}
	return false
}

// composed are log texts whose second word is filled in, and filledIn the lines
// that are filled in whole: with those, or with what is wrong with an object.
var (
	composed = []string{"Cannot list", "Cannot watch"}
	filledIn = []string{
		"Cannot %v%s: %s; trying again until it works",
		"%s", "%s (%d other warnings about objects were not written)",
	}
)

// goFiles are the Go files below a folder, without tests.
func goFiles(t *testing.T, folder string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
