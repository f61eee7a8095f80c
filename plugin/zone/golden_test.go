package zone

import (
	"bufio"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/k8s-mcs/k8s-mcs/internal/mcs"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

const testOrigin = "clusterset.local."

// A golden file begins with a sentence and holds objects, one a line:
//
//	nameserver ADDRESS...
//	origin NAME...
//	local CLUSTER
//	prefer local | hide empty | reverse      (options)
//	import NAMESPACE/NAME clusterset|headless [ADDRESS...] [NAME:PROTOCOL:PORT...]
//	slice NAMESPACE/SLICE SERVICE CLUSTER [NAME:PROTOCOL:PORT...]
//	endpoint ADDRESS [HOST]      (of the slice above)
//
// then questions, "TYPE NAME" without the origin, "." for the origin itself, a
// reverse name whole, and what was answered. -update rewrites the answers.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) != 2 || archive.Files[0].Name != "objects" || archive.Files[1].Name != "answers" {
				t.Fatalf("want the sections objects and answers")
			}
			b := parseObjects(t, string(archive.Files[0].Data))
			z, problems := b.Publish(1)
			want := string(archive.Files[1].Data)
			var got strings.Builder
			for _, p := range problems {
				fmt.Fprintf(&got, "# %s: %s\n", p.Service, p.Detail)
			}
			for line := range strings.Lines(want) {
				if question, _, _ := strings.Cut(strings.TrimSpace(line), " = "); question != "" && question[0] != '#' {
					fmt.Fprintf(&got, "%s = %s\n", question, ask(t, z, question))
				}
			}
			if *update {
				archive.Files[1].Data = []byte(got.String())
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("answers differ (-want +got):\n%s", diff)
			}
		})
	}
}

var types = map[string]Type{
	"A": TypeA, "NS": TypeNS, "SOA": TypeSOA, "TXT": TypeTXT, "AAAA": TypeAAAA, "SRV": TypeSRV, "ANY": TypeANY,
	"PTR": TypePTR, "MX": 15, "HTTPS": 65, "DS": 43,
}

// ask answers "TYPE NAME" in one line.
func ask(t *testing.T, z *Zone, question string) string {
	t.Helper()
	typ, name, ok := strings.Cut(question, " ")
	if _, known := types[typ]; !ok || !known {
		t.Fatalf("question %q: want TYPE NAME with a known type", question)
	}
	rel := strings.TrimSpace(name)
	if strings.HasSuffix(strings.ToLower(rel), ".arpa.") {
		prefix, ok := ParseReverse(rel)
		if !ok {
			return "NXDOMAIN"
		}
		a := z.Reverse(prefix, types[typ])
		return a.text()
	}
	if rel == "." {
		rel = ""
	}
	a := z.Lookup(Parse(rel), types[typ], 0)
	return a.text()
}

func (a *Answer) text() string {
	switch a.Result {
	case NameError:
		return "NXDOMAIN"
	case NoData:
		return "NODATA"
	case ApexSOA:
		return "the SOA"
	case ApexNS:
		return "the NS"
	case VersionTXT:
		return strconv.Quote(Version)
	case Records:
	}
	var out []string
	for _, v4 := range a.V4 {
		out = append(out, netip.AddrFrom4(v4).String())
	}
	for _, v6 := range a.V6 {
		out = append(out, netip.AddrFrom16(v6).String())
	}
	for i, s := range a.SRV {
		text := fmt.Sprintf("%d %s", s.Port, a.Target(s))
		if v4, v6, again := a.TargetAddresses(i); a.Additional && !again {
			additional := Answer{Result: Records, V4: v4, V6: v6}
			text += " (" + additional.text() + ")"
		}
		out = append(out, text)
	}
	out = slices.AppendSeq(out, a.PTR())
	return strings.Join(out, "; ")
}

func parseObjects(t *testing.T, text string) *Builder {
	t.Helper()
	opts := Options{Origins: []string{testOrigin}}
	var imports []Import
	var sl []Slice
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		f := strings.Fields(scanner.Text())
		if len(f) == 0 {
			continue
		}
		switch verb, args := f[0], f[1:]; verb {
		case "local":
			opts.Local = mcs.ClusterID(args[0])
		case "prefer":
			opts.PreferLocal = args[0] == "local"
		case "hide":
			opts.HideEmpty = args[0] == "empty"
		case "reverse":
			opts.Reverse = true
		case "origin":
			opts.Origins = args
		case "nameserver":
			for _, a := range args {
				opts.Nameservers = append(opts.Nameservers, netip.MustParseAddr(a))
			}
		case "import":
			imp := Import{Key: key(t, args[0]), Headless: args[1] == "headless"}
			for _, a := range args[2:] {
				if addr, err := netip.ParseAddr(a); err == nil {
					imp.Addresses = append(imp.Addresses, addr)
				} else {
					imp.Ports = append(imp.Ports, parsePort(t, a))
				}
			}
			imports = append(imports, imp)
		case "slice":
			k := key(t, args[0])
			s := Slice{Name: k.Name, Service: mcs.ServiceKey{Namespace: k.Namespace, Name: args[1]}, Cluster: mcs.ClusterID(args[2])}
			for _, p := range args[3:] {
				s.Ports = append(s.Ports, parsePort(t, p))
			}
			sl = append(sl, s)
		case "endpoint":
			e := Endpoint{Address: netip.MustParseAddr(args[0])}
			if len(args) > 1 {
				e.Host = args[1]
			}
			last := &sl[len(sl)-1]
			last.Endpoints = append(last.Endpoints, e)
		default:
			t.Fatalf("unknown object %q", verb)
		}
	}
	b := NewBuilder(opts)
	b.ReplaceImports("", imports)
	b.ReplaceSlices("", sl)
	return b
}

func key(t *testing.T, s string) mcs.ServiceKey {
	t.Helper()
	k, err := mcs.ParseServiceKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// parsePort reads NAME:PROTOCOL:PORT; the name may be empty.
func parsePort(t *testing.T, s string) Port {
	t.Helper()
	f := strings.Split(s, ":")
	n, err := strconv.ParseUint(f[len(f)-1], 10, 16)
	if err != nil || len(f) != 3 || !slices.Contains([]string{"tcp", "udp", "sctp"}, f[1]) {
		t.Fatalf("port %q: want NAME:PROTOCOL:PORT", s)
	}
	return Port{Name: f[0], Protocol: f[1], Number: uint16(n)}
}
