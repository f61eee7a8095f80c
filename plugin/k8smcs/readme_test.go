package k8smcs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// codeBlocks are the fenced blocks of a language.
func codeBlocks(text, language string) (blocks []string) {
	for _, m := range regexp.MustCompile(`(?ms)^~~~ `+language+`\n(.*?)^~~~$`).FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// section is the text under a heading.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the README has no section %s", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func TestReadmeHasTheSectionsOfAManPage(t *testing.T) {
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readme(t), -1) {
		got = append(got, m[1])
	}
	if want := []string{"Name", "Description", "Syntax", "Metrics", "Ready", "Examples", "Bugs", "See Also"}; !slices.Equal(got, want) {
		t.Errorf("sections %q, want %q", got, want)
	}
}

func TestReadmeCorefilesLoad(t *testing.T) {
	inPod(t)
	kubeconfig := writeFile(t, "kubeconfig", kubeconfigText)
	blocks := codeBlocks(readme(t), "corefile")
	if len(blocks) < 3 {
		t.Fatalf("%d Corefiles found, want all of the README", len(blocks))
	}
	for _, text := range blocks {
		text = strings.ReplaceAll(text, "/etc/mcs-core-dns/kubeconfig", kubeconfig)
		if err := caddy.ValidateAndExecuteDirectives(input(text), nil, true); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestReadmeListsEveryOption(t *testing.T) {
	syntax := section(t, readme(t), "Syntax")
	blocks := codeBlocks(syntax, "txt")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks in Syntax, want 2", len(blocks))
	}
	var listed, want []string
	for line := range strings.Lines(blocks[1]) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			listed = append(listed, strings.TrimSpace(line))
		}
	}
	for name, opt := range options {
		want = append(want, opt.syntax)
		if !strings.Contains(syntax, "\n* `"+name+"` ") {
			t.Errorf("option %s is not explained", name)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the README lists %q, and the parser knows %q", listed, want)
	}
}

func TestReadmeListsEveryMetric(t *testing.T) {
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\* `(coredns_[a-z0-9_]+)").FindAllStringSubmatch(section(t, readme(t), "Metrics"), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if want := metricNames(t); !slices.Equal(listed, want) {
		t.Errorf("the README lists %q, and the registry has %q", listed, want)
	}
}
