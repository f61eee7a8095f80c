package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child. It dies with this process, and its standard input ends
// then as well. That does not reach what it starts itself.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed after the output is complete
}

// Run starts argv in the folder of the run. The name is for messages. The
// environment is this process's with env ("KEY=value") on top.
func (b *Bed) Run(ctx context.Context, name string, argv []string, env ...string) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, context.Cause(ctx))
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("start %s: no program named", name)
	}
	// Not CommandContext: a child lives as long as the Bed, not as the call.
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the caller's program is the point
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // the terminal's Ctrl-C is for us; we end children in order
	}
	// Once the child is gone, a grandchild that holds its output does not keep us.
	cmd.WaitDelay = time.Second
	p := &Process{name: name, cmd: cmd, output: newOutput(), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	// Nothing is ever written: the pipe is there to end.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("start %s: %w", name, errClosed)
	}
	if err := b.spawner.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	b.processes = append(b.processes, p)
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		p.output.end()
		close(p.exited)
	}()
	return p, nil
}

// Pid is the process number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill sends SIGKILL, to the process and to its own children, and waits for the
// end. A process that has ended is no error.
func (p *Process) Kill() error {
	if err := p.signalKill(); err != nil {
		return err
	}
	p.Wait()
	return nil
}

func (p *Process) signalKill() error {
	if !p.running() {
		return nil // its group may be another's by now
	}
	// The group has the process's number, see Setpgid.
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	return nil
}

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// stillWithin is how long a process may take to stand still.
const stillWithin = 5 * time.Second

// standsStill waits until every thread of a process that was sent SIGSTOP has
// stopped: those that run on another processor go on for a moment.
func (p *Process) standsStill() error {
	for deadline := time.Now().Add(stillWithin); ; time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
		if err != nil || len(stats) == 0 {
			return fmt.Errorf("find the threads of %s: %w", p.name, errors.Join(err, os.ErrNotExist))
		}
		moving := slices.ContainsFunc(stats, func(file string) bool {
			text, err := os.ReadFile(file)                 //nolint:gosec // a thread of our child
			_, state, _ := strings.Cut(string(text), ") ") // after the name
			return err == nil && !strings.HasPrefix(state, "T")
		})
		if !moving {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stop %s: it still runs %s after SIGSTOP", p.name, stillWithin)
		}
	}
}

// Stop sends SIGTERM and waits for the end, at most as long as ctx lives.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: still running: %w", p.name, context.Cause(ctx))
	}
}

// Wait returns when the process has ended and its output is complete.
func (p *Process) Wait() { <-p.exited }

// Exited is closed when the process has ended and its output is complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is the exit code, or -1 while the process runs and if a signal ended it.
func (p *Process) ExitCode() int {
	if p.running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// state is for messages: "running", "exit status 1", "signal: killed".
func (p *Process) state() string {
	if p.running() {
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// Log is all output so far, standard output and standard error as they came.
func (p *Process) Log() string { return p.output.text() }

// WaitLog waits for a line that contains substring, past or to come, and
// returns it without its line end. It fails when the process ends without one.
func (p *Process) WaitLog(ctx context.Context, substring string) (line string, err error) {
	offset := 0 // begin of the first line not looked at
	for {
		text, ended, changed := p.output.since(offset)
		for {
			end := strings.IndexByte(text, '\n')
			if end < 0 {
				break
			}
			if strings.Contains(text[:end], substring) {
				return text[:end], nil
			}
			text, offset = text[end+1:], offset+end+1
		}
		if ended {
			if strings.Contains(text, substring) {
				return text, nil
			}
			p.Wait()
			return "", fmt.Errorf("wait for %q in the log of %s: it ended (%s); last lines:\n%s", substring, p.name, p.state(), tail(p.Log(), 20))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("wait for %q in the log of %s: %w; last lines:\n%s", substring, p.name, context.Cause(ctx), tail(p.Log(), 20))
		}
	}
}

// tail is the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// output collects what a process prints and wakes those who wait for it.
type output struct {
	mu      sync.Mutex
	bytes   []byte
	ended   bool
	changed chan struct{} // closed and replaced at each change
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes = append(o.bytes, p...)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.bytes)
}

func (o *output) since(offset int) (text string, ended bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.bytes[offset:]), o.ended, o.changed
}

// spawner starts children from one thread that lives as long as the Bed. The
// kernel sends a child its death signal when the thread that forked it ends,
// not the process, and Go ends threads at will.
type spawner struct {
	mu     sync.Mutex
	work   chan func()
	closed bool
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	result := make(chan error, 1)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// close ends the thread's duty. UnlockOSThread gives the thread back to the
// scheduler, but no child may rely on it from here on.
func (s *spawner) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.work)
	}
}
