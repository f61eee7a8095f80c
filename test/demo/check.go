package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const (
	whereamiName = "whereami.test.svc.clusterset.local."
	helloName    = "hello.test.svc.clusterset.local."
	missingName  = "nobody.test.svc.clusterset.local."
	localName    = "whereami.test.svc.cluster.local."
	// derivedName is what GKE calls the Service behind test/whereami.
	derivedName = "gke-mcs-isu46k25p2"
)

// expectation is what is right for whereami.
type expectation struct {
	derived   string
	clusterIP string       // empty: the derived Service's own
	ipRange   netip.Prefix // of the consumer's Services
	endpoints []string     // address:port
	clusters  []string     // that export it
}

func whereami() expectation {
	return expectation{
		derived:   derivedName,
		ipRange:   netip.MustParsePrefix(clusterConfigs[2].ServiceCIDRs),
		endpoints: []string{"10.5.0.10:8080", "10.5.1.13:8080", "10.6.0.9:8080", "10.6.1.6:8080"},
		clusters:  []string{osaka1, tokyo1},
	}
}

// questions are those that are asked, in the order in which they are shown.
var questions = []question{
	{"udp", dns.TypeA, whereamiName},
	{"tcp", dns.TypeA, whereamiName},
	{"udp", dns.TypeAAAA, whereamiName},
	{"udp", dns.TypeSRV, whereamiName},
	{"udp", dns.TypeA, missingName},
	{"udp", dns.TypeA, localName},
	{"udp", dns.TypeA, outsideName},
}

// remarks say why an answer is what it is.
var remarks = map[question]string{
	questions[0]: "the clusterset IP: the ClusterIP of the derived Service in " + tokyo2,
	questions[1]: "the same over TCP",
	questions[2]: "the Service is IPv4 only: the name exists, the record does not",
	questions[3]: "its port",
	questions[4]: "no such service: GKE's Corefile passes it on, and the resolver behind knows nothing of it either",
	questions[5]: "a cluster's own domain is not ours, and stays that cluster's own",
	questions[6]: "a name outside the clusterset is passed on",
}

// answers are the lines of each right answer, with ip as the clusterset IP.
func (e expectation) answers(ip string) map[question][]string {
	address := "status NOERROR\nanswer " + whereamiName + " A " + ip
	text := map[question]string{
		questions[0]: address,
		questions[1]: address,
		questions[2]: "status NOERROR\nauthority clusterset.local. SOA",
		questions[3]: "status NOERROR\nanswer " + whereamiName + " SRV 0 100 8080 " + whereamiName,
		questions[4]: "status NXDOMAIN\nauthority . SOA",
		questions[5]: "status NXDOMAIN\nauthority . SOA",
		questions[6]: "status NOERROR\nanswer " + outsideName + " A " + outsideAddress,
	}
	lines := make(map[question][]string, len(text))
	for q, t := range text {
		lines[q] = strings.Split(t, "\n")
	}
	return lines
}

// observation is what was seen of whereami.
type observation struct {
	state
	answers map[question]answer
}

// finding is one thing that was looked at. It is right if both are equal.
type finding struct {
	what      string
	want, got []string
}

func (f finding) right() bool { return slices.Equal(f.want, f.got) }

// String shows the lines that are missing and those that are too much.
func (f finding) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (- wanted, + got)", f.what)
	for _, line := range f.want {
		if !slices.Contains(f.got, line) {
			fmt.Fprintf(&text, "\n  - %s", line)
		}
	}
	for _, line := range f.got {
		if !slices.Contains(f.want, line) {
			fmt.Fprintf(&text, "\n  + %s", line)
		}
	}
	return text.String()
}

// compare compares all that was seen with what is right.
func compare(want expectation, got observation) []finding {
	ip := want.clusterIP
	if ip == "" {
		ip = got.clusterIP
	}
	findings := []finding{
		{"name of the derived Service", []string{want.derived}, []string{got.derived}},
		{"ClusterIP of the derived Service", []string{ip}, []string{got.clusterIP}},
		{"type of the ServiceImport", []string{"ClusterSetIP"}, []string{got.kind}},
		{"IPs of the ServiceImport", []string{ip}, got.importIPs},
		{"clusters of the ServiceImport", sorted(want.clusters), sorted(got.clusters)},
		{"ready endpoints of " + want.derived, sorted(want.endpoints), sorted(got.endpoints)},
		{"addresses in the Endpoints " + want.derived, sorted(got.endpoints), sorted(got.classic)},
	}
	if address, err := netip.ParseAddr(got.clusterIP); err != nil || !want.ipRange.Contains(address) {
		findings = append(findings, finding{"range of the clusterset IP", []string{want.ipRange.String()}, []string{got.clusterIP}})
	}
	right := want.answers(ip)
	for _, q := range questions {
		f := finding{what: "answer to " + q.String(), want: right[q]}
		if a, ok := got.answers[q]; ok {
			f.got = a.lines()
		}
		findings = append(findings, f)
	}
	return findings
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// wrongError says that the demo ran and that not everything is right.
type wrongError struct{ wrong []finding }

func (e *wrongError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Not as wanted: %d", len(e.wrong))
	for _, f := range e.wrong {
		text.WriteString("\n" + f.String())
	}
	return text.String()
}
