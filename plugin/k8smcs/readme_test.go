package k8smcs

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
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
	if want := []string{"Name", "Description", "Compilation", "Syntax", "Reload", "Metrics", "Metadata", "Ready", "Examples", "Bugs", "See Also"}; !slices.Equal(got, want) {
		t.Errorf("sections %q, want %q", got, want)
	}
}

func TestReadmeCorefilesLoad(t *testing.T) {
	inPod(t)
	kubeconfig := writeFile(t, "kubeconfig", kubeconfigText)
	blocks := codeBlocks(readme(t), "corefile")
	if len(blocks) < 7 {
		t.Fatalf("%d Corefiles found, want all of the README", len(blocks))
	}
	for _, text := range blocks {
		text = strings.NewReplacer("/etc/mcs-core-dns/kubeconfig", kubeconfig, "/var/lib/mcs-core-dns", t.TempDir()).Replace(text)
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

// TestReadmeListsEveryReason reads the closed sets that are values of labels out
// of the source, because constants cannot be listed.
func TestReadmeListsEveryReason(t *testing.T) {
	text, err := os.ReadFile("../source/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	metrics := section(t, readme(t), "Metrics")
	values := regexp.MustCompile(`(?m)^\t\w+ +(?:Reason|SnapshotResult) += "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(values) < 10 {
		t.Fatalf("%d values found, want all of the file", len(values))
	}
	for _, v := range values {
		if !strings.Contains(metrics, "`"+v[1]+"`") {
			t.Errorf("%q is not in the README", v[1])
		}
	}
}

func TestReadmeShowsEveryOptionInACorefile(t *testing.T) {
	all := strings.Join(codeBlocks(section(t, readme(t), "Examples"), "corefile"), "")
	for name := range options {
		if name != "disablelegacysync" && !strings.Contains(all, "\n        "+name) {
			t.Errorf("option %s is in no example", name)
		}
	}
}

func TestReadmeListsEveryMetadataLabel(t *testing.T) {
	text := section(t, readme(t), "Metadata")
	var listed []string
	for _, m := range regexp.MustCompile("`(k8s_mcs/[a-z-]+)`").FindAllStringSubmatch(text, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(labels)); !slices.Equal(listed, want) {
		t.Errorf("the README lists %q, and the plugin has %q", listed, want)
	}
}

// TestReadmeCompilesThePluginIntoItsPlace follows the section Compilation with
// CoreDNS's own generator, up to the files that it writes.
//
// names: N39.
func TestReadmeCompilesThePluginIntoItsPlace(t *testing.T) {
	blocks := codeBlocks(section(t, readme(t), "Compilation"), "sh")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of commands, want one", len(blocks))
	}
	edit, _, _ := strings.Cut(blocks[0], "\n")
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns").Output()
	if err != nil {
		t.Fatalf("find CoreDNS: %v", err)
	}
	coredns, dir := strings.TrimSpace(string(out)), t.TempDir()
	if err := os.Symlink(filepath.Join(coredns, "plugin"), filepath.Join(dir, "plugin")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plugin.cfg", "directives_generate.go"} {
		text, err := os.ReadFile(filepath.Join(coredns, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600) //nolint:gosec // a folder of this test
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"core/plugin", "core/dnsserver"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{edit, "go run directives_generate.go"} {
		c := exec.CommandContext(t.Context(), "sh", "-c", line)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	generated := func(name, pattern string) (found []string) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
		return found
	}
	if got := generated("core/dnsserver/zdirectives.go", `(?m)^\t"(.*)",$`); !slices.Equal(got, dnsserver.Directives) {
		t.Errorf("the order is %q, and that of mcs-core-dns %q", got, dnsserver.Directives)
	}
	ours := reflect.TypeFor[Plugin]().PkgPath()
	if got := generated("core/plugin/zplugin.go", `(?m)^\t_ "(.*)"$`); !slices.Contains(got, ours) {
		t.Errorf("the imports %q do not have %s", got, ours)
	}
}
