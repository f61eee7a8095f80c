package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/test/bench/data"
)

// Long is how long an answer may take whose time does not matter, on a machine
// that does much else.
const Long = time.Minute

// Compare asks two servers every different query once. They have to agree with
// each other, and with the query's right answer, in rcode, TC and the set of
// answers. Truncated answers may be any part of the whole set, which is asked
// for over TCP.
func Compare(ctx context.Context, ours, stock string, queries []data.Query) error {
	asked := map[data.Query]bool{}
	for _, q := range queries {
		if asked[q] {
			continue
		}
		asked[q] = true
		a, err := ask(ctx, "udp", ours, q)
		if err != nil {
			return fmt.Errorf("ours: %w", err)
		}
		b, err := ask(ctx, "udp", stock, q)
		if err != nil {
			return fmt.Errorf("stock: %w", err)
		}
		var whole *dns.Msg
		if q.Truncated {
			if whole, err = ask(ctx, "tcp", stock, q); err != nil {
				return fmt.Errorf("stock over TCP: %w", err)
			}
		}
		if err := differ(q, a, b, whole); err != nil {
			return fmt.Errorf("%s: %w", &q, err)
		}
	}
	return nil
}

func ask(ctx context.Context, network, addr string, q data.Query) (*dns.Msg, error) {
	client := &dns.Client{Net: network, Timeout: Long, UDPSize: dns.MaxMsgSize}
	reply, _, err := client.ExchangeContext(ctx, Message(q), addr)
	if err != nil {
		return nil, fmt.Errorf("ask for %s over %s: %w", &q, network, err)
	}
	return reply, nil
}

// differ judges the answers of two servers; whole is the answer over TCP to a
// query that is truncated over UDP.
func differ(q data.Query, ours, stock, whole *dns.Msg) error {
	if !fits(q, ours) || !fits(q, stock) {
		return fmt.Errorf("ours has %s, stock %s: want %s", shapeOf(ours), shapeOf(stock), shape(q.Rcode, q.Answers, q.Truncated))
	}
	a, b := answers(ours), answers(stock)
	if q.Truncated {
		all := answers(whole)
		if len(all) != q.Answers {
			return fmt.Errorf("%d answers over TCP: want %d", len(all), q.Answers)
		}
		for _, part := range [][]string{a, b} {
			for _, rr := range part {
				if _, ok := slices.BinarySearch(all, rr); !ok {
					return fmt.Errorf("%q is in a truncated answer and not in the whole one", rr)
				}
			}
		}
		return nil
	}
	if !slices.Equal(a, b) {
		return fmt.Errorf("ours answers %q, stock %q", a, b)
	}
	if len(a) != q.Answers {
		return fmt.Errorf("%d different answers of both: want %d", len(a), q.Answers)
	}
	return nil
}

func fits(q data.Query, m *dns.Msg) bool { return q.Fits(m.Rcode, len(m.Answer), m.Truncated) }

func shapeOf(m *dns.Msg) string { return shape(m.Rcode, len(m.Answer), m.Truncated) }

// answers are the records of the answer, without their TTLs, sorted, each once.
func answers(m *dns.Msg) []string {
	texts := make([]string, 0, len(m.Answer))
	for _, rr := range m.Answer {
		rr.Header().Ttl = 0 // a cache counts it down
		texts = append(texts, strings.ToLower(rr.Header().Name)+" "+rr.String()[len(rr.Header().Name):])
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// Check asks a server every query once, and stops at the first answer that is
// not right, or does not come within the given time.
func Check(ctx context.Context, addr string, within time.Duration, queries ...data.Query) error {
	client := &dns.Client{Net: "udp", Timeout: within, UDPSize: dns.MaxMsgSize}
	for _, q := range queries {
		reply, _, err := client.ExchangeContext(ctx, Message(q), addr)
		if err != nil {
			return fmt.Errorf("ask for %s: %w", &q, err)
		}
		if !fits(q, reply) {
			return fmt.Errorf("%s has %s: want %s", &q, shapeOf(reply), shape(q.Rcode, q.Answers, q.Truncated))
		}
	}
	return nil
}
