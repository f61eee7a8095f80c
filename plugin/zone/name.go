package zone

import "strings"

// Form is the shape of a name, told from its labels alone. Whether a name of
// that shape exists is a matter of [Zone.Lookup].
type Form uint8

// The forms. FormNone is the zero value: no such name can exist.
const (
	FormNone       Form = iota
	FormApex            // Z
	FormVersion         // dns-version.Z
	FormDNS             // dns.Z
	FormNameserver      // ns.dns.Z
	FormSvc             // svc.Z
	FormNamespace       // N.svc.Z
	FormService         // S.N.svc.Z
	FormProtocol        // _T.S.N.svc.Z
	FormPort            // _P._T.S.N.svc.Z
	FormEndpoint        // one to three labels before S.N.svc.Z: C, or H.C, where C has one label or two
)

// leftForms is the grammar of what stands before S.N.svc.Z: by the number of
// labels, then by which of them begin with an underscore, where bit 0 is the
// label next to S. A cluster id never begins with one, so C and _T do not meet.
// C of two labels and H.C of one look alike; FormEndpoint leaves that to the
// look-up, because cluster ids may overlap and existence decides.
var leftForms = [maxLeft + 1][1 << maxLeft]Form{
	1: {0b0: FormEndpoint, 0b1: FormProtocol},
	2: {0b00: FormEndpoint, 0b11: FormPort},
	3: {0b000: FormEndpoint},
}

// maxLeft is the greatest number of labels before S.N.svc.Z.
const maxLeft = 3

// Query is a parsed name. The strings are lower case and parts of the name
// that was parsed, so that a name in lower case is not copied.
type Query struct {
	Form Form
	// Namespace is N, from FormNamespace on.
	Namespace string
	// Service is "S.N", the key of the service, from FormService on.
	Service string
	// Left is what stands before S.N, from FormProtocol on.
	Left string
}

// Parse reads the part of a name that stands before the origin, without the
// dot between them, as [Cut] returns it. Letters compare without case.
func Parse(rel string) Query {
	// An escape stands for a byte that none of our labels holds.
	if strings.IndexByte(rel, '\\') >= 0 {
		return Query{}
	}
	rel = lower(rel)
	switch rel {
	case "":
		return Query{Form: FormApex}
	case "dns-version":
		return Query{Form: FormVersion}
	case "dns":
		return Query{Form: FormDNS}
	case "ns.dns":
		return Query{Form: FormNameserver}
	case "svc":
		return Query{Form: FormSvc}
	}
	rest, ok := strings.CutSuffix(rel, ".svc")
	if !ok || rest == "" {
		return Query{}
	}
	dot := strings.LastIndexByte(rest, '.')
	namespace := rest[dot+1:]
	if namespace == "" {
		return Query{}
	}
	if dot < 0 {
		return Query{Form: FormNamespace, Namespace: namespace}
	}
	left := strings.LastIndexByte(rest[:dot], '.')
	if left+1 == dot { // an empty label
		return Query{}
	}
	q := Query{Form: FormService, Namespace: namespace, Service: rest[left+1:]}
	if left >= 0 {
		q.Left = rest[:left]
		q.Form = leftForm(q.Left)
	}
	if q.Form == FormNone {
		return Query{}
	}
	return q
}

// leftForm looks up what stands before S.N.svc.Z in leftForms.
func leftForm(left string) Form {
	labels, underscores := 0, 0
	for end := len(left); ; {
		dot := strings.LastIndexByte(left[:end], '.')
		if dot+1 == end || labels == maxLeft {
			return FormNone
		}
		if left[dot+1] == '_' {
			underscores |= 1 << labels
		}
		labels++
		if dot < 0 {
			return leftForms[labels][underscores]
		}
		end = dot
	}
}

// Cut splits an absolute name in presentation form into what stands before the
// origin and the origin. ok is false when the name is not the origin or below
// it; the test is by labels (RFC 1034 3.1) and without case. The origin is
// absolute and in lower case.
func Cut(name, origin string) (rel string, ok bool) {
	n := len(name) - len(origin)
	if n < 0 || !equalFold(name[n:], origin) {
		return "", false
	}
	if n == 0 {
		return "", true
	}
	if origin == "." {
		return name[:n], true
	}
	rel = name[:n-1]
	if name[n-1] != '.' || escapes(rel) {
		return "", false
	}
	return rel, true
}

// escapes reports whether the byte after s is escaped: s ends in an odd number
// of backslashes.
func escapes(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// equalFold compares a name with a lower-case one. DNS folds ASCII and nothing
// else (RFC 4343), so strings.EqualFold is wrong here.
func equalFold(name, lowerCase string) bool {
	if name == lowerCase {
		return true
	}
	for i := range len(name) {
		if lowerByte(name[i]) != lowerCase[i] {
			return false
		}
	}
	return true
}

// lower is s with ASCII letters in lower case; s itself when it has none in
// upper case.
func lower(s string) string {
	for i := range len(s) {
		if lowerByte(s[i]) == s[i] {
			continue
		}
		b := []byte(s)
		for ; i < len(b); i++ {
			b[i] = lowerByte(b[i])
		}
		return string(b)
	}
	return s
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
