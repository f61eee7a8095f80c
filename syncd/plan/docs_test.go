package plan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDocsListTheNotices(t *testing.T) {
	text, err := os.ReadFile("../../docs/conflicts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, notices, _ := strings.Cut(string(text), "\n## What a ServiceImport says\n")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(notices, -1) {
		documented = append(documented, m[1], m[2])
	}
	actual := []string{
		ConditionZoneRouting, ReasonNoZone, ConditionLocalEndpoints, ReasonNoLocalEndpoints, ConditionIPFamilies, ReasonIPFamilyConflict,
		ConditionMetadata, ReasonKeysDropped, ConditionStoredOffers, ReasonStoredOffersTooBig,
	}
	if !slices.Equal(documented, actual) {
		t.Errorf("docs/conflicts.md lists %v, the notices are %v", documented, actual)
	}
}
