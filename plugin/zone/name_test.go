package zone

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Query{
		"":                               {Form: FormApex},
		"dns-version":                    {Form: FormVersion},
		"DNS-VERSION":                    {Form: FormVersion},
		"dns":                            {Form: FormDNS},
		"ns.dns":                         {Form: FormNameserver},
		"svc":                            {Form: FormSvc},
		"n.svc":                          {Form: FormNamespace, Namespace: "n"},
		"s.n.svc":                        {Form: FormService, Namespace: "n", Service: "s.n"},
		"S.N.Svc":                        {Form: FormService, Namespace: "n", Service: "s.n"},
		"_tcp.s.n.svc":                   {Form: FormProtocol, Namespace: "n", Service: "s.n", Left: "_tcp"},
		"_http._tcp.s.n.svc":             {Form: FormPort, Namespace: "n", Service: "s.n", Left: "_http._tcp"},
		"c.s.n.svc":                      {Form: FormEndpoint, Namespace: "n", Service: "s.n", Left: "c"},
		"h.c.s.n.svc":                    {Form: FormEndpoint, Namespace: "n", Service: "s.n", Left: "h.c"},
		"h.c.r.s.n.svc":                  {Form: FormEndpoint, Namespace: "n", Service: "s.n", Left: "h.c.r"},
		"x.h.c.r.s.n.svc":                {},
		"_a._b._c.s.n.svc":               {},
		"h._tcp.s.n.svc":                 {},
		"_h.c.s.n.svc":                   {},
		"_h.c.r.s.n.svc":                 {},
		"x.svc.y":                        {},
		"svcx":                           {},
		"xsvc":                           {},
		"s.n.xsvc":                       {},
		"x.dns":                          {},
		"x":                              {},
		".svc":                           {},
		"s..svc":                         {},
		".n.svc":                         {},
		"c..n.svc":                       {},
		"..n.svc":                        {},
		".c.s.n.svc":                     {},
		"h..s.n.svc":                     {},
		`s\.x.n.svc`:                     {},
		`s.n\svc`:                        {},
		`\115.n.svc`:                     {},
		"s.n.\u017fvc":                   {}, // the long s folds to s in Unicode, not in DNS
		strings.Repeat("x.", 60) + "svc": {},
	} {
		if got := Parse(name); got != want {
			t.Errorf("Parse(%q) = %+v, want %+v", name, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name, origin, rel string
		ok                bool
	}{
		{"s.n.svc.clusterset.local.", "clusterset.local.", "s.n.svc", true},
		{"S.n.svc.ClusterSet.LOCAL.", "clusterset.local.", "S.n.svc", true},
		{"clusterset.local.", "clusterset.local.", "", true},
		{"xclusterset.local.", "clusterset.local.", "", false},
		{"local.", "clusterset.local.", "", false},
		{"s.n.svc.cluster.local.", "clusterset.local.", "", false},
		{`x\.clusterset.local.`, "clusterset.local.", "", false},
		{`x\\.clusterset.local.`, "clusterset.local.", `x\\`, true},
		{`x\\\.clusterset.local.`, "clusterset.local.", "", false},
		{".clusterset.local.", "clusterset.local.", "", true},
		{"a.b.", ".", "a.b", true},
		{".", ".", "", true},
		{"\u212a.", "k.", "", false},
	} {
		if rel, ok := Cut(c.name, c.origin); rel != c.rel || ok != c.ok {
			t.Errorf("Cut(%q, %q) = %q, %v, want %q, %v", c.name, c.origin, rel, ok, c.rel, c.ok)
		}
	}
}

// FuzzParse compares Cut and Parse with a slow reading of the same grammar, on
// names as miekg/dns unpacks them from a message.
func FuzzParse(f *testing.F) {
	for _, rel := range []string{
		"", "svc.", "dns-version.", "ns.dns.", "n.svc.", "s.n.svc.", "_tcp.s.n.svc.", "_http._tcp.s.n.svc.",
		"h.c.s.n.svc.", "h.c.r.s.n.svc.", "x.h.c.r.s.n.svc.", `a\.b.n.svc.`, `\000.n.svc.`, "_a.b.s.n.svc.", "S.N.SVC.",
	} {
		f.Add(rel + "clusterset.local.")
	}
	f.Add(`x\.clusterset.local.`)
	f.Add("xclusterset.local.")
	f.Fuzz(func(t *testing.T, in string) {
		name, ok := throughTheWire(in)
		if !ok {
			return
		}
		rel, ok := Cut(name, testOrigin)
		if ok != dns.IsSubDomain(testOrigin, name) {
			t.Fatalf("Cut(%q) = %v", name, ok)
		}
		if !ok {
			return
		}
		if got, want := Parse(rel), slowParse(name); got != want {
			t.Errorf("Parse(%q) = %+v, want %+v", rel, got, want)
		}
	})
}

// throughTheWire is a name as it is unpacked from a message; ok is false when
// no message can hold it.
func throughTheWire(in string) (name string, ok bool) {
	var wire [300]byte
	n, err := dns.PackDomainName(in, wire[:], 0, nil, false)
	if err != nil {
		return "", false
	}
	name, _, err = dns.UnpackDomainName(wire[:n], 0)
	return name, err == nil
}

// slowParse reads the grammar label by label.
func slowParse(name string) Query {
	labels := dns.SplitDomainName(strings.ToLower(name))
	labels = labels[:len(labels)-dns.CountLabel(testOrigin)]
	for _, l := range labels {
		if strings.Contains(l, `\`) {
			return Query{}
		}
	}
	switch strings.Join(labels, ".") {
	case "":
		return Query{Form: FormApex}
	case "svc":
		return Query{Form: FormSvc}
	case "dns":
		return Query{Form: FormDNS}
	case "ns.dns":
		return Query{Form: FormNameserver}
	case "dns-version":
		return Query{Form: FormVersion}
	}
	n := len(labels)
	if labels[n-1] != "svc" || n > 6 {
		return Query{}
	}
	q := Query{Namespace: labels[n-2]}
	if n == 2 {
		q.Form = FormNamespace
		return q
	}
	q.Service = labels[n-3] + "." + labels[n-2]
	left := labels[:n-3]
	q.Left = strings.Join(left, ".")
	under := 0
	for _, l := range left {
		if strings.HasPrefix(l, "_") {
			under++
		}
	}
	switch {
	case len(left) == 0:
		q.Form = FormService
	case under == 0:
		q.Form = FormEndpoint
	case len(left) == 1:
		q.Form = FormProtocol
	case len(left) == 2 && under == 2:
		q.Form = FormPort
	default:
		return Query{}
	}
	return q
}

func TestIsLabel(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "a-b": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false, "_a": false, "ä": false, strings.Repeat("a", 64): false,
	} {
		if got := IsLabel(s); got != want {
			t.Errorf("IsLabel(%q) = %v", s, got)
		}
	}
}
