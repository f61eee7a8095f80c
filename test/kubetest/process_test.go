package kubetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	b := ForTest(t)
	run := func(t *testing.T, script string, env ...string) *Process {
		t.Helper()
		p, err := b.Run(t.Context(), "script", []string{"sh", "-c", script}, env...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("both outputs and the exit code are kept", func(t *testing.T) {
		p := run(t, `echo "$WORD"; echo err >&2; exit 3`, "WORD=out")
		p.Wait()
		if p.ExitCode() != 3 || p.Log() != "out\nerr\n" {
			t.Errorf("exit code %d, log %q; want 3, both lines", p.ExitCode(), p.Log())
		}
	})
	t.Run("a line is found before and after it is printed", func(t *testing.T) {
		p := run(t, `echo first; read -r _; echo never`)
		for range 2 {
			if line, err := p.WaitLog(t.Context(), "irs"); err != nil || line != "first" {
				t.Errorf("line %q, %v; want first", line, err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if line, err := p.WaitLog(short, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("line %q, %v; want that the time runs out", line, err)
		}
		if code := p.ExitCode(); code != -1 {
			t.Errorf("exit code %d of a process that runs, want -1", code)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if line, err := p.WaitLog(t.Context(), "never"); err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("line %q, %v; want how the process ended", line, err)
		}
	})
	t.Run("a last line without an end counts", func(t *testing.T) {
		if line, err := run(t, `printf last`).WaitLog(t.Context(), "last"); err != nil || line != "last" {
			t.Errorf("line %q, %v; want last", line, err)
		}
	})
	t.Run("stopping is polite and waits no longer than asked", func(t *testing.T) {
		p := run(t, `trap 'exit 7' TERM; echo ready; read -r _`)
		if _, err := p.WaitLog(t.Context(), "ready"); err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(t.Context()); err != nil || p.ExitCode() != 7 {
			t.Errorf("stop: %v, exit code %d; want 7", err, p.ExitCode())
		}
		if err := errors.Join(p.Stop(t.Context()), p.Kill()); err != nil {
			t.Errorf("stop and kill what has ended: %v", err)
		}
		deaf := run(t, `trap '' TERM; echo ready; read -r _`)
		if _, err := deaf.WaitLog(t.Context(), "ready"); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := deaf.Stop(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop what is deaf: %v, want that the time runs out", err)
		}
	})
	t.Run("killing takes the children of a child along", func(t *testing.T) {
		p := run(t, `sleep 1000 & echo $!; wait`)
		line, err := p.WaitLog(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(line)
		if err != nil || !processRuns(pid) {
			t.Fatalf("child %q does not run: %v", line, err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the child's child has ended", func() error {
			if processRuns(pid) {
				return errors.New("it runs")
			}
			return nil
		})
	})
	t.Run("a program that is not there is an error", func(t *testing.T) {
		if _, err := b.Run(t.Context(), "nothing", []string{"/no/such/program"}); err == nil {
			t.Error("it started")
		}
	})
}

func TestUsablePortsLieOutsideTheKernelsRange(t *testing.T) {
	for _, test := range []struct {
		name, local string
		want        portRange
	}{
		{"the usual range leaves those below", "32768\t60999\n", portRange{20000, 32767}},
		{"a low range leaves those above", "10000 30000", portRange{30001, 65535}},
		{"a range that takes all is not heeded", "1024 65535", portRange{20000, 31999}},
		{"a range that is not understood is not heeded", "none", portRange{20000, 31999}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := usablePorts(test.local); got != test.want {
				t.Errorf("ports %v, want %v", got, test.want)
			}
		})
	}
}

func TestAuditLogIsOneEventPerRequest(t *testing.T) {
	const log = `{"kind":"Event","auditID":"1","stage":"ResponseStarted","verb":"watch","user":{"username":"u"},"objectRef":{"resource":"services"},"responseStatus":{"code":200}}
{"kind":"Event","auditID":"2","verb":"update","user":{"username":"w"},"objectRef":{"resource":"services","namespace":"n","name":"s","subresource":"status"},"responseStatus":{"code":409}}
{"kind":"Event","auditID":"1","stage":"ResponseComplete","verb":"watch","user":{"username":"u"},"objectRef":{"resource":"services"},"responseStatus":{"code":504}}
{"kind":"Event","auditID":"3","verb":"ge{"kind":"Event","auditID":"4","verb":"get","user":{"username":"after"},"responseStatus":{"code":200}}
{"kind":"Event","auditID":"5","verb":`
	events, err := parseAudit([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	want := []AuditEvent{
		{User: "u", Verb: "watch", Resource: "services", Code: 504},
		{User: "w", Verb: "update", Resource: "services", Subresource: "status", Namespace: "n", Name: "s", Code: 409},
		{User: "after", Verb: "get", Code: 200},
	}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(events), len(want), events)
	}
	for i := range want {
		if events[i] != want[i] {
			t.Errorf("event %d is %+v, want %+v", i, events[i], want[i])
		}
	}
	if events[0].Writes() || !events[1].Writes() {
		t.Error("a watch writes, or an update does not")
	}
	if _, err := parseAudit([]byte("rubbish\n")); err == nil {
		t.Error("a log that is none was read")
	}
}
