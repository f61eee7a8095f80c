package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link finds the target of a Markdown link, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)

func TestEveryFileTheDocumentsNameExists(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var top []string
	for _, entry := range entries {
		top = append(top, entry.Name())
	}
	links, paths := 0, 0
	for name, text := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			exists(t, name, filepath.Join(filepath.Dir(name), match[1]))
		}
		for _, match := range code.FindAllStringSubmatch(text, -1) {
			// A path begins with a file or folder of the top, and has no blank.
			// What make builds is not there yet.
			first, rest, below := strings.Cut(match[1], "/")
			if strings.ContainsAny(match[1], " <>*…") || first == "bin" || !slices.Contains(top, first) || below && rest == "" {
				continue
			}
			paths++
			exists(t, name, match[1])
		}
	}
	if links == 0 || paths == 0 {
		t.Errorf("found %d links and %d paths: this test no longer reads the documents", links, paths)
	}
}

func exists(t *testing.T, document, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s names %s, which does not exist", document, path)
	}
}
