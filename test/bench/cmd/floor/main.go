// Command floor answers every question with one constant A record: the least
// that a DNS server on top of miekg/dns can do. `make bench` measures against it.
//
//	floor ADDRESS:PORT
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/miekg/dns"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "floor: want one argument: ADDRESS:PORT")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func serve(addr string) error {
	conn, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ip := net.IPv4(172, 16, 0, 1)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		m.Authoritative = true
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
			A:   ip,
		}}
		_ = w.WriteMsg(m) // the one who asks notices
	})}
	return server.ActivateAndServe()
}
