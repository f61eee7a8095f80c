package merge

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestDocsListTheConflictsInTheirOrder(t *testing.T) {
	text, err := os.ReadFile("../../docs/conflicts.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, actual []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+Conflict)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	for _, r := range rules {
		actual = append(actual, string(r.reason))
	}
	if !slices.Equal(documented, actual) {
		t.Errorf("docs/conflicts.md lists %v, the rules are %v", documented, actual)
	}
}
