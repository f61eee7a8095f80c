package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// The flags of every build in here. They are the same everywhere, because
// packages built with others are built again: nearly all of Kubernetes.
var buildFlags = []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}

// buildEnv is set for every build. Without cgo the binaries depend on nothing
// of the machine, and no C compiler is asked for.
var buildEnv = []string{"CGO_ENABLED=0", "GOWORK=off"}

const modulePath = "github.com/k8s-mcs/k8s-mcs"

// findRoot is the folder of the root module, looked for from the working
// folder upwards.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // a path of our own
		if err == nil {
			if first, _, _ := strings.Cut(string(mod), "\n"); first == "module "+modulePath {
				return dir, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no go.mod of %s in %s or above; start in a clone of it", modulePath, start)
		}
	}
}

// buildKube returns the control-plane binary, bin/kube-<hash of all that it is
// made of>. Runs beside each other build it once.
func buildKube(ctx context.Context, root string, log io.Writer) (string, error) {
	source := filepath.Join(root, "test", "kube")
	hash, err := hashKube(ctx, source)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	target := filepath.Join(bin, "kube-"+hash)
	if used(target) {
		return target, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil { //nolint:gosec // as the go command makes it
		return "", fmt.Errorf("make folder for binaries: %w", err)
	}
	lock, err := waitLock(ctx, filepath.Join(bin, ".kube.lock"), func() {
		_, _ = fmt.Fprintln(log, "waiting for another run that builds the test control plane…")
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.unlock() }()
	if used(target) {
		return target, nil
	}
	begin := time.Now()
	_, _ = fmt.Fprintln(log, "building the test control plane (first time: several minutes)…")
	stop := repeat(15*time.Second, func() {
		_, _ = fmt.Fprintf(log, "still building the test control plane (%.0f s)…\n", time.Since(begin).Seconds())
	})
	unfinished := target + ".unfinished"
	err = goBuild(ctx, source, ".", unfinished, buildFlags, buildEnv)
	stop()
	if err != nil {
		return "", err
	}
	if err := os.Rename(unfinished, target); err != nil {
		return "", fmt.Errorf("name the test control plane: %w", err)
	}
	_, _ = fmt.Fprintf(log, "built the test control plane in %.0f s\n", time.Since(begin).Seconds())
	removeUnused(bin, target)
	return target, nil
}

// hashKube covers the sources, the versions and sums of all modules, the Go
// version and the platform.
func hashKube(ctx context.Context, source string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", fmt.Errorf("list sources of the test control plane: %w", err)
	}
	slices.Sort(files)
	files = append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	version.Dir = source
	out, err := version.Output()
	if err != nil {
		return "", fmt.Errorf("ask the go command for its version: %w", err)
	}
	sum := sha256.New()
	sum.Write(out)
	_, _ = fmt.Fprintln(sum, buildFlags, buildEnv)
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // a path of our own
		if err != nil {
			return "", fmt.Errorf("read sources of the test control plane: %w", err)
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// used reports whether the binary is there, and marks it as used today.
func used(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// removeUnused removes control planes of other versions that no run has used
// for two days. Each is more than 100 MB.
func removeUnused(bin, keep string) {
	others, err := filepath.Glob(filepath.Join(bin, "kube-*"))
	if err != nil {
		return
	}
	for _, other := range others {
		info, err := os.Stat(other)
		if err == nil && other != keep && time.Since(info.ModTime()) > 48*time.Hour {
			_ = os.Remove(other) // at worst it stays
		}
	}
}

// build is one main package, built at most once per Bed.
type build struct {
	once sync.Once
	path string
	err  error
}

// Build builds a main package of the root module, such as "./cmd/syncd", and
// returns the path of the binary. It is built once per Bed; runs beside each
// other wait for each other, and each has a copy of its own.
func (b *Bed) Build(ctx context.Context, pkg string) (path string, err error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return "", fmt.Errorf("build %s: %w", pkg, errClosed)
	}
	one := b.builds[pkg]
	if one == nil {
		one = &build{}
		b.builds[pkg] = one
	}
	b.mu.Unlock()
	one.once.Do(func() { one.path, one.err = b.buildPackage(ctx, pkg) })
	return one.path, one.err
}

func (b *Bed) buildPackage(ctx context.Context, pkg string) (string, error) {
	if err := touchSources(b.root); err != nil {
		return "", err
	}
	name, flags, env := filepath.Base(pkg), buildFlags, buildEnv
	if RaceDetector {
		name = "race-" + name
		flags, env = append(slices.Clone(flags), "-race"), append(slices.Clone(env), "CGO_ENABLED=1")
	}
	// The go command does not link again what is in place and up to date.
	shared := filepath.Join(b.root, "bin", "test", name)
	if err := os.MkdirAll(filepath.Dir(shared), 0o755); err != nil { //nolint:gosec // as the go command makes it
		return "", fmt.Errorf("make folder for binaries: %w", err)
	}
	lock, err := waitLock(ctx, filepath.Join(filepath.Dir(shared), "."+name+".lock"), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.unlock() }()
	begin := time.Now()
	stop := repeat(15*time.Second, func() {
		_, _ = fmt.Fprintf(b.log, "still building %s (%.0f s)…\n", pkg, time.Since(begin).Seconds())
	})
	err = goBuild(ctx, b.root, pkg, shared, flags, env)
	stop()
	if err != nil {
		return "", err
	}
	own := filepath.Join(b.dir, "bin", name)
	if err := copyProgram(shared, own); err != nil {
		return "", err
	}
	return own, nil
}

// touchSources looks at every file that a build may read. The go command
// remembers what a test looked at, and so does not take the old result of a
// test for granted whose program has changed.
func touchSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("look at sources: %w", err)
		}
		if entry.IsDir() && (path == filepath.Join(root, "bin") || path == filepath.Join(root, ".git")) {
			return filepath.SkipDir
		}
		return nil
	})
}

func copyProgram(from, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	in, err := os.Open(from) //nolint:gosec // a path of our own
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700) //nolint:gosec // a program needs its x bit
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(fmt.Errorf("copy program: %w", err), out.Close())
	}
	return out.Close()
}

// goBuild runs the go command in dir. It is killed with us: a build that went
// on would hold nothing up, but it would be somebody else's processor time.
func goBuild(ctx context.Context, dir, pkg, output string, flags, env []string) error {
	args := append([]string{"build"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", output, pkg)...) //nolint:gosec // our own arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("build %s in %s with %s: %w\n%s", pkg, dir, runtime.Version(), err, tail(string(out), 40))
	}
	return nil
}

// repeat calls f every period until the returned function is called.
func repeat(period time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}
