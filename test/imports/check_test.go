package imports

import (
	"slices"
	"strings"
	"testing"
)

// TestSourceFindsWhatIsForbidden feeds small bad files, so that a checker that
// has gone blind is noticed.
func TestSourceFindsWhatIsForbidden(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want string // part of the one finding; empty when the file is right
	}{
		"values, errors and durations are fine": {
			src: "package p\nimport (\n\"errors\"\n\"fmt\"\n\"time\"\n)\nvar E = fmt.Errorf(\"x: %w\", errors.New(\"y\"))\nfunc F(now time.Time) time.Time { return now.Add(time.Second) }",
		},
		"a package on the list is fine":            {src: "package p\nimport _ \"example.com/list/a\""},
		"a package below one on the list is fine":  {src: "package p\nimport _ \"example.com/list/a/b\""},
		"a package that only begins like the list": {src: "package p\nimport _ \"example.com/list/ab\"", want: "f.go:2:8: imports example.com/list/ab, which is not on its list"},
		"a package below one that stands alone":    {src: "package p\nimport _ \"example.com/one/b\"", want: "imports example.com/one/b"},
		"a client":                                 {src: "package p\nimport \"k8s.io/client-go/kubernetes\"\nvar _ kubernetes.Interface", want: "imports k8s.io/client-go/kubernetes"},
		"a context":                                {src: "package p\nimport \"context\"\nfunc F(context.Context) {}", want: "imports context"},
		"a logger":                                 {src: "package p\nimport \"log/slog\"\nvar L *slog.Logger", want: "imports log/slog"},
		"the file system":                          {src: "package p\nimport \"os\"\nvar F = os.Args", want: "imports os"},
		"a socket":                                 {src: "package p\nimport \"net\"\nvar C net.Conn", want: "imports net:"},
		"addresses are fine":                       {src: "package p\nimport \"net/netip\"\nvar A netip.Addr"},
		"HTTP":                                     {src: "package p\nimport \"net/http/httptest\"\nvar S httptest.Server", want: "imports net/http/httptest"},
		"a goroutine":                              {src: "package p\nfunc F() {\n\tgo F()\n}", want: "f.go:3:2: starts a goroutine"},
		"a goroutine inside a function literal":    {src: "package p\nvar F = func() { go print() }", want: "starts a goroutine"},
		"the clock":                                {src: "package p\nimport \"time\"\nvar T = time.Now()", want: "calls time.Now"},
		"the clock as a value":                     {src: "package p\nimport \"time\"\nvar Now = time.Now", want: "calls time.Now"},
		"the clock by another name":                {src: "package p\nimport clock \"time\"\nvar T = clock.Since(clock.Time{})", want: "calls time.Since"},
		"a timer":                                  {src: "package p\nimport \"time\"\nfunc F() { <-time.After(1) }", want: "calls time.After"},
		"an import without a name":                 {src: "package p\nimport . \"time\"\nvar T = Now()", want: "imports time without a name"},
		"output on the terminal":                   {src: "package p\nimport \"fmt\"\nfunc F() { fmt.Println() }", want: "calls fmt.Println"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Source("f.go", []byte(c.src), []string{"example.com/list/a", "example.com/one$"})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %q in a file that is right", found)
			case c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)):
				t.Errorf("found %q, want one finding with %q", found, c.want)
			}
		})
	}
}

func TestSourceReportsAFileThatDoesNotParse(t *testing.T) {
	if found, err := Source("f.go", []byte("package"), nil); err == nil {
		t.Errorf("found %q and no error in half a file", found)
	}
}

func TestReachFindsEachForbiddenPackageOnce(t *testing.T) {
	got := Reach(
		[]string{"fmt", "github.com/coredns/coredns/plugin", "github.com/corednsx/y", "a.io/b", "a.io/b/c", "a.io/b"},
		[]string{"github.com/coredns", "a.io/b$"})
	if want := []string{"a.io/b", "github.com/coredns/coredns/plugin"}; !slices.Equal(got, want) {
		t.Errorf("Reach = %q, want %q", got, want)
	}
}
