package caserun

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// stub is a DNS server that knows a few records, hands the zones of its stub
// domains on, and counts what it is asked.
type stub struct {
	addr    string
	records []dns.RR
	rcode   int
	domains map[string][]string // absolute zone to ADDRESS:PORT

	mu    sync.Mutex
	asked map[string]int // by name, absolute and in lower case

	servers []*dns.Server
}

// stubTTL is the TTL of its records, in seconds.
const stubTTL = 5

func startStub(port int, records []string, rcode string, domains map[string][]string) (*stub, error) {
	s := &stub{
		addr:    net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		rcode:   dns.RcodeNameError,
		domains: map[string][]string{},
		asked:   map[string]int{},
	}
	for _, line := range records {
		name, rest, _ := strings.Cut(line, " ")
		rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s", name, stubTTL, rest))
		if err != nil || rr == nil {
			return nil, fmt.Errorf("read record %q of the upstream: %w", line, err)
		}
		s.records = append(s.records, rr)
	}
	if rcode != "" {
		code, ok := dns.StringToRcode[rcode]
		if !ok {
			return nil, fmt.Errorf("start upstream: %q is no rcode", rcode)
		}
		s.rcode = code
	}
	for zone, servers := range domains {
		s.domains[dns.CanonicalName(zone)] = servers
	}
	packets, err := net.ListenPacket("udp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("start upstream: %w", err)
	}
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("start upstream: %w", errors.Join(err, packets.Close()))
	}
	s.servers = []*dns.Server{{PacketConn: packets, Handler: s}, {Listener: listener, Handler: s}}
	for _, server := range s.servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }() // it ends by close
		<-started
	}
	return s, nil
}

func (s *stub) close() {
	for _, server := range s.servers {
		_ = server.Shutdown() // nothing is left to be done with it
	}
}

// questions is how often a name was asked for.
func (s *stub) questions(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dns.CanonicalName(name)]
}

// ServeDNS implements dns.Handler.
func (s *stub) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	name := dns.CanonicalName(question.Question[0].Name)
	s.mu.Lock()
	s.asked[name]++
	s.mu.Unlock()
	for zone, servers := range s.domains {
		if dns.IsSubDomain(zone, name) {
			s.handOn(w, question, servers)
			return
		}
	}
	reply := new(dns.Msg).SetReply(question)
	known := false
	for _, rr := range s.records {
		if dns.CanonicalName(rr.Header().Name) == name {
			known = true
			if rr.Header().Rrtype == question.Question[0].Qtype {
				reply.Answer = append(reply.Answer, rr)
			}
		}
	}
	if !known {
		reply.Rcode = s.rcode
	}
	_ = w.WriteMsg(reply) // the client may be gone
}

func (s *stub) handOn(w dns.ResponseWriter, question *dns.Msg, servers []string) {
	client := &dns.Client{Timeout: 3 * time.Second}
	for _, server := range servers {
		if reply, _, err := client.Exchange(question, server); err == nil {
			_ = w.WriteMsg(reply) // the client may be gone
			return
		}
	}
	_ = w.WriteMsg(new(dns.Msg).SetRcode(question, dns.RcodeServerFailure))
}
