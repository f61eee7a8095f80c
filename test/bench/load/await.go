package load

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/miekg/dns"
)

// step is the pause between two questions of Await, and so about how exact it is.
const step = 50 * time.Microsecond

// Await asks for a name until one of the answer's records ends in an IPv4
// address, and returns when that reply came.
func Await(ctx context.Context, addr, name string, qtype uint16, address string) (time.Time, error) {
	want := netip.MustParseAddr(address).As4()
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	wire, err := m.Pack()
	if err != nil {
		return time.Time{}, fmt.Errorf("pack %s: %w", name, err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp4", addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask %s: %w", addr, err)
	}
	defer conn.Close()
	runtime.LockOSThread() // pause keeps it
	defer runtime.UnlockOSThread()
	reply := make([]byte, dns.MinMsgSize)
	for ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails on a closed socket only
		if _, err := conn.Write(wire); err != nil {
			return time.Time{}, fmt.Errorf("ask %s: %w", addr, err)
		}
		// A lost reply is asked for again.
		if n, err := conn.Read(reply); err == nil && bytes.Contains(reply[:n], want[:]) {
			return time.Now(), nil
		}
		pause(step)
	}
	return time.Time{}, fmt.Errorf("%s does not answer with %s: %w", name, address, context.Cause(ctx))
}
