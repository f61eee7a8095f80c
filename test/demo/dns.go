package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// question is what is asked, and over what.
type question struct {
	network string // "udp" or "tcp"
	kind    uint16 // dns.TypeA and its like
	name    string // fully qualified
}

func (q question) String() string {
	return fmt.Sprintf("%s %s over %s", q.name, dns.TypeToString[q.kind], q.network)
}

// records are the lines of right answers to the question, out of their data.
func (q question) records(data ...string) []string {
	list := sorted(data)
	for i, d := range list {
		list[i] = "answer " + q.name + " " + dns.TypeToString[q.kind] + " " + d
	}
	return list
}

// resolver is a DNS server on this machine.
type resolver struct{ port int }

// dig is a question as one would type it.
func (r resolver) dig(q question) string {
	tcp := ""
	if q.network == "tcp" {
		tcp = " +tcp"
	}
	return fmt.Sprintf("dig @127.0.0.1 -p %d%s %s %s", r.port, tcp, strings.TrimSuffix(q.name, "."), dns.TypeToString[q.kind])
}

// answer is what came back over the socket.
type answer struct {
	message *dns.Msg
	took    time.Duration
}

func (r resolver) ask(ctx context.Context, q question) (answer, error) {
	message := new(dns.Msg).SetQuestion(q.name, q.kind)
	client := &dns.Client{Net: q.network, Timeout: 2 * time.Second}
	reply, took, err := client.ExchangeContext(ctx, message, net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)))
	if err != nil {
		return answer{}, fmt.Errorf("ask for %s: %w", q, err)
	}
	return answer{reply, took}, nil
}

// lines is an answer without what varies: times to live, SOA serials and the
// order of records. A section is told by its first word.
func (a answer) lines() []string {
	list := []string{"status " + dns.RcodeToString[a.message.Rcode]}
	add := func(section string, records []dns.RR) {
		var lines []string
		for _, record := range records {
			if line := recordLine(record); line != "" {
				lines = append(lines, section+" "+line)
			}
		}
		slices.Sort(lines)
		list = append(list, lines...)
	}
	add("answer", a.message.Answer)
	add("authority", a.message.Ns)
	add("additional", a.message.Extra)
	return list
}

func recordLine(record dns.RR) string {
	switch record.(type) {
	case *dns.OPT:
		return "" // about the message, no data
	case *dns.SOA:
		return record.Header().Name + " SOA"
	}
	header := record.Header()
	data := strings.TrimPrefix(record.String(), header.String())
	return fmt.Sprintf("%s %s %s", header.Name, dns.TypeToString[header.Rrtype], data)
}

// upstream stands for what GKE's Corefile forwards to: the resolver of the
// machine. It knows one name, and that the others do not exist.
type upstream struct {
	address string
	asked   atomic.Int64
	servers []*dns.Server
}

const (
	outsideName    = "www.example.com."
	outsideAddress = "192.0.2.80"
)

func startUpstream(bed *kubetest.Bed) (*upstream, error) {
	port, err := bed.Port()
	if err != nil {
		return nil, err
	}
	u := &upstream{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	packets, err := net.ListenPacket("udp", u.address)
	if err != nil {
		return nil, fmt.Errorf("start upstream resolver: %w", err)
	}
	listener, err := net.Listen("tcp", u.address)
	if err != nil {
		_ = packets.Close()
		return nil, fmt.Errorf("start upstream resolver: %w", err)
	}
	for _, server := range []*dns.Server{{PacketConn: packets}, {Listener: listener}} {
		started := make(chan struct{})
		server.Handler, server.NotifyStartedFunc = u, func() { close(started) }
		go func() { _ = server.ActivateAndServe() }() // ends with close
		<-started
		u.servers = append(u.servers, server)
	}
	return u, nil
}

// ServeDNS answers one question.
func (u *upstream) ServeDNS(writer dns.ResponseWriter, request *dns.Msg) {
	u.asked.Add(1)
	reply := new(dns.Msg).SetReply(request)
	reply.RecursionAvailable = true
	header := dns.RR_Header{Name: outsideName, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 30}
	if q := request.Question[0]; q.Qtype == dns.TypeA && strings.EqualFold(q.Name, outsideName) {
		reply.Answer = []dns.RR{&dns.A{Hdr: header, A: net.ParseIP(outsideAddress)}}
	} else {
		header.Name, header.Rrtype = ".", dns.TypeSOA
		reply.Rcode = dns.RcodeNameError
		reply.Ns = []dns.RR{&dns.SOA{Hdr: header, Ns: "a.root-servers.net.", Mbox: "nstld.verisign-grs.com.", Serial: 1, Refresh: 1800, Retry: 900, Expire: 604800, Minttl: 30}}
	}
	_ = writer.WriteMsg(reply) // the client asks again
}

func (u *upstream) close() {
	for _, server := range u.servers {
		_ = server.Shutdown() // fails only if it has ended
	}
}
