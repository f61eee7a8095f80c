package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	nameID = regexp.MustCompile(`^N[1-9]\d*$`)
	// A test carries ids in a line of a comment of the Go function, or of the
	// sentence that a golden file begins with.
	namesLine = regexp.MustCompile(`(?m)^names:((?: N\d+)+)\.?$`)
)

// TestEveryNameAndRuleHasATest holds docs/names.md and the tests together: each
// row has an id, each id a test and a row next to KEP-1645, GKE and CoreDNS.
func TestEveryNameAndRuleHasATest(t *testing.T) {
	text := read(t, "docs", "names.md")
	ids := func(headings ...string) (found []string) {
		for _, heading := range headings {
			rows := table(text, heading)
			if len(rows) == 0 {
				t.Fatalf("docs/names.md has no table under %q", heading)
			}
			for _, row := range rows {
				if !nameID.MatchString(row[0]) {
					t.Errorf("docs/names.md, %s: the row of %s has no id", heading, row[1])
					continue
				}
				if i := slices.Index(row, ""); i >= 0 {
					t.Errorf("docs/names.md, %s: cell %d of %s is empty", heading, i+1, row[0])
				}
				found = append(found, row[0])
			}
		}
		return found
	}
	known := ids("Names", "Rules", "Options")
	difference(t, "docs/names.md, Next to others", ids("Next to others"), known)

	carried := idsOfTests(t)
	for id, where := range carried {
		if !slices.Contains(known, id) {
			t.Errorf("%s carries %s, which docs/names.md does not have", where[0], id)
		}
	}
	for _, id := range known {
		if len(carried[id]) == 0 {
			t.Errorf("no test carries %s: write a line %q into the comment of the one that proves it", id, "names: "+id)
		}
	}
}

// idsOfTests are the ids that tests and golden files carry, with where.
func idsOfTests(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	note := func(where, comment string) {
		for _, match := range namesLine.FindAllStringSubmatch(comment, -1) {
			for id := range strings.FieldsSeq(match[1]) {
				found[id] = append(found[id], where)
			}
		}
	}
	for _, folder := range []string{"plugin", "cmd", "corefile", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
				return err
			case filepath.Ext(path) == ".txtar":
				name, err := filepath.Rel(root, path)
				if err != nil {
					return err
				}
				sentence, _, _ := strings.Cut(read(t, name), "\n-- ")
				note(path, sentence)
			case strings.HasSuffix(path, "_test.go"):
				return noteTests(path, note)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) == 0 {
		t.Fatal("no test carries an id: this test no longer reads them")
	}
	return found
}

// noteTests finds the comments before and in the tests and fuzz targets of a file.
func noteTests(path string, note func(where, comment string)) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !regexp.MustCompile(`^(Test|Fuzz)`).MatchString(f.Name.Name) {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		for _, comment := range file.Comments {
			if from <= comment.Pos() && comment.End() <= f.End() {
				note(path+", "+f.Name.Name, comment.Text())
			}
		}
	}
	return nil
}

func TestIDsAreReadWhereTestsCarryThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x_test.go")
	source := "package x\n\n// names: N9\nvar _ = 1\n\n// TestX does.\n//\n// names: N1 N2.\nfunc TestX() {\n\t// names: N3\n}\n\n// names: N8\nfunc helper() {}\n\n// it names: N7\nfunc TestY() {}\n"
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	err := noteTests(path, func(_, comment string) {
		for _, match := range namesLine.FindAllStringSubmatch(comment, -1) {
			for id := range strings.FieldsSeq(match[1]) {
				found[id] = true
			}
		}
	})
	if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, []string{"N1", "N2", "N3"}) {
		t.Errorf("found %q, %v, want N1 N2 N3", got, err)
	}
}
