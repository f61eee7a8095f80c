package mutate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Package is the package that is edited, by its folder in the repository. Its
// own tests have to notice.
const Package = "plugin/zone"

// Edit is one way to break the package.
type Edit struct {
	File     string // in Package
	Old, New string // Old is there exactly once
	// Breaks says what an answer would look like, or what else would go wrong.
	Breaks string
}

// Apply returns the source with the edit.
func (e Edit) Apply(source string) (string, error) {
	if n := strings.Count(source, e.Old); n != 1 {
		return "", fmt.Errorf("%s holds %q %d times, want once: adapt the edit %q", e.File, e.Old, n, e.Breaks)
	}
	return strings.Replace(source, e.Old, e.New, 1), nil
}

// outcome is what became of an edit.
type outcome struct {
	edit   Edit
	caught []string // tests that noticed
	err    error    // the edit could not be tried
}

// Run tries the edits in a repository, workers at a time, and writes one line
// for each and a last one with the counts. The error says that an edit went
// unnoticed or could not be tried.
func Run(ctx context.Context, root string, edits []Edit, workers int, out io.Writer) error {
	if output, err := runTests(ctx, root); err != nil {
		return fmt.Errorf("the tests of %s fail without any edit: %w\n%s", Package, err, output)
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the edits in there are of no more use

	work, done := make(chan int), make(chan outcome)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range work {
				done <- edits[i].try(ctx, root, filepath.Join(dir, strconv.Itoa(i)))
			}
		})
	}
	go func() {
		for i := range edits {
			work <- i
		}
		close(work)
		wg.Wait()
		close(done)
	}()

	var unnoticed, failed int
	for o := range done {
		switch {
		case o.err != nil:
			failed++
			fmt.Fprintf(out, "ERROR    %s: %v\n", o.edit.Breaks, o.err)
		case len(o.caught) == 0:
			unnoticed++
			fmt.Fprintf(out, "SURVIVED %s: %s: %q for %q\n", o.edit.Breaks, o.edit.File, o.edit.New, o.edit.Old)
		default:
			fmt.Fprintf(out, "noticed  %s: %s\n", o.edit.Breaks, strings.Join(o.caught, " "))
		}
	}
	fmt.Fprintf(out, "%d noticed, %d survived, %d could not be tried\n", len(edits)-unnoticed-failed, unnoticed, failed)
	if unnoticed+failed > 0 {
		return errors.New("want every edit noticed: write the test that is missing, or mend the edit")
	}
	return nil
}

// try runs the tests with the edit, whose files it keeps in dir.
func (e Edit) try(ctx context.Context, root, dir string) outcome {
	o := outcome{edit: e}
	overlay, err := e.overlay(root, dir)
	if err != nil {
		o.err = err
		return o
	}
	output, err := runTests(ctx, root, "-overlay="+overlay)
	o.caught, o.err = verdict(output, err)
	return o
}

// overlay writes the edited file and the file for the flag -overlay.
func (e Edit) overlay(root, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, Package, e.File))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path) //nolint:gosec // a file of the table
	if err != nil {
		return "", err
	}
	edited, err := e.Apply(string(source))
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(dir, e.File), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {path: replacement}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(replacement, []byte(edited), 0o600), os.WriteFile(overlay, content, 0o600)) //nolint:gosec // in a folder of our own
}

// testTimeout ends an edit that makes the package run for ever: some hundred
// times what the tests take.
const testTimeout = 60 * time.Second

func runTests(ctx context.Context, root string, flags ...string) (string, error) {
	args := append([]string{"test", "-vet=off", "-failfast", "-timeout=" + testTimeout.String()}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+Package)...) //nolint:gosec // flags of our own
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	return string(output), err
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// verdict reads what the go command said: the tests that failed, none when all
// passed. A package that does not compile has not been tested.
func verdict(output string, err error) (caught []string, _ error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &exit):
		return nil, err
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return nil, fmt.Errorf("it does not compile:\n%s", output)
	}
	for _, match := range failedTest.FindAllStringSubmatch(output, -1) {
		caught = append(caught, match[1])
	}
	if len(caught) == 0 { // a panic or the time-out, which name no test in the same way
		caught = []string{"panic or time-out"}
	}
	return caught, nil
}
