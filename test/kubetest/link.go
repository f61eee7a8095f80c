package kubetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// Link is a network path to an API server that can fail: a TCP proxy on a port
// of its own. A new Link passes everything.
type Link struct {
	address string // own, host:port
	target  *net.TCPAddr
	log     io.Writer

	mu       sync.Mutex
	listener net.Listener // nil while cut and after Close
	conns    map[net.Conn]struct{}
	open     chan struct{} // closed while bytes may pass
	closed   bool
	done     sync.WaitGroup
}

// NewLink makes a way to the cluster's API server. It lives until Close, its
// own or the Bed's.
func (c *Cluster) NewLink() (*Link, error) {
	port, err := c.bed.Port()
	if err != nil {
		return nil, fmt.Errorf("make link to %s: %w", c.name, err)
	}
	l := &Link{
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		target:  &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.port},
		log:     c.bed.log,
		conns:   map[net.Conn]struct{}{},
		open:    make(chan struct{}),
	}
	close(l.open)
	if err := l.restore(); err != nil {
		return nil, fmt.Errorf("make link to %s: %w", c.name, err)
	}
	c.bed.mu.Lock()
	defer c.bed.mu.Unlock()
	c.bed.links = append(c.bed.links, l)
	return l, nil
}

// Kubeconfig is the given kubeconfig, pointed at the link. Certificates still
// verify: those of API servers are for 127.0.0.1 on any port.
func (l *Link) Kubeconfig(kubeconfig []byte) ([]byte, error) {
	return withServer(kubeconfig, "https://"+l.address)
}

// Cut closes all connections and refuses new ones, as a host does whose server
// is gone.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

// cut is Cut for who holds the lock.
func (l *Link) cut() {
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// Drop keeps connections open, and accepts new ones, but passes nothing in
// either direction, as a network does that loses every packet. A Link that is
// cut stays cut.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default:
	}
}

// Restore ends Cut and Drop. What was sent while packets were dropped arrives
// now, as with TCP's retransmission.
func (l *Link) Restore() {
	if err := l.restore(); err != nil {
		_, _ = fmt.Fprintln(l.log, err)
	}
}

func (l *Link) restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	select {
	case <-l.open:
	default:
		close(l.open)
	}
	if l.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("restore link: %w", err)
	}
	l.listener = listener
	l.done.Go(func() { l.accept(listener) })
	return nil
}

// Close cuts the link for ever and returns when nothing of it is left.
func (l *Link) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.cut()
		select {
		case <-l.open:
		default:
			close(l.open) // wakes those who wait for it; their connections are closed
		}
	}
	l.mu.Unlock()
	l.done.Wait()
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // cut
		}
		l.done.Go(func() { l.serve(client) })
	}
}

func (l *Link) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTCP("tcp", nil, l.target)
	if err != nil {
		return // the client sees a closed connection, as with a server that is gone
	}
	defer func() { _ = server.Close() }()
	if !l.track(client, server) {
		return
	}
	defer l.untrack(client, server)
	var both sync.WaitGroup
	both.Go(func() { l.pump(server, client) })
	both.Go(func() { l.pump(client, server) })
	both.Wait()
}

// pump copies until one side ends. An orderly end of one direction is passed
// on, and so is a broken one, as the end of both.
func (l *Link) pump(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.pass()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if half, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				_ = half.CloseWrite()
			} else {
				_ = to.Close()
			}
			return
		}
	}
}

// pass returns when bytes may go on.
func (l *Link) pass() {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	<-open
}

// track enters both ends of a connection, unless the link was cut meanwhile.
func (l *Link) track(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return false
	}
	for _, conn := range conns {
		l.conns[conn] = struct{}{}
	}
	return true
}

func (l *Link) untrack(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		delete(l.conns, conn)
	}
}
