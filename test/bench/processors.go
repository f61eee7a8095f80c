package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// processors are those that this run may use, as lists such as "0-3" or "2,5-7".
// The first one is for the servers; everything else has the others, but all
// while there is no server. Where there is one processor, it has to do for both.
type processors struct{ all, first, others string }

func findProcessors() (processors, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return processors{}, fmt.Errorf("find the processors: %w", err)
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	return splitProcessors(strings.TrimSpace(list))
}

func splitProcessors(list string) (processors, error) {
	p := processors{list, list, list}
	end := strings.IndexAny(list, "-,")
	if end < 0 {
		return p, nil
	}
	p.first, p.others = list[:end], list[end+1:]
	if list[end] == ',' {
		return p, nil
	}
	low, err := strconv.Atoi(p.first)
	if err != nil {
		return p, fmt.Errorf("read list of processors %q: %w", list, err)
	}
	// Of "2-5" what follows 2 is "3-5", and of "2-3" it is "3".
	if last, _, _ := strings.Cut(p.others, ","); last != strconv.Itoa(low+1) {
		p.others = strconv.Itoa(low+1) + "-" + p.others
	}
	return p, nil
}

// move gives processes, with all of their threads, other processors.
func move(ctx context.Context, list string, pids ...int) error {
	for _, pid := range pids {
		out, err := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", list, strconv.Itoa(pid)).CombinedOutput() //nolint:gosec // numbers
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("give servers a processor of their own: %w: install util-linux", err)
		}
		if err != nil {
			return fmt.Errorf("move process %d to processors %s: %w: %s", pid, list, err, out)
		}
	}
	return nil
}
