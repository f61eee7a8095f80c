// Package imports checks the direction of imports and the purity of the
// packages that decide: what they may import, and that they hold no goroutine,
// clock, logger or terminal output. The functions here judge what they are
// given; the rules themselves are the tables of the test.
package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Package is one package as `go list -json` tells it.
type Package struct {
	ImportPath   string
	Dir          string
	GoFiles      []string // without test files
	Imports      []string // direct, without those of test files
	TestImports  []string // direct, of test files inside the package
	XTestImports []string // direct, of test files outside the package
	Deps         []string // all that Imports reach
}

// impureStd is the part of the standard library that does I/O, waits or logs.
// An entry covers the packages below it, too, unless it ends in "$".
var impureStd = []string{"context", "log", "net$", "net/http", "os", "os/exec", "syscall", "testing", "C$", "unsafe$"}

// clocks are the functions of package time that read the clock or wait for it.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// Source judges one file of a package that decides: allowed are the standard
// library without its I/O, and the listed packages. It returns one line per
// finding, with its position.
func Source(filename string, src []byte, allowed []string) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filename, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", filename, err)
	}
	var found []string
	report := func(pos token.Pos, format string, args ...any) {
		found = append(found, fset.Position(pos).String()+": "+fmt.Sprintf(format, args...))
	}
	names := map[string]string{} // name in this file -> import path
	for _, spec := range file.Imports {
		pkg, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("parse import of %s: %w", filename, err)
		}
		switch {
		case isStd(pkg) && matches(pkg, impureStd):
			report(spec.Pos(), "imports %s: a package that decides does no I/O, takes no context and writes no log", pkg)
		case !isStd(pkg) && !matches(pkg, allowed):
			report(spec.Pos(), "imports %s, which is not on its list", pkg)
		}
		name := path.Base(pkg)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			report(spec.Pos(), "imports %s without a name, which hides what is used of it", pkg)
		}
		names[name] = pkg
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "starts a goroutine: a package that decides returns values")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			switch pkg := names[x.Name]; {
			case pkg == "time" && slices.Contains(clocks, n.Sel.Name):
				report(n.Pos(), "calls time.%s: a package that decides is given the time", n.Sel.Name)
			case pkg == "fmt" && strings.HasPrefix(n.Sel.Name, "Print"):
				report(n.Pos(), "calls fmt.%s: a package that decides returns its reasons", n.Sel.Name)
			}
		}
		return true
	})
	return found, nil
}

// Reach judges a list of packages, direct or transitive: it returns those that
// match one of the forbidden entries, each once, in order.
func Reach(packages, forbidden []string) []string {
	var found []string
	for _, pkg := range packages {
		if matches(pkg, forbidden) {
			found = append(found, pkg)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isStd reports whether a package is of the standard library: only there the
// first element of the path has no dot.
func isStd(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// matches reports whether pkg is one of the entries or lies below one. An entry
// that ends in "$" is that package alone.
func matches(pkg string, entries []string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool {
		exact, alone := strings.CutSuffix(entry, "$")
		return pkg == exact || !alone && strings.HasPrefix(pkg, entry+"/")
	})
}
