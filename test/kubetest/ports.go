package kubetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portPool reserves ports of 127.0.0.1 across processes: one locked file per
// port, so that a port stays reserved while the cluster on it is down, and is
// free again when its owner dies.
type portPool struct {
	dir   string
	locks []*fileLock
	next  int // offset into the range at which the next search begins
}

// portRange is [first, last], outside the kernel's own range.
type portRange struct{ first, last int }

func (r portRange) size() int { return r.last - r.first + 1 }

// usablePorts is the wider one of the gaps below and above the ports that the
// kernel hands out by itself, as /proc/sys/net/ipv4/ip_local_port_range gives
// them. Where they take nearly all, it is the range that is usual on Linux.
func usablePorts(localRange string) portRange {
	const lowest, highest = 20000, 65535
	usual := portRange{lowest, 31999}
	fields := strings.Fields(localRange)
	if len(fields) != 2 {
		return usual
	}
	low, errLow := strconv.Atoi(fields[0])
	high, errHigh := strconv.Atoi(fields[1])
	if errLow != nil || errHigh != nil {
		return usual
	}
	below, above := portRange{lowest, low - 1}, portRange{max(high+1, lowest), highest}
	best := below
	if above.size() > below.size() {
		best = above
	}
	if best.size() < 100 {
		return usual
	}
	return best
}

// take reserves one port. The caller holds the lock of the Bed.
func (p *portPool) take() (int, error) {
	local, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, fmt.Errorf("reserve port: %w", err)
	}
	ports := usablePorts(string(local))
	if p.next == 0 {
		// Runs begin at different places, so that they seldom meet at all.
		p.next = os.Getpid() * 37 % ports.size()
	}
	for range ports.size() {
		port := ports.first + p.next%ports.size()
		p.next++
		lock, err := tryLock(filepath.Join(p.dir, strconv.Itoa(port)+".lock"))
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reserve port: %w", err)
		}
		if !bindable(port) {
			_ = lock.unlock()
			continue
		}
		p.locks = append(p.locks, lock)
		return port, nil
	}
	return 0, fmt.Errorf("reserve port: none of %d to %d is free", ports.first, ports.last)
}

// bindable reports whether nobody else, of any user, has the port.
func bindable(port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		_ = tcp.Close()
		return false
	}
	return tcp.Close() == nil && udp.Close() == nil
}

func (p *portPool) release() {
	for _, lock := range p.locks {
		_ = lock.unlock()
	}
	p.locks = nil
}
