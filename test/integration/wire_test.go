package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/k8s-mcs/k8s-mcs/corefile"
	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
	"github.com/k8s-mcs/k8s-mcs/test/kubetest/tamper"
)

// TestDNSWithBadObjectsAndBadQueries puts a proxy that lies between mcs-core-dns
// and its API server, and then sends it what no resolver sends. Neither takes
// anything from the answers that are right.
//
// names: N45 N46
func TestDNSWithBadObjectsAndBadQueries(t *testing.T) {
	m := clusterset(t, "amber")[0]
	m.namespace(t, "orchard")
	proxy := tamper.ForTest(t)
	kubeconfig, err := proxy.Kubeconfig(m.dnsKubeconfig(t, nil))
	must(t, err)
	m.apply(t, clusterSetIPImport("pear", "10.96.7.10"), clusterSetIPImport("plum", "10.96.7.11"), clusterSetIPImport("quince", "10.96.7.12"), headlessImport(2))
	for _, name := range []string{"bad-addresses", "bad-family", "bad-host", "bad-port", "no-cluster", "no-service", "three-labels"} {
		m.apply(t, importedSlice(name))
	}
	for name, effect := range badObjects {
		resource := "endpointslices"
		if name == "plum" || name == "quince" {
			resource = "serviceimports"
		}
		proxy.Add(tamper.Rule{Match: tamper.Match{Resource: resource, Name: name}, Effect: effect})
	}
	d := startDNS(t, m.bed, corefile.MCSCoreDNS, kubeconfig)

	t.Run("bad objects are left out and counted, and good ones stay", func(t *testing.T) { d.wantGoodNeighbours(t) })
	t.Run("bad queries have an answer, and good ones stay", func(t *testing.T) { d.wantAnswersToBadQueries(t) })
	t.Run("bad streams end, and good ones stay", func(t *testing.T) { d.wantStreamsToEnd(t) })
	if strings.Contains(d.Log(), "panic") {
		t.Errorf("it panicked:\n%s", grep(d.Log(), "panic"))
	}
	must(t, all(
		d.want(t, "A "+pearName, "NOERROR", "10.96.7.10"),
		d.want(t, "A fig-1.basil."+figName, "NOERROR", "10.64.0.2"),
	))
}

// importedSlice is a slice of fig in cluster basil, as the API server takes it.
func importedSlice(name string) string {
	return `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: orchard
  name: ` + name + `
  labels: {multicluster.kubernetes.io/service-name: fig, multicluster.kubernetes.io/source-cluster: basil}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 80}]
endpoints: [{addresses: [10.65.0.1], hostname: ` + name + `}]
`
}

// badObjects are changes that an API server would not let through, by the name
// of the object.
var badObjects = map[string]tamper.Effect{
	"bad-addresses": tamper.AddAddress("169.254.169.254", "127.0.0.1", "::ffff:10.1.0.9", "store.example", "224.0.0.1", "0.0.0.0", "fe80::1%eth0", ""),
	"bad-family": tamper.Change(func(o map[string]any) {
		o["addressType"] = "FQDN"
		o["endpoints"] = []any{map[string]any{"addresses": []any{"store.example"}}}
	}),
	"bad-host": tamper.Change(func(o map[string]any) {
		o["endpoints"] = []any{map[string]any{"addresses": []any{"10.65.0.2"}, "hostname": "a.b_"}}
	}),
	"bad-port": tamper.Change(func(o map[string]any) {
		o["ports"] = []any{map[string]any{"name": "far", "port": 70000}, map[string]any{"name": "http", "port": 80}, map[string]any{"name": "all"}}
	}),
	"no-cluster": tamper.Change(func(o map[string]any) {
		delete(o["metadata"].(map[string]any)["labels"].(map[string]any), mcs.LabelSourceCluster) //nolint:errcheck,forcetypeassert // it has labels
	}),
	"no-service":   tamper.Label(mcs.LabelServiceName, ""),
	"three-labels": tamper.Label(mcs.LabelSourceCluster, "a.b.c"),
	"plum": tamper.Change(func(o map[string]any) {
		o["spec"] = map[string]any{"type": "ClusterSetIP", "ips": []any{"10.96.7.11", "10.96.7.300", "169.254.1.1"}, "ports": nil}
	}),
	"quince": tamper.Change(func(o map[string]any) {
		o["metadata"].(map[string]any)["name"] = "quin.ce" //nolint:errcheck,forcetypeassert // it has metadata
	}),
}

