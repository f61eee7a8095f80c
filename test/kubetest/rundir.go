package kubetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// homeDir is this user's folder for runs and reserved ports. It is below the
// folder for temporary files, and refused if it belongs to somebody else.
func homeDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "k8s-mcs-kubetest-"+strconv.Itoa(os.Getuid()))
	for _, d := range []string{dir, filepath.Join(dir, "runs"), filepath.Join(dir, "ports")} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make folder for test runs: %w", err)
		}
		// Only the owner may change a mode, and a link is no folder.
		info, err := os.Lstat(d)
		if err != nil {
			return "", fmt.Errorf("look at folder for test runs: %w", err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("folder for test runs: %s is not a folder; remove it", d)
		}
		if err := os.Chmod(d, 0o700); err != nil { //nolint:gosec // a folder needs its x bit
			return "", fmt.Errorf("folder for test runs belongs to another user; set TMPDIR: %w", err)
		}
	}
	return dir, nil
}

// ownerLock is the file in a run's folder that its owner keeps locked. It
// tells a living owner from a dead one where the process table does not, as
// between containers that share the folder.
const ownerLock = "owner.lock"

// makeRunDir makes a folder whose name says who owns it:
// "<pid>-<start time>-<random>", and locks it.
func makeRunDir(runs string) (dir string, owner *fileLock, err error) {
	pid := os.Getpid()
	started, err := startTime(pid)
	if err != nil {
		return "", nil, err
	}
	// Under a name that sweep does not read until the lock is held.
	unnamed, err := os.MkdirTemp(runs, "new-")
	if err != nil {
		return "", nil, fmt.Errorf("make folder of the run: %w", err)
	}
	owner, err = tryLock(filepath.Join(unnamed, ownerLock))
	if err != nil {
		return "", nil, fmt.Errorf("lock folder of the run: %w", err)
	}
	random := strings.TrimPrefix(filepath.Base(unnamed), "new-")
	dir = filepath.Join(runs, fmt.Sprintf("%d-%d-%s", pid, started, random))
	if err := os.Rename(unnamed, dir); err != nil {
		return "", nil, errors.Join(fmt.Errorf("name folder of the run: %w", err), owner.unlock())
	}
	return dir, owner, nil
}

// sweep removes the folders of runs whose owner is dead. It says on log what
// it did and what it could not do, and is never in the way of a new run.
func sweep(runs string, log io.Writer) {
	entries, err := os.ReadDir(runs)
	if err != nil {
		_, _ = fmt.Fprintf(log, "look for folders of dead test runs: %v\n", err)
		return
	}
	for _, entry := range entries {
		dir := filepath.Join(runs, entry.Name())
		if !ownerDead(dir) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			_, _ = fmt.Fprintf(log, "remove folder of a dead test run: %v\n", err)
			continue
		}
		_, _ = fmt.Fprintf(log, "removed the folder of a dead test run: %s\n", entry.Name())
	}
}

// ownerDead reports whether the owner of a run's folder is gone for certain.
// A process number that was given again is told by its start time.
func ownerDead(dir string) bool {
	name := filepath.Base(dir)
	if strings.HasPrefix(name, "new-") {
		// Named within a moment of being made, unless its owner died in it.
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) > time.Hour
	}
	parts := strings.SplitN(name, "-", 3)
	if len(parts) != 3 {
		return false // not ours to remove
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	started, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return false
	}
	if now, err := startTime(pid); err == nil && now == started {
		return false
	}
	lock, err := tryLock(filepath.Join(dir, ownerLock))
	if err != nil {
		return false
	}
	return lock.unlock() == nil
}

// startTime is when a process started, in clock ticks since the machine did:
// field 22 of /proc/PID/stat. With the pid it names one process for ever.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return parseStartTime(string(stat))
}

// parseStartTime reads field 22 of a stat line. Field 2 is the command in
// parentheses and may hold spaces and parentheses itself, so fields are
// counted from the last one that closes.
func parseStartTime(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:]) // from field 3 on
	if end < 0 || len(fields) < 20 {
		return 0, fmt.Errorf("read start time: %q is not a line of /proc/PID/stat", stat)
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read start time: field 22: %w", err)
	}
	return ticks, nil
}
