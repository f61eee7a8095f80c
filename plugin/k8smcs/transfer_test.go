package k8smcs

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// transferred asks for a zone and returns the records, one a line, SOA first
// and last; err is what the client says.
func transferred(t *testing.T, s *server, m *dns.Msg) (lines []string, err error) {
	t.Helper()
	envelopes, err := new(dns.Transfer).In(m, s.tcp)
	if err != nil {
		t.Fatalf("transfer: %v", err)
	}
	for e := range envelopes {
		if e.Error != nil {
			return nil, e.Error
		}
		for _, rr := range e.RR {
			lines = append(lines, text([]dns.RR{rr}))
		}
	}
	return lines, nil
}

const transferLine = "transfer {\n to *\n }"

// names: N25
func TestATransferHoldsTheNamesThatAreAnswered(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(2))
	s := startServer(t, block(transferLine, ours(kubeconfig, "nameserver 10.96.0.53", "fallthrough")))
	got, err := transferred(t, s, new(dns.Msg).SetAxfr("clusterset.local."))
	if err != nil {
		t.Fatal(err)
	}
	first, last := got[0], got[len(got)-1]
	if !strings.HasPrefix(first, "clusterset.local. SOA ") || first != last {
		t.Errorf("begins with %q and ends with %q, want the SOA twice", first, last)
	}
	const pear, fig = "pear.orchard.svc.clusterset.local.", "fig.orchard.svc.clusterset.local."
	want := []string{
		"clusterset.local. NS ns.dns.clusterset.local.",
		"ns.dns.clusterset.local. A 10.96.0.53",
		`dns-version.clusterset.local. TXT "1.0.0"`,
		pear + " A 10.96.7.10",
		pear + " SRV 0 100 80 " + pear,
		"_http._tcp." + pear + " SRV 0 100 80 " + pear,
		fig + " A 10.64.0.1",
		fig + " A 10.64.0.2",
		fig + " SRV 0 100 80 fig-0.basil." + fig,
		fig + " SRV 0 100 80 fig-1.basil." + fig,
		"_http._tcp." + fig + " SRV 0 100 80 fig-0.basil." + fig,
		"_http._tcp." + fig + " SRV 0 100 80 fig-1.basil." + fig,
		"fig-0.basil." + fig + " A 10.64.0.1",
		"fig-1.basil." + fig + " A 10.64.0.2",
	}
	got = got[1 : len(got)-1]
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("transferred\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestATransferOfAReverseZoneHoldsItsPointers(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject, figObjects(2))
	s := startServer(t, block(transferLine, ours(kubeconfig)))
	got, err := transferred(t, s, new(dns.Msg).SetAxfr("in-addr.arpa."))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"in-addr.arpa. NS ns.dns.clusterset.local.",
		"1.0.64.10.in-addr.arpa. PTR fig-0.basil.fig.orchard.svc.clusterset.local.",
		"2.0.64.10.in-addr.arpa. PTR fig-1.basil.fig.orchard.svc.clusterset.local.",
		"10.7.96.10.in-addr.arpa. PTR pear.orchard.svc.clusterset.local.",
	}
	if got = got[1 : len(got)-1]; !slices.Equal(got, want) {
		t.Errorf("transferred\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestALargeZoneIsTransferredWhole(t *testing.T) {
	_, kubeconfig := newAPI(t, figObjects(3000))
	s := startServer(t, block(transferLine, ours(kubeconfig)))
	got, err := transferred(t, s, new(dns.Msg).SetAxfr("clusterset.local."))
	if want := 4 + 4*3000; err != nil || len(got) < want {
		t.Errorf("%d records, %v; want %d at least", len(got), err, want)
	}
}

func TestAnIncrementalTransfer(t *testing.T) {
	_, kubeconfig := newAPI(t, pearObject)
	s := startServer(t, block(transferLine, ours(kubeconfig)))
	soa, ok := s.ask(t, "clusterset.local.", dns.TypeSOA).Answer[0].(*dns.SOA)
	if !ok {
		t.Fatal("no SOA")
	}
	for name, c := range map[string]struct {
		serial uint32
		all    bool
	}{
		"of the serial that is served is the SOA alone": {soa.Serial, false},
		"of a newer serial is the SOA alone":            {soa.Serial + 1, false},
		"of an older serial is the whole zone":          {soa.Serial - 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := new(dns.Msg).SetIxfr("clusterset.local.", c.serial, soa.Ns, soa.Mbox)
			r := exchange(t, "tcp", s.tcp, m) // of a whole zone, the first message
			if r.Rcode != dns.RcodeSuccess || (len(r.Answer) > 1) != c.all {
				t.Errorf("all of the zone: want %t, got\n%v", c.all, r)
			}
		})
	}
}

func TestTransfersThatAreNotToBe(t *testing.T) {
	api, kubeconfig := newAPI(t, pearObject)
	api.Fail("serviceimports", 403)
	unsynced := ours(kubeconfig, "startup_timeout 0s")
	for name, c := range map[string]struct {
		block string
		zone  string
		rcode int
	}{
		"without the plugin transfer":       {block(unsynced), "clusterset.local.", dns.RcodeRefused},
		"without data":                      {block(transferLine, unsynced), "clusterset.local.", dns.RcodeServerFailure},
		"of a part of the zone":             {block(transferLine, unsynced), "svc.clusterset.local.", dns.RcodeRefused},
		"of a zone that nobody here serves": {block(transferLine, unsynced), "example.org.", dns.RcodeServerFailure},
	} {
		t.Run(name, func(t *testing.T) {
			r := exchange(t, "tcp", startServer(t, c.block).tcp, new(dns.Msg).SetAxfr(c.zone))
			if r.Rcode != c.rcode || len(r.Answer) > 0 {
				t.Errorf("want %s, got\n%v", dns.RcodeToString[c.rcode], r)
			}
		})
	}
}