// wantGoodNeighbours looks at what is left of the bad objects.
func (d *dnsProcess) wantGoodNeighbours(t *testing.T) {
	t.Helper()
	eventually(t, "the good ones", func() error {
		return all(
			d.want(t, "A "+pearName, "NOERROR", "10.96.7.10"),
			d.want(t, "A "+plumName, "NOERROR", "10.96.7.11"),
			d.want(t, "SRV "+plumName, "NOERROR"),
			d.want(t, "A quin.ce.orchard.svc.clusterset.local.", "NXDOMAIN"),
			d.want(t, "A "+figName, "NOERROR", "10.64.0.1", "10.64.0.2", "10.65.0.1", "10.65.0.2"),
			d.want(t, "AAAA "+figName, "NOERROR"),
			d.want(t, "A bad-addresses.basil."+figName, "NOERROR", "10.65.0.1"),
			d.want(t, "A 10-65-0-2.basil."+figName, "NOERROR", "10.65.0.2"),
			d.want(t, "A bad-port.basil."+figName, "NOERROR", "10.65.0.1"),
			d.want(t, "SRV _far._tcp."+figName, "NXDOMAIN"),
			d.want(t, "A three-labels.a.b.c."+figName, "NXDOMAIN"),
			d.want(t, "A no-cluster.basil."+figName, "NXDOMAIN"),
			d.want(t, "A no-service.basil."+figName, "NXDOMAIN"),
		)
	})
	counted := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^coredns_k8s_mcs_rejected_objects_total\{(.*)\} [1-9]`).FindAllStringSubmatch(d.metrics(t), -1) {
		counted[match[1]] = true
	}
	for resource, reasons := range map[string][]string{
		"serviceimports.multicluster.x-k8s.io": {"address", "name"},
		"endpointslices.discovery.k8s.io":      {"address", "address_type", "cluster_id", "host", "port", "service"},
	} {
		for _, reason := range reasons {
			if want := fmt.Sprintf("reason=%q,resource=%q,zone=%q", reason, resource, "clusterset.local."); !counted[want] {
				t.Errorf("%s is not counted; what is: %v", want, counted)
			}
		}
	}
	if lines := logLines(d.Log(), "[WARNING]", "k8s_mcs"); len(lines) == 0 || len(lines) > 12 {
		t.Errorf("%d warnings, want a few:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// metrics is the page of the prometheus plugin.
func (d *dnsProcess) metrics(t *testing.T) string {
	t.Helper()
	conf, err := os.ReadFile(d.conf)
	must(t, err)
	address := regexp.MustCompile(`(?m)^\s*prometheus (\S+)`).FindSubmatch(conf)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/metrics", address[1]), http.NoBody)
	must(t, err)
	response, err := pages.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

// query is a message of one question as bytes; the name is in wire form.
func query(name []byte, qtype, class uint16, change ...func(header []byte)) []byte {
	header := make([]byte, 12)
	binary.BigEndian.PutUint16(header, badID)
	header[5] = 1 // questions
	for _, c := range change {
		c(header)
	}
	packet := slices.Concat(header, name)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(packet, qtype), class)
}

const badID = 0xbad1

// labels is a name in wire form.
func labels(list ...string) []byte {
	var name []byte
	for _, l := range list {
		name = append(append(name, byte(len(l))), l...)
	}
	return append(name, 0)
}

// wireName is a usual name in wire form, under the zone.
func wireName(relative string) []byte {
	return labels(strings.Split(relative+".clusterset.local", ".")...)
}

// wantAnswersToBadQueries sends packets as they are. Most of the answers are
// those of CoreDNS, which reads a packet before any plugin does.
func (d *dnsProcess) wantAnswersToBadQueries(t *testing.T) {
	t.Helper()
	const in, chaos, hesiod, none, anyClass = dns.ClassINET, dns.ClassCHAOS, dns.ClassHESIOD, dns.ClassNONE, dns.ClassANY
	long := strings.Repeat("l", 63)
	pear := wireName("pear.orchard.svc")
	set := func(at int, value byte) func([]byte) { return func(h []byte) { h[at] = value } }
	optRecord := func(version byte) []byte { return []byte{0, 0, 41, 4, 208, 0, version, 0, 0, 0, 0} }
	for _, c := range []struct {
		what   string
		packet []byte
		want   string // rcode, or nothing for a packet that has no answer
	}{
		{"a name of 255 octets", query(labels(long, long, long, strings.Repeat("l", 44), "clusterset", "local"), dns.TypeA, in), "NXDOMAIN"},
		{"a name of 256 octets", query(labels(long, long, long, strings.Repeat("l", 45), "clusterset", "local"), dns.TypeA, in), "FORMERR"},
		{"a name of 127 labels", query(labels(strings.Split(strings.Repeat("a.", 118)+"clusterset.local", ".")...), dns.TypeA, in), "NXDOMAIN"},
		{"a dot in a label", query(labels("pear.orchard", "svc", "clusterset", "local"), dns.TypeA, in), "NXDOMAIN"},
		{"a backslash in a label", query(labels(`pear\`, "orchard", "svc", "clusterset", "local"), dns.TypeA, in), "NXDOMAIN"},
		{"bytes above 127", query(labels("p\xc3\xa4\xff", "orchard", "svc", "clusterset", "local"), dns.TypeA, in), "NXDOMAIN"},
		{"a byte 0 and a blank", query(labels("pear\x00 ", "orchard", "svc", "clusterset", "local"), dns.TypeA, in), "NXDOMAIN"},
		{"a dot before the zone's name in one label", query(labels("pear.orchard.svc.clusterset", "local"), dns.TypeA, in), "REFUSED"},
		{"an underscore alone", query(wireName("_._tcp.pear.orchard.svc"), dns.TypeSRV, in), "NXDOMAIN"},
		{"underscores only", query(wireName("_._._.pear.orchard.svc"), dns.TypeSRV, in), "NXDOMAIN"},
		{"port and protocol in the other order", query(wireName("_tcp._http.pear.orchard.svc"), dns.TypeSRV, in), "NXDOMAIN"},
		{"a protocol without an underscore", query(wireName("_http.tcp.pear.orchard.svc"), dns.TypeSRV, in), "NXDOMAIN"},
		{"an underscore in front of the service", query(wireName("_pear.orchard.svc"), dns.TypeA, in), "NXDOMAIN"},
		{"upper and lower case", query(wireName("PeAr.oRCHARD.SVC"), dns.TypeA, in), "NOERROR"},
		{"type 0", query(pear, 0, in), "NOERROR"},
		{"type 65535", query(pear, 65535, in), "NOERROR"},
		{"type OPT", query(pear, dns.TypeOPT, in), "NOERROR"},
		{"class CHAOS", query(pear, dns.TypeA, chaos), "REFUSED"},
		{"class HESIOD", query(pear, dns.TypeA, hesiod), "REFUSED"},
		{"class NONE", query(pear, dns.TypeA, none), "REFUSED"},
		{"class ANY", query(pear, dns.TypeA, anyClass), "REFUSED"},
		{"class 0", query(pear, dns.TypeA, 0), "REFUSED"},
		{"no question", query(nil, 0, 0, set(5, 0))[:12], "FORMERR"},
		{"two questions", append(query(pear, dns.TypeA, in, set(5, 2)), query(pear, dns.TypeAAAA, in)[12:]...), "FORMERR"},
		{"two questions, of which one is there", query(pear, dns.TypeA, in, set(5, 2)), "FORMERR"},
		{"the opcode of an inverse query", query(pear, dns.TypeA, in, set(2, dns.OpcodeIQuery<<3)), "NOTIMP"},
		{"the opcode STATUS", query(pear, dns.TypeA, in, set(2, dns.OpcodeStatus<<3)), "NOTIMP"},
		{"an opcode of nobody", query(pear, dns.TypeA, in, set(2, 15<<3)), "NOTIMP"},
		{"the opcode UPDATE", query(wireName("svc"), dns.TypeSOA, in, set(2, dns.OpcodeUpdate<<3)), "NOTIMP"},
		{"the opcode NOTIFY", query(labels("clusterset", "local"), dns.TypeSOA, in, set(2, dns.OpcodeNotify<<3)), "SERVFAIL"},
		{"EDNS of version 1", append(query(pear, dns.TypeA, in, set(11, 1)), optRecord(1)...), "BADVERS"},
		{"two OPT records", append(append(query(pear, dns.TypeA, in, set(11, 2)), optRecord(0)...), optRecord(0)...), "NOERROR"},
		{"three additional records", query(pear, dns.TypeA, in, set(11, 3)), "FORMERR"},
		{"a name that points to itself", query([]byte{0xc0, 12}, dns.TypeA, in), "FORMERR"},
		{"a name that points past the end", query([]byte{0xc3, 255}, dns.TypeA, in), "FORMERR"},
		{"a label of a kind that does not exist", query([]byte{0x80, 1, 'a', 0}, dns.TypeA, in), "FORMERR"},
		{"a question that ends in its name", query(pear, dns.TypeA, in)[:20], "FORMERR"},
		{"a question without its class", query(pear, dns.TypeA, in)[:len(pear)+14], "REFUSED"},
		{"bytes behind the question", append(query(pear, dns.TypeA, in), "and more"...), "NOERROR"},
		{"a header and nothing else", query(pear, dns.TypeA, in)[:12], "SERVFAIL"},
		{"half a header", query(pear, dns.TypeA, in)[:6], ""},
		{"one byte", []byte{0xba}, ""},
		{"an answer instead of a question", query(pear, dns.TypeA, in, set(2, 0x80)), ""},
	} {
		for _, network := range []string{"udp", "tcp"} {
			within := patience
			if c.want == "" {
				within = 300 * time.Millisecond
			}
			got, err := d.exchangeRaw(t, network, c.packet, within)
			if err != nil || got != c.want {
				t.Errorf("%s over %s: rcode %q, %v, want %q", c.what, network, got, err, c.want)
			}
		}
	}
}

// exchangeRaw sends a packet and returns the rcode of its answer; nothing when
// there is none within the time.
func (d *dnsProcess) exchangeRaw(t *testing.T, network string, packet []byte, within time.Duration) (string, error) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, d.addr)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(within)))
	c := &dns.Conn{Conn: conn, UDPSize: dns.MaxMsgSize}
	if _, err := c.Write(packet); err != nil {
		return "", err
	}
	reply, err := c.ReadMsg()
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, io.EOF):
		return "", nil
	case err != nil:
		return "", err
	case reply.Id != badID:
		return "", fmt.Errorf("a reply with id %x", reply.Id)
	case reply.Rcode == dns.RcodeBadVers: // a number that two names share
		return "BADVERS", nil
	}
	return dns.RcodeToString[reply.Rcode], nil
}

// wantStreamsToEnd writes what is no message to TCP connections, and leaves
// them open until all were written to.
func (d *dnsProcess) wantStreamsToEnd(t *testing.T) {
	t.Helper()
	pear := query(wireName("pear.orchard.svc"), dns.TypeA, dns.ClassINET)
	for what, stream := range map[string][]byte{
		"a message of no length":            {0, 0},
		"half a length":                     {0},
		"less than the length says":         {0xff, 0xff, 1, 2, 3},
		"the longest message, of zeros":     append([]byte{0xff, 0xff}, make([]byte, 0xffff)...),
		"a query without a length":          pear,
		"half a query behind a whole one":   append(append([]byte{0, byte(len(pear))}, pear...), 0, byte(len(pear)), 1),
		"a greeting of another protocol":    []byte("GET / HTTP/1.1\r\nHost: dns\r\n\r\n"),
		"the beginning of a TLS connection": {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.addr)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() }) // after all have been tried
		if _, err := conn.Write(stream); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := d.want(t, "A "+pearName, "NOERROR", "10.96.7.10"); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
}
