package caserun

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemaText is SCHEMA.md of the case files.
func schemaText(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// quoted finds the words in backquotes.
var (
	quoted = regexp.MustCompile("`([^`]+)`")
	word   = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_./-]*`)
)

// tableWords are the words in backquotes of the rows of the table whose head
// begins so, by column.
func tableWords(t *testing.T, text, head string, columns ...int) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "| "+head+" |")
	if !ok {
		t.Fatalf("SCHEMA.md has no table that begins with %s", head)
	}
	var words []string
	for i, line := range strings.Split(rest, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			if i == 0 {
				t.Fatalf("the table %s of SCHEMA.md has no rows", head)
			}
			break
		}
		cells := strings.Split(strings.ReplaceAll(line, "|reachable|", " reachable "), " | ")
		for _, column := range columns {
			for _, match := range quoted.FindAllStringSubmatch(cells[column], -1) {
				words = append(words, word.FindAllString(match[1], -1)...)
			}
		}
	}
	return words
}

// tags are the keys that a struct is read from.
func tags(v any) []string {
	var keys []string
	for field := range reflect.TypeOf(v).Fields() {
		if key := field.Tag.Get("case"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// known reports whether a word is implemented or on the list of those that are
// not, at the given place. It is an error to be both.
func known(t *testing.T, implemented []string, later, word string) {
	t.Helper()
	here := slices.Contains(implemented, word)
	reason, listed := notYet[later+word]
	switch {
	case here && listed:
		t.Errorf("%s is implemented, and in notYet as %s%s", word, later, word)
	case !here && !listed:
		t.Errorf("SCHEMA.md has the word %s: it is neither implemented nor in notYet as %s%s", word, later, word)
	case listed && reason == "":
		t.Errorf("notYet has no reason for %s%s", later, word)
	}
}

func TestEveryWordOfTheSchemaIsImplementedOrListedWithAReason(t *testing.T) {
	text := schemaText(t)
	t.Run("head", func(t *testing.T) {
		for _, w := range tableWords(t, text, "key | meaning", 0) {
			known(t, tags(Case{}), "", w)
		}
	})
	t.Run("verbs", func(t *testing.T) {
		for _, w := range tableWords(t, text, "`do` | fields", 0) {
			known(t, slices.Collect(maps.Keys(verbs)), "do:", w)
		}
	})
	t.Run("fields of verbs", func(t *testing.T) {
		values := []string{"watches_cut", "unreachable", "reachable", "cut", "restored", "syncd", "dns", "Kind/name", "new_token_written", "old_token_revoked", "server_moved", "s"}
		for _, w := range tableWords(t, text, "`do` | fields", 1) {
			if !slices.Contains(values, w) {
				known(t, tags(Event{}), "events.", w)
			}
		}
	})
	t.Run("expect of queries", func(t *testing.T) {
		values := []string{"name", "TYPE", "data", "SPEC_IPS", "cluster/ns/name", "soa", "any", "equal", "greater", "via", "repeat"}
		for _, w := range tableWordsAfter(t, text, "## Queries") {
			if !slices.Contains(values, w) {
				known(t, tags(QueryExpect{}), "queries.expect.", w)
			}
		}
	})
	t.Run("expect", func(t *testing.T) {
		_, rest, ok := strings.Cut(text, "## Expect (outside DNS)")
		if !ok {
			t.Fatal("SCHEMA.md has no such section")
		}
		section, _, _ := strings.Cut(rest, "\n## ")
		keys := regexp.MustCompile("`([a-z_]+): ").FindAllStringSubmatch(section, -1)
		bare := regexp.MustCompile("[,;] `([a-z_]+)`").FindAllStringSubmatch(section, -1)
		if len(keys) < 8 || len(bare) < 5 {
			t.Fatalf("found %d keys and %d words: this test no longer reads the section", len(keys), len(bare))
		}
		inner := slices.Concat(tags(ObjectCheck{}), tags(MetricCheck{}), []string{"ips_count", "labels_absent", "ports_exactly"})
		for _, match := range append(keys, bare...) {
			if !slices.Contains(inner, match[1]) {
				known(t, tags(Expect{}), "expect.", match[1])
			}
		}
	})
	t.Run("config", func(t *testing.T) {
		_, rest, _ := strings.Cut(text, "- `config` -")
		section, _, _ := strings.Cut(rest, "\n- `events")
		keys := regexp.MustCompile("`([a-z_]+)[:`]").FindAllStringSubmatch(section, -1)
		if len(keys) < 10 {
			t.Fatalf("found %d keys: this test no longer reads the section", len(keys))
		}
		inner := slices.Concat(tags(Syncd{}), []string{"via"})
		for _, match := range keys {
			if !slices.Contains(inner, match[1]) {
				known(t, tags(Config{}), "config.", match[1])
			}
		}
	})
}

// tableWordsAfter are the first-column words of the table below a heading.
func tableWordsAfter(t *testing.T, text, heading string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(text, heading)
	if !ok {
		t.Fatalf("SCHEMA.md has no %s", heading)
	}
	return tableWords(t, rest, "key | meaning", 0)
}

func TestEveryWordThatIsNotYetIsStillInTheSchema(t *testing.T) {
	text := schemaText(t)
	for path := range notYet {
		w := path[strings.LastIndexAny(path, ".:=")+1:]
		if !strings.Contains(text, w) {
			t.Errorf("notYet has %s, which SCHEMA.md does not have", path)
		}
	}
}

func TestEveryKeyThatIsReadIsUsed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		if file == "case.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(content)
	}
	content, err := os.ReadFile("case.go")
	if err != nil {
		t.Fatal(err)
	}
	told := []string{"Split", "Family", "Basis", "Fault", "Reason", "Notes", "Alternatives", "Sources"} // for people
	found := 0
	for _, match := range regexp.MustCompile("(?m)^\t([A-Z]\\w+) .*`case:").FindAllStringSubmatch(string(content), -1) {
		found++
		if !slices.Contains(told, match[1]) && !regexp.MustCompile(`\.`+match[1]+`\b`).MatchString(code.String()) {
			t.Errorf("%s is read from case files and nothing looks at it: a check would count as passed", match[1])
		}
	}
	if found < 100 {
		t.Errorf("found %d keys: this test no longer reads case.go", found)
	}
}

func TestEveryExpectationOfAQueryHasAnInversion(t *testing.T) {
	n, yes, text := 1, true, Words{"a. A 10.0.0.1"}
	wait := 1.0
	q := Query{Name: "a.", Type: "A", Expect: QueryExpect{
		Rcode: Words{"NOERROR"}, Answer: &text, AnswerCount: &n, AnswerCountMin: &n, AnswerTypes: &text,
		AnswerContains: text, AnswerNoDuplicates: &yes, AnswerSame: &yes, Authority: "soa", SOATTLMax: &n,
		SOAMinimumMax: &n, AA: &yes, TC: &yes, OPT: &yes, MaxSize: &n, TTLEqual: &yes, TTLMin: &n, TTLMax: &n,
		FollowTargets: &yes, TargetsValidHostname: &yes, ExactCase: true, LatencyMaxMS: &wait, ExitStatus: &n,
	}}
	var kinds []string
	for _, inv := range q.inversions() {
		kinds = append(kinds, inv.kind)
	}
	// Inverted with others, or words about how to ask.
	also := []string{"soa_owner", "within", "save_serial", "serial"}
	for _, key := range tags(QueryExpect{}) {
		if !slices.Contains(kinds, key) && !slices.Contains(also, key) {
			t.Errorf("%s is never inverted", key)
		}
	}
}
