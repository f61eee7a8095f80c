package caserun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/k8s-mcs/k8s-mcs/test/kubetest"
)

// wrong are case files with one expectation turned into its opposite. The
// runner inverts all expectations of all cases by itself whenever it runs them;
// here a wrong file goes the whole way.
var wrong = []struct{ file, old, new, want string }{
	{"C001.yaml", "rcode: NOERROR", "rcode: NXDOMAIN", "rcode is NOERROR, want NXDOMAIN"},
	{"C001.yaml", "A 10.96.7.10", "A 10.96.7.11", "want [\"pear.orchard.svc.clusterset.local. A 10.96.7.11\"]"},
	{"C001.yaml", "aa: true", "aa: false", "aa is true, want false"},
	{"C032.yaml", "max_size: 512", "max_size: 100", "want at most 100"},
	{"C032.yaml", "tc: true", "tc: false", "tc is true, want false"},
	{"C013.yaml", "soa_minimum_max: 5", "soa_minimum_max: 1", "the SOA's minimum is 5, want at most 1"},
	{"C044.yaml", "max: 0", "max: -1", "want at most -1"},
	{"C055.yaml", "status: 200", "status: 404", "/metrics of dns is 200, want 404"},
	{"C068.yaml", "contains: fig-x", "contains: fig-y", "no line of level \"warning\" has \"fig-y\""},
	{"C068.yaml", "level: warning", "level: error", "no line of level \"error\""},
	{"C141.yaml", "error_contains: k8s_mcs", "error_contains: k9s_mcs", "no error speaks of \"k9s_mcs\""},
}

func TestWrongCaseFilesFail(t *testing.T) {
	right := map[string]bool{}
	var cases []*Case
	var texts []string
	for i, edit := range wrong {
		content, err := os.ReadFile(filepath.Join("..", edit.file))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(content), edit.old, edit.new, 1)
		if text == string(content) {
			t.Fatalf("%s has no %q", edit.file, edit.old)
		}
		if !right[edit.file] {
			right[edit.file] = true
			c, err := Parse(edit.file, content)
			if err != nil {
				t.Fatal(err)
			}
			cases, texts = append(cases, c), append(texts, "")
		}
		c, err := Parse(edit.file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c.ID += "-wrong-" + string(rune('a'+i)) // a folder of its own
		c.hurry()
		cases, texts = append(cases, c), append(texts, edit.want)
	}
	runner := &Runner{Bed: kubetest.ForTest(t), Clusters: 3, Out: t.Output()}
	results, err := runner.Run(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want := Passed
		if texts[i] != "" {
			want = Failed
		}
		if r.Outcome != want || !strings.Contains(r.Why, texts[i]) {
			t.Errorf("%s %s: %s, want %s for the reason %q", r.Case.ID, r.Outcome, r.Why, want, texts[i])
		}
		if want == Passed && len(r.Inverted) == 0 && r.Case.Layer != "config" {
			t.Errorf("%s passed, and no expectation was inverted", r.Case.ID)
		}
	}
}

// hurry makes checks fail after a second: they are right at once or never.
func (c *Case) hurry() {
	for i := range c.Queries {
		c.Queries[i].Expect.Within = 1
	}
}
