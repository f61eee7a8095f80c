package kubetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tinyRepository is one whose control plane compiles in a second.
func tinyRepository(t *testing.T, source string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "test", "kube")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"go.mod": "module tiny\n\ngo 1.26\n", "go.sum": "", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheControlPlaneIsBuiltOnceAndForEachVersion(t *testing.T) {
	root := tinyRepository(t, "package main\n\nfunc main() { println(1) }\n")
	const runs = 3
	paths := make([]string, runs)
	errs := make([]error, runs)
	var text strings.Builder
	log := &syncWriter{w: &text}
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { paths[i], errs[i] = buildKube(t.Context(), root, log) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if paths[0] != paths[1] || paths[1] != paths[2] {
		t.Errorf("runs beside each other have %q, want the same", paths)
	}
	if n := strings.Count(text.String(), "building the test control plane (first time"); n != 1 {
		t.Errorf("it was built %d times, want once:\n%s", n, text.String())
	}
	if out, err := exec.CommandContext(t.Context(), paths[0]).CombinedOutput(); err != nil || string(out) != "1\n" {
		t.Errorf("it says %q, %v", out, err)
	}

	old := time.Now().Add(-72 * time.Hour)
	if err := os.Chtimes(paths[0], old, old); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(root, "test", "kube", "main.go")
	if err := os.WriteFile(changed, []byte("package main\n\nfunc main() { println(2) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := buildKube(t.Context(), root, log)
	if err != nil {
		t.Fatal(err)
	}
	if next == paths[0] {
		t.Error("a changed source gives the same binary")
	}
	if _, err := os.Stat(paths[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a version that nobody has used for days is kept: %v", err)
	}
}

func TestABuildThatFailsSaysWhy(t *testing.T) {
	root := tinyRepository(t, "package main\n\nfunc main() { nonsense() }\n")
	if path, err := buildKube(t.Context(), root, t.Output()); err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("%q, %v; want the compiler's words", path, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if path, err := buildKube(ended, root, t.Output()); err == nil {
		t.Errorf("%q after the end, want an error", path)
	}
}

func TestBuildGivesEachRunAProgramOfItsOwn(t *testing.T) {
	b := ForTest(t)
	// The smallest main package that is there in any case.
	first, err := b.Build(t.Context(), "./cmd/syncd")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.Build(t.Context(), "./cmd/syncd"); err != nil || again != first {
		t.Errorf("built again: %q, %v; want %q", again, err, first)
	}
	if !strings.HasPrefix(first, b.Dir()) {
		t.Errorf("the program is %s, want it in %s", first, b.Dir())
	}
	p, err := b.Run(t.Context(), "syncd", []string{first, "-version"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Wait(); p.ExitCode() != 0 {
		t.Errorf("it ends with %d:\n%s", p.ExitCode(), p.Log())
	}
	if path, err := b.Build(t.Context(), "./cmd/nothing"); err == nil {
		t.Errorf("a package that is not there was built: %q", path)
	}
}
