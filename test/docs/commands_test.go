package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// screen is how many lines fit on the README's first screen.
const screen = 40

func TestTheFirstScreenHasTwoCommands(t *testing.T) {
	first, _, ok := strings.Cut(read(t, "README.md"), "\n## ")
	if n := strings.Count(first, "\n"); !ok || n > screen {
		t.Errorf("README.md begins with %d lines before its first heading, want at most %d", n, screen)
	}
	var commands []string
	fenced := false
	for line := range strings.Lines(first) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			command, _, _ := strings.Cut(line, "#")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if want := []string{"make demo", "make test"}; !slices.Equal(commands, want) {
		t.Errorf("the commands on the first screen of README.md are %q, want %q", commands, want)
	}
}

// mentioned finds make targets in text: in backquotes, or at the beginning of a
// line of a code block, perhaps after variables.
var mentioned = regexp.MustCompile("(?m)(?:^(?:[A-Z_]+=\\S+ )*|`(?:[A-Z_]+=\\S+ )*)make ((?:[a-z]+ ?)+)(?:`|$|[ ]+#)")

func TestEveryMakeTargetInTheDocumentsExists(t *testing.T) {
	var targets []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z]+):.*##`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, match[1])
	}
	found := false
	for name, text := range documents(t) {
		for _, match := range mentioned.FindAllStringSubmatch(text, -1) {
			for target := range strings.FieldsSeq(match[1]) {
				found = true
				if !slices.Contains(targets, target) {
					t.Errorf("%s speaks of make %s, which the Makefile does not have", name, target)
				}
			}
		}
	}
	if !found || len(targets) == 0 {
		t.Error("no target found: this test no longer reads the documents or the Makefile")
	}
	layers := read(t, "docs", "testing.md")
	for _, target := range targets {
		if !strings.Contains(layers, "`make "+target+"`") {
			t.Errorf("docs/testing.md does not explain make %s", target)
		}
	}
}

func TestTestingListsTheStagesOfCI(t *testing.T) {
	var stages []string
	for _, match := range regexp.MustCompile(`(?m)^stage (\w+) `).FindAllStringSubmatch(read(t, ".ci", "run"), -1) {
		stages = append(stages, match[1])
	}
	var listed []string
	for _, row := range table(read(t, "docs", "testing.md"), "Stages of .ci/run") {
		listed = append(listed, strings.Trim(row[0], "`"))
	}
	if !slices.Equal(listed, stages) {
		t.Errorf("docs/testing.md lists the stages %q, .ci/run has %q", listed, stages)
	}
	if !slices.Contains(stages, "test") {
		t.Error(".ci/run has no stage test")
	}
}
