package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the time that all threads of the server have run so far, by the
// scheduler's account, which is exact.
func (s *Server) CPU() (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.Pid()))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read processor time of %s: no thread of it (%w)", s.Name, errors.Join(err, fs.ErrNotExist))
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a path of /proc
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has just ended
		}
		if err != nil {
			return 0, fmt.Errorf("read processor time of %s: %w", s.Name, err)
		}
		running, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time of %s: %w: want nanoseconds first in %s", s.Name, err, file)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// RSS is the server's resident memory in bytes.
func (s *Server) RSS() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0, fmt.Errorf("read memory of %s: %w", s.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("read memory of %s: no VmRSS", s.Name)
}

// Heap is the size in bytes of what is alive on the server's heap, right after
// a garbage collection that this asks for.
func (s *Server) Heap(ctx context.Context) (int64, error) {
	var heap int64
	for range 2 { // the second collection frees what finalizers held
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.pprof+"/debug/pprof/heap?gc=1&debug=1", http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := pages.Do(request)
		if err != nil {
			return 0, fmt.Errorf("read heap of %s: %w", s.Name, err)
		}
		heap, err = heapAlloc(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return 0, fmt.Errorf("read heap of %s: %w", s.Name, err)
		}
	}
	return heap, nil
}

// heapAlloc finds the number in the text form of a heap profile.
func heapAlloc(profile io.Reader) (int64, error) {
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, errors.Join(errors.New("no HeapAlloc in the profile"), lines.Err())
}
