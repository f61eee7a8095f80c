// Package docs_test holds the documents to what they speak of: files, make
// targets, words, modules and stages.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// read returns a file of the repository.
func read(t *testing.T, elem ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{root}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// documents are all Markdown files of the repository, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			docs[name] = read(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if docs["README.md"] == "" {
		t.Fatal("there is no README.md")
	}
	return docs
}

// table returns the rows of the Markdown tables under a heading, cell by cell,
// without their head. An empty heading stands for the whole text.
func table(text, heading string) [][]string {
	in := heading == ""
	var rows [][]string
	head := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if heading != "" && strings.HasPrefix(line, "#") {
			in = strings.Trim(line, "# ") == heading
		}
		if !strings.HasPrefix(line, "|") {
			head = true
			continue
		}
		if strings.HasPrefix(line, "|---") {
			head = false
			continue
		}
		if in && !head {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

var code = regexp.MustCompile("`([^`]+)`")

// difference reports what is in one list only, or twice in the document.
func difference(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i, s := range got {
		if slices.Contains(got[:i], s) {
			t.Errorf("%s: %s is in the document twice", what, s)
		}
		if !slices.Contains(want, s) {
			t.Errorf("%s: %s is in the document only", what, s)
		}
	}
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("%s: %s is missing in the document", what, s)
		}
	}
}
