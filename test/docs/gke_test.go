package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGKENamesWhatShowsEachRow holds docs/gke.md to the chapters of the demo and
// to the tests: each row names one that exists, and no chapter is left out.
func TestGKENamesWhatShowsEachRow(t *testing.T) {
	text := read(t, "docs", "gke.md")
	chapters, tests := chaptersOfTheDemo(t), testsOfTheRepository(t)
	rows := table(text, "What is the same")
	if len(rows) == 0 {
		t.Fatal("docs/gke.md has no table of what is the same")
	}
	var named []string
	for _, row := range rows {
		for by := range strings.SplitSeq(row[len(row)-1], "; ") {
			switch chapter, demo := strings.CutPrefix(by, "demo: "); {
			case demo:
				named = append(named, chapter)
				if !slices.Contains(chapters, chapter) {
					t.Errorf("docs/gke.md names a chapter %q, which the demo does not have", chapter)
				}
			case strings.HasPrefix(by, "`Test"), link.MatchString(by): // looked at elsewhere
			default:
				t.Errorf("docs/gke.md: the row %q is shown by %q: want a chapter of the demo, a test or a file", row[0], by)
			}
		}
	}
	for _, match := range regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(tests, match[1]) {
			t.Errorf("docs/gke.md names %q, which is no test", match[1])
		}
	}
	for _, chapter := range chapters {
		if !slices.Contains(named, chapter) && !strings.Contains(text, `"`+chapter+`"`) {
			t.Errorf("docs/gke.md does not name the chapter %q of the demo", chapter)
		}
	}
}

// chaptersOfTheDemo are the titles that the demo prints.
func chaptersOfTheDemo(t *testing.T) []string {
	t.Helper()
	var titles []string
	chapter := regexp.MustCompile(`(?m)^\t\{"([^"]+)", \(\*story\)\.`)
	for _, match := range chapter.FindAllStringSubmatch(read(t, "test", "demo", "story.go"), -1) {
		titles = append(titles, match[1])
	}
	if len(titles) == 0 {
		t.Fatal("test/demo/story.go has no chapters: this test no longer reads it")
	}
	return titles
}

// testsOfTheRepository are the names of tests, and of subtests as TestX/name.
func testsOfTheRepository(t *testing.T) []string {
	t.Helper()
	var names []string
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)|^\tt\.Run\("([^"]+)"`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		parent := ""
		for _, match := range test.FindAllStringSubmatch(read(t, name), -1) {
			if match[1] != "" {
				parent = match[1]
				names = append(names, parent)
			} else {
				names = append(names, parent+"/"+match[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
