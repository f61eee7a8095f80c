package zone

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseReverse(t *testing.T) {
	for name, want := range map[string]string{
		"in-addr.arpa.":                        "0.0.0.0/0",
		"ip6.arpa.":                            "::/0",
		"10.in-addr.arpa.":                     "10.0.0.0/8",
		"4.0.22.10.in-addr.arpa.":              "10.22.0.4/32",
		"4.0.22.10.IN-ADDR.Arpa.":              "10.22.0.4/32",
		"0.0.0.0.in-addr.arpa.":                "0.0.0.0/32",
		"255.in-addr.arpa.":                    "255.0.0.0/8",
		"1.0.0.2.ip6.arpa.":                    "2001::/16",
		"8.B.d.0.1.0.0.2.ip6.arpa.":            "2001:db8::/32",
		strings.Repeat("f.", 32) + "ip6.arpa.": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
		strings.Repeat("f.", 33) + "ip6.arpa.": "",
		"1.4.0.22.10.in-addr.arpa.":            "",
		"256.in-addr.arpa.":                    "",
		"1000.in-addr.arpa.":                   "",
		"01.in-addr.arpa.":                     "",
		"+1.in-addr.arpa.":                     "",
		"-1.in-addr.arpa.":                     "",
		"x.in-addr.arpa.":                      "",
		"a.in-addr.arpa.":                      "",
		"g.ip6.arpa.":                          "",
		"10.ip6.arpa.":                         "",
		`\049.in-addr.arpa.`:                   "",
		"1..in-addr.arpa.":                     "",
		".1.in-addr.arpa.":                     "",
		"*.10.in-addr.arpa.":                   "",
		"0/25.2.0.192.in-addr.arpa.":           "", // RFC 2317
		"xin-addr.arpa.":                       "",
		"arpa.":                                "",
		"":                                     "",
	} {
		prefix, ok := ParseReverse(name)
		if want == "" && ok || want != "" && (!ok || prefix.String() != want) {
			t.Errorf("ParseReverse(%q) = %s, %v, want %q", name, prefix, ok, want)
		}
	}
}

// FuzzParseReverse compares ParseReverse with a slow reading of RFC 1035 3.5
// and RFC 3596 2.5, and ReverseName with both.
func FuzzParseReverse(f *testing.F) {
	for _, name := range []string{
		"4.0.22.10.in-addr.arpa.", "10.IN-ADDR.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "in-addr.arpa.", `\049.in-addr.arpa.`, "256.in-addr.arpa.",
		strings.Repeat("0.", 32) + "ip6.arpa.",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, in string) {
		name, ok := throughTheWire(in)
		if !ok {
			return
		}
		got, ok := ParseReverse(name)
		want, wantOK := slowParseReverse(name)
		if ok != wantOK || ok && got != want {
			t.Fatalf("ParseReverse(%q) = %s, %v, want %s, %v", name, got, ok, want, wantOK)
		}
		if ok && got.IsSingleIP() && ReverseName(got.Addr()) != strings.ToLower(name) {
			t.Errorf("ReverseName(%s) = %q, want %q", got.Addr(), ReverseName(got.Addr()), name)
		}
	})
}

var (
	inAddrArpa = regexp.MustCompile(`^((?:(?:0|[1-9]\d{0,2})\.){0,4})in-addr\.arpa\.$`)
	ip6Arpa    = regexp.MustCompile(`^((?:[0-9a-f]\.){0,32})ip6\.arpa\.$`)
)

func slowParseReverse(name string) (netip.Prefix, bool) {
	folded := []byte(name)
	for i, c := range folded {
		if 'A' <= c && c <= 'Z' {
			folded[i] = c + 32
		}
	}
	if m := inAddrArpa.FindSubmatch(folded); m != nil {
		numbers := strings.FieldsFunc(string(m[1]), func(r rune) bool { return r == '.' })
		slices.Reverse(numbers)
		for _, n := range numbers {
			if v, _ := strconv.Atoi(n); v > 255 {
				return netip.Prefix{}, false
			}
		}
		bits := 8 * len(numbers)
		return netip.PrefixFrom(netip.MustParseAddr(strings.Join(append(numbers, "0", "0", "0", "0")[:4], ".")), bits), true
	}
	if m := ip6Arpa.FindSubmatch(folded); m != nil {
		digits := strings.Split(strings.ReplaceAll(string(m[1]), ".", ""), "")
		slices.Reverse(digits)
		text := strings.Join(digits, "") + strings.Repeat("0", 32-len(digits))
		var groups []string
		for at := range 8 {
			groups = append(groups, text[4*at:4*at+4])
		}
		return netip.PrefixFrom(netip.MustParseAddr(strings.Join(groups, ":")), 4*len(digits)), true
	}
	return netip.Prefix{}, false
}
