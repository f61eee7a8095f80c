package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"testing"
)

func TestObjectsListsEveryWordAndNoOther(t *testing.T) {
	text := read(t, "docs", "objects.md")
	var listed []string
	for _, heading := range []string{"Words of the standard", "Words of our own", "Words of GKE"} {
		rows := table(text, heading)
		if len(rows) == 0 {
			t.Fatalf("docs/objects.md has no table under %q", heading)
		}
		for _, row := range rows {
			word := code.FindStringSubmatch(row[0])
			if word == nil {
				t.Fatalf("docs/objects.md: the row %q does not begin with a word in backquotes", row)
			}
			listed = append(listed, word[1])
		}
	}
	difference(t, "docs/objects.md", listed, words(t))
}

// words are the values of the constants of internal/mcs/words.go, but for the
// prefix that the others begin with.
func words(t *testing.T) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(root, "internal", "mcs", "words.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{}).Check("mcs", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && name != "Prefix" {
			values = append(values, constant.StringVal(c.Val()))
		}
	}
	if len(values) == 0 {
		t.Fatal("internal/mcs/words.go has no constants")
	}
	return values
}
