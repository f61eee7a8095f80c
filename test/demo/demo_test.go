package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// runEnv makes the test binary the demo itself.
const runEnv = "DEMO_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// demo is a run of the demo as a process of its own, with a folder of its own
// for temporary files.
type demo struct {
	cmd    *exec.Cmd
	tmp    string
	output bytes.Buffer
	lines  chan string
	done   chan struct{}
}

// prebuilt says that the programs were built, which then costs a demo nothing.
var prebuilt bool

func startDemo(t *testing.T, args []string, env ...string) *demo {
	t.Helper()
	if !prebuilt {
		bed := kubetest.ForTest(t)
		for _, pkg := range []string{"./cmd/syncd", "./cmd/mcs-core-dns"} {
			// This is also how the go command learns what the result depends on.
			if _, err := bed.Build(t.Context(), pkg); err != nil {
				t.Fatal(err)
			}
		}
		prebuilt = true
	}
	d := &demo{tmp: t.TempDir(), lines: make(chan string, 4096), done: make(chan struct{})}
	d.cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	d.cmd.Env = append(os.Environ(), runEnv+"=1", "TMPDIR="+d.tmp)
	d.cmd.Env = append(d.cmd.Env, env...)
	reader, writer := io.Pipe()
	d.cmd.Stdout, d.cmd.Stderr = io.MultiWriter(&d.output, writer), os.Stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go splitLines(reader, d.lines)
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // how it ended is in ProcessState
		_ = writer.Close()
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.done
		if t.Failed() {
			t.Logf("the demo said:\n%s", d.output.String())
		}
	})
	return d
}

// splitLines sends each line, and closes the channel at the end.
func splitLines(reader io.Reader, lines chan<- string) {
	defer close(lines)
	content := make([]byte, 0, 4096)
	chunk := make([]byte, 4096)
	for {
		n, err := reader.Read(chunk)
		content = append(content, chunk[:n]...)
		for {
			line, rest, whole := bytes.Cut(content, []byte("\n"))
			if !whole {
				break
			}
			lines <- string(line)
			content = rest
		}
		if err != nil {
			return
		}
	}
}

// wait returns when the demo has ended, and checks that nothing is left of it.
func (d *demo) wait(t *testing.T) (code int, output string) {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(5 * time.Minute):
		t.Fatal("the demo did not end")
	}
	runs, err := filepath.Glob(filepath.Join(d.tmp, "*", "runs", "*"))
	if err != nil || len(runs) > 0 {
		t.Errorf("the demo left %v (%v)", runs, err)
	}
	if left := commandsWith(t, d.tmp); len(left) > 0 {
		t.Errorf("the demo left processes: %q", left)
	}
	return d.cmd.ProcessState.ExitCode(), d.output.String()
}

// commandsWith are the command lines of all processes that name a folder.
func commandsWith(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.ReplaceAll(string(content), "\x00", " "); strings.Contains(line, folder) {
			list = append(list, line)
		}
	}
	return list
}

