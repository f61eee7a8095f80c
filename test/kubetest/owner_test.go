package kubetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNothingIsLeftOfAKilledRun(t *testing.T) {
	b := ForTest(t)
	owner, err := b.Run(t.Context(), "owner", []string{os.Args[0]}, helperEnv+"="+b.Root())
	if err != nil {
		t.Fatal(err)
	}
	line, err := owner.WaitLog(t.Context(), `"Pids"`)
	if err != nil {
		t.Fatal(err)
	}
	var report helperReport
	if err := json.Unmarshal([]byte(line), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Pids) != 3 {
		t.Fatalf("the run has processes %v, want 3: API server, controller manager and a child", report.Pids)
	}
	for _, pid := range report.Pids {
		if !processRuns(pid) {
			t.Fatalf("process %d of the run does not run before its owner is killed", pid)
		}
	}

	if err := owner.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range report.Pids {
		eventually(t, fmt.Sprintf("process %d has ended with its owner", pid), func() error {
			if processRuns(pid) {
				return errors.New("it runs")
			}
			return nil
		})
	}

	if _, err := os.Stat(report.Dir); err != nil {
		t.Fatalf("look at the dead run's folder before the next run: %v", err)
	}
	var log strings.Builder
	next, err := NewBed(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := os.Stat(report.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the next run left the folder of the dead one (%v); it said %q", err, log.String())
	}
	if _, err := os.Stat(b.Dir()); err != nil {
		t.Errorf("the next run touched the folder of a living one: %v", err)
	}
}

func TestOnlyFoldersOfDeadOwnersAreRemoved(t *testing.T) {
	pid := os.Getpid()
	started, err := startTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	const noSuchPid = 1 << 30 // above the kernel's limit
	for _, test := range []struct {
		name   string
		folder string
		locked bool
		gone   bool
	}{
		{"a living owner keeps its folder", fmt.Sprintf("%d-%d-x", pid, started), false, false},
		{"a process number that was given again does not keep it", fmt.Sprintf("%d-%d-x", pid, started-1), false, true},
		{"a dead owner does not keep it", fmt.Sprintf("%d-7-x", noSuchPid), false, true},
		{"an owner outside our process table keeps it by its lock", fmt.Sprintf("%d-8-x", noSuchPid), true, false},
		{"a run that is just being made is left alone", "new-123", false, false},
		{"a folder that is not of a run is left alone", "notes", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			runs := t.TempDir()
			dir := filepath.Join(runs, test.folder)
			if err := os.MkdirAll(filepath.Join(dir, "clusters"), 0o700); err != nil {
				t.Fatal(err)
			}
			if test.locked {
				lock, err := tryLock(filepath.Join(dir, ownerLock))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = lock.unlock() }()
			}
			sweep(runs, t.Output())
			_, err := os.Stat(dir)
			if gone := errors.Is(err, os.ErrNotExist); gone != test.gone {
				t.Errorf("folder %s gone: %v, want %v", test.folder, gone, test.gone)
			}
		})
	}
}

func TestStartTimeIsCountedFromTheLastParenthesis(t *testing.T) {
	const fields3to22 = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 "
	for _, command := range []string{"go", "a b", "a) R 1 (b", "))"} {
		got, err := parseStartTime("42 (" + command + ")" + fields3to22 + "0 0 0")
		if err != nil || got != 4711 {
			t.Errorf("start time of command %q is %d, %v; want 4711", command, got, err)
		}
	}
	for _, bad := range []string{"", "42 (go) S 1", "42 (go)" + strings.Replace(fields3to22, "4711", "x", 1)} {
		if got, err := parseStartTime(bad); err == nil {
			t.Errorf("start time of %q is %d, want an error", bad, got)
		}
	}
}

// processRuns reports whether a process is there and is more than an entry
// that waits for its parent to read it.
func processRuns(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// eventually fails the test unless f succeeds within half a minute.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 30 s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
