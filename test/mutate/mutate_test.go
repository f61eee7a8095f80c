package mutate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryEditStillFitsTheSource(t *testing.T) {
	const least = 40
	if len(Edits) < least {
		t.Errorf("%d edits, want at least %d", len(Edits), least)
	}
	seen := map[Edit]bool{}
	for _, e := range Edits {
		source, err := os.ReadFile(filepath.Join("..", "..", Package, e.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := e.Apply(string(source)); err != nil {
			t.Error(err)
		}
		if e.Old == e.New || e.Breaks == "" {
			t.Errorf("%s: %q changes nothing, or does not say what it breaks", e.File, e.Old)
		}
		e.Breaks = ""
		if seen[e] {
			t.Errorf("%s: the edit of %q is there twice", e.File, e.Old)
		}
		seen[e] = true
	}
}

// repository is a module whose package adds, with or without a test.
func repository(t *testing.T, test string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, Package), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod":                              "module example.com/m\n\ngo 1.24\n",
		filepath.Join(Package, "add.go"):      "package zone\n\nfunc add(a, b int) int { return a + b }\n",
		filepath.Join(Package, "add_test.go"): "package zone\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { " + test + " }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	t.Parallel()
	edit := func(o, n string) []Edit { return []Edit{{"add.go", o, n, "sums are wrong"}} }
	const good = `if add(1, 2) != 3 { t.Error("wrong") }`
	for name, c := range map[string]struct {
		test  string
		edits []Edit
		want  string // part of what is written, or of the error
		ok    bool
	}{
		"an edit that a test notices":      {good, edit("a + b", "a - b"), "noticed  sums are wrong: TestAdd\n1 noticed, 0 survived, 0 could not be tried\n", true},
		"one that ends in a panic":         {good, edit("return a + b", "panic(a)"), "1 noticed", true},
		"one that no test notices":         {`add(1, 2)`, edit("a + b", "a - b"), `SURVIVED sums are wrong: add.go: "a - b" for "a + b"`, false},
		"one whose text is gone":           {good, edit("a * b", "a - b"), `holds "a * b" 0 times`, false},
		"one whose text is there twice":    {good, edit("a", "b"), `holds "a" `, false},
		"one that does not compile":        {good, edit("a + b", "c"), "it does not compile", false},
		"tests that fail without any edit": {`t.Error("always")`, edit("a + b", "a - b"), "fail without any edit", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := Run(t.Context(), repository(t, c.test), c.edits, 1, &out)
			if err != nil {
				out.WriteString(err.Error())
			}
			if (err == nil) != c.ok || !strings.Contains(out.String(), c.want) {
				t.Errorf("error %v, output\n%s\nwant %q", err, out.String(), c.want)
			}
		})
	}
}

func TestAFailureOfTheGoCommandIsNoVerdict(t *testing.T) {
	if caught, err := verdict("", exec.ErrNotFound); !errors.Is(err, exec.ErrNotFound) || len(caught) > 0 {
		t.Errorf("verdict %q, %v", caught, err)
	}
}
