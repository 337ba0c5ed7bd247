package record_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
)

// usesSlog are the files beside this package that may import log/slog: Config has the user's
// logger, and the command prints the log of its client.
var usesSlog = []string{"config.go", "cmd/wheellock/notices.go"}

// bypasses are the methods of a slog.Logger that write, or that lead to a Handler.
var bypasses = []string{
	"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "LogAttrs", "With", "WithGroup", "Handle",
}

// TestNothingIsLoggedButTheTable: each call names a row and gives a value for each attribute, each
// row is used, and no code writes to a log in another way.
func TestNothingIsLoggedButTheTable(t *testing.T) {
	faults, used := search(t, "../../..", names(t))
	require.Empty(t, faults)
	for name, r := range names(t) {
		require.Contains(t, used, name, "nobody logs %q", r.Row().Text)
	}
}

func TestACallThatBypassesTheTableIsFound(t *testing.T) {
	faults, used := search(t, "testdata", names(t))
	require.Len(t, used, 2)
	require.Equal(t, []string{
		"bypass.go:4: log/slog is imported",
		"bypass.go:10: Warn writes to a log",
		"bypass.go:11: ErrorContext writes to a log",
		"bypass.go:12: Log gets no row of the table",
		"bypass.go:13: Log gets no row of the table",
		"bypass.go:14: Log of HeldDropped has 2 values for [name]",
		"bypass.go:15: Log of HeldDropped has a list of values",
		"bypass.go:16: WouldLog of TimeRefused, which counts values by themselves",
		"bypass.go:17: Default is not for this file",
		"bypass.go:18: a client has one Logger, which client.go makes",
	}, faults)
}

// names are the names of the rows.
func names(t *testing.T) map[string]record.Record {
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	found := map[string]record.Record{}
	for _, d := range file.Decls {
		list, ok := d.(*ast.GenDecl)
		if !ok || list.Tok != token.CONST || !strings.Contains(fmt.Sprint(list.Specs[0].(*ast.ValueSpec).Type), "Record") {
			continue
		}
		for i, spec := range list.Specs {
			if name := spec.(*ast.ValueSpec).Names[0].Name; ast.IsExported(name) {
				found[name] = record.Record(i)
			}
		}
	}
	require.Len(t, found, len(record.All()))
	return found
}

// search returns the faults of the calls in a tree, and the names of the rows that are used.
func search(t *testing.T, root string, rows map[string]record.Record) (faults []string, used map[string]bool) {
	used = map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "internal/support/record" || d.Name() == "testdata" && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		fault := func(n ast.Node, format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: ", name, set.Position(n.Pos()).Line)+fmt.Sprintf(format, args...))
		}
		for _, spec := range file.Imports {
			if path := spec.Path.Value; path == `"log"` || path == `"log/slog"` && !slices.Contains(usesSlog, name) {
				fault(spec, "%s is imported", strings.Trim(path, `"`))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := f.X.(*ast.Ident)
			switch method := f.Sel.Name; {
			case of != nil && of.Name == "slog" && method == "Default" && name != "config.go":
				fault(call, "Default is not for this file")
			case of != nil && of.Name == "record" && method == "New" && name != "client.go":
				fault(call, "a client has one Logger, which client.go makes")
			case len(call.Args) == 0 || of != nil && (of.Name == "redis" || of.Name == "math"): // no method of a logger
			case slices.Contains(bypasses, method) && !takesHooks(call):
				fault(call, "%s writes to a log", method)
			case method == "Log" || method == "WouldLog":
				row, _ := call.Args[0].(*ast.SelectorExpr)
				if row == nil || fmt.Sprint(row.X) != "record" || rows[row.Sel.Name] == 0 {
					fault(call, "%s gets no row of the table", method)
					return true
				}
				used[row.Sel.Name] = true
				r := rows[row.Sel.Name].Row()
				switch values := len(call.Args) - 1; {
				case call.Ellipsis.IsValid():
					fault(call, "Log of %s has a list of values", row.Sel.Name)
				case method == "Log" && values != len(r.Attrs):
					fault(call, "Log of %s has %d values for %v", row.Sel.Name, values, r.Attrs)
				case method == "WouldLog" && len(r.Each) > 0:
					fault(call, "WouldLog of %s, which counts values by themselves", row.Sel.Name)
				}
			}
			return true
		})
		return nil
	}))
	return faults, used
}

// takesHooks reports whether call is Hooks.With, whose argument is no text.
func takesHooks(call *ast.CallExpr) bool {
	text, ok := call.Args[0].(*ast.BasicLit)
	return call.Fun.(*ast.SelectorExpr).Sel.Name == "With" && (!ok || text.Kind != token.STRING)
}