// The demo as a person runs it: it stays, dig gets the answers that were
// printed, and Ctrl-C leaves nothing.
func TestDemoStaysAndDigAgrees(t *testing.T) {
	d := startDemo(t, nil, "DEMO_EXIT=")
	var before []string
	for line := range d.lines {
		if strings.HasPrefix(line, "Ctrl-C") {
			break
		}
		before = append(before, line)
	}
	if t.Failed() || len(before) == 0 {
		t.Fatal("the demo said nothing")
	}
	// What was asked before is no longer so: names came and went.
	last := slices.Index(before, "What mcs-core-dns answers now")
	if last < 0 {
		t.Fatal("the demo did not say what is answered now")
	}
	digs := 0
	for i, line := range before[last:] {
		command, ok := strings.CutPrefix(line, "  $ dig ")
		if !ok {
			continue
		}
		digs++
		for _, extra := range [][]string{nil, {"+tcp"}} {
			args := append(append(strings.Fields(command), "+noall", "+comments", "+answer"), extra...)
			out, err := exec.CommandContext(t.Context(), "dig", args...).CombinedOutput()
			if err != nil {
				t.Errorf("dig %v: %v\n%s", args, err, out)
				continue
			}
			compareDig(t, command, string(out), before[last+i+1:])
		}
	}
	if digs < len(questions) {
		t.Errorf("the demo printed %d lines to type, want %d or more", digs, len(questions))
	}
	own := regexp.MustCompile(`^  dig @127\.0\.0\.1 -p \d+ whereami\.test\.svc\.clusterset\.local$`)
	if !slices.ContainsFunc(before, own.MatchString) {
		t.Error("the demo did not print the line to type")
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, _ := d.wait(t); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
}

// compareDig compares what dig prints with what the demo printed below the
// same question: status and answers, without times to live.
func compareDig(t *testing.T, command, dig string, printed []string) {
	t.Helper()
	status := regexp.MustCompile(`status:? ([A-Z]+)`)
	var wantStatus string
	var want, got []string
	for _, line := range printed {
		line, indented := strings.CutPrefix(line, "    ")
		if !indented {
			break
		}
		if match := status.FindStringSubmatch(line); match != nil && wantStatus == "" {
			wantStatus = match[1]
		}
		if !strings.HasPrefix(line, ";;") {
			want = append(want, withoutTTL(line))
		}
	}
	var gotStatus string
	if match := status.FindStringSubmatch(dig); match != nil {
		gotStatus = match[1]
	}
	for line := range strings.Lines(dig) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ";") {
			got = append(got, withoutTTL(line))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if gotStatus != wantStatus || !slices.Equal(got, want) {
		t.Errorf("dig %s: the demo printed %s %q, dig says\n%s", command, wantStatus, want, dig)
	}
}

func withoutTTL(record string) string {
	fields := strings.Fields(record)
	if len(fields) > 1 {
		fields = slices.Delete(fields, 1, 2)
	}
	return strings.Join(fields, " ")
}

func TestDemoEndsWithZeroWhenAllIsRight(t *testing.T) {
	d := startDemo(t, nil, "DEMO_EXIT=1")
	code, output := d.wait(t)
	if code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	for _, want := range []string{
		`(?m)^ +NAME +TYPE +IP +AGE\n +whereami +ClusterSetIP +\["172\.16\.\d+\.\d+"\] +\d+s$`,
		`(?m)^ +gke-mcs-isu46k25p2 +ClusterIP +172\.16\.\d+\.\d+ `,
		`[ ,]10\.5\.0\.10[ ,]`,
		`[ ,]10\.5\.1\.13[ ,]`,
		`[ ,]10\.6\.0\.9[ ,]`,
		`[ ,]10\.6\.1\.6[ ,]`,
		`becomes unready +[\d.]+ m?s `,
		`(?m)^ +gke-mcs-isu46k25p2 +10\.5\.0\.10:8080,10\.5\.1\.13:8080 +\d+s$`, // at zero
		`(?m)^ +gke-mcs-isu46k25p2 +10\.5\.0\.10:8080,10\.5\.1\.13:8080,10\.6\.0\.9:8080 \+ 1 more\.\.\. +\d+s$`,
		`(?m)^ +whereami-headless +Headless +\d+s$`,
		`(?m)^ +whereami +Headless +\d+s$`,
		`(?m)^ +whereami-0\.tyo-cluster-01\.whereami-headless\.test\.svc\.clusterset\.local\. \d+ IN A 10\.5\.1\.14$`,
		`(?m)^ +whereami-1\.tyo-cluster-01\.whereami-headless\.test\.svc\.clusterset\.local\. \d+ IN A 10\.5\.0\.11$`,
		`(?m)^ +whereami-0\.osa-cluster-01\.whereami-headless\.test\.svc\.clusterset\.local\. \d+ IN A 10\.6\.0\.16$`,
		`(?m)^ +whereami-1\.osa-cluster-01\.whereami-headless\.test\.svc\.clusterset\.local\. \d+ IN A 10\.6\.1\.10$`,
		`in-addr\.arpa\. \d+ IN PTR gke-mcs-isu46k25p2\.test\.svc\.cluster\.local\.`,
		`No resources found in test namespace\.`,
		`killed the API server of osa-cluster-01, pid \d+,`,
		`restarted syncd of tyo-cluster-02: pid \d+ before, \d+ now`,
		`(?m)Lists and watches opened meanwhile, .*: [1-9]\d* in osa-cluster-01, 0 in tyo-cluster-01$`,
		`hello is exported from osa-cluster-01 +[\d.]+ m?s `,
		`(?m)^  nobody else$`,
		`(?m)^All is as wanted`,
	} {
		if !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("the demo did not say %s", want)
		}
	}
}

func TestDemoFailsOnOneChangedAddress(t *testing.T) {
	const changed = "10.5.0.10:8080,10.5.1.13:8080,10.6.0.9:8080,10.6.1.7:8080"
	d := startDemo(t, []string{"-expect-endpoints", changed}, "DEMO_EXIT=1")
	code, output := d.wait(t)
	if code != exitWrong {
		t.Errorf("exit code %d, want %d", code, exitWrong)
	}
	const difference = `
Not as wanted: 1
ready endpoints of gke-mcs-isu46k25p2 (- wanted, + got)
  - 10.6.1.7:8080
  + 10.6.1.6:8080
`
	if !strings.HasSuffix(output, difference) {
		t.Errorf("the demo does not end with %s", difference)
	}
}
