// Package errortable compares the texts of errors with a table that people read, and checks that
// the table is complete.
//
// A text is, in all sources except tests: the first argument of errors.New, fmt.Errorf and
// usagef, the format that is printed into a statusError, and every literal in a method Error, what,
// hint or waited. A verb stands for any text. Each text must occur in a row, or in the list of
// exceptions of the test, with a reason. Texts of fewer than three words do not count, because they
// join others. Texts with "bug:" do not count either.
// Each exported type with a method Error must be in the chain of the error of a row.
package errortable

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update-errors", false, "write the tables of error texts anew")

// Row is an error, and the call or the event that leads to it.
type Row struct {
	What string
	Err  error
}

// volatile has the parts of texts that differ from run to run.
var volatile = []struct {
	found *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d{4,5}`), "ADDRESS"},
	{regexp.MustCompile(`has [0-9][0-9a-z.]* left`), "has 29s left"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`), "UUID"},
	{regexp.MustCompile(`faultproxy: nobody can connect; (no answer in time)`), "$1"}, // the first text is there only if there was time for a second dial
}

// Compare compares rows with the table in the file, and with the texts of errors in the sources in
// dirs. but lists, by reason, the texts that need no row.
func Compare(t *testing.T, file string, rows []Row, dirs []string, but map[string][]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("What went wrong, and what the error says. A test writes this file: -update-errors.\n")
	var texts []string
	types := map[string]bool{}
	for _, r := range rows {
		require.Error(t, r.Err, r.What)
		text := r.Err.Error()
		for _, v := range volatile {
			text = v.found.ReplaceAllString(text, v.text)
		}
		texts = append(texts, text)
		fmt.Fprintf(&b, "\n%s\n    %s\n", r.What, strings.ReplaceAll(text, "\n", "\n    "))
		for _, err := range chain(r.Err) {
			types[reflect.TypeOf(err).String()] = true
		}
	}
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "read the texts; if they are meant: go test -run %s -update-errors", t.Name())

	all := strings.Join(texts, "\n")
	left := map[string]bool{}
	for _, some := range but {
		for _, text := range some {
			left[text] = true
		}
	}
	found, exported := sources(t, dirs)
	for text, at := range found {
		if left[text] {
			delete(left, text)
		} else if !occurs(text, all) {
			t.Errorf("%s: no row has the text %q: make a row, or change the list of texts that no test makes, where Compare is called", at, text)
		}
	}
	for text := range left {
		t.Errorf("the text %q is left out and is not there: change the list of such texts, where Compare is called", text)
	}
	for _, name := range exported {
		require.True(t, types["*"+name] || types[name], "no row has an error of type %s", name)
	}
}

// chain returns err and all errors that it wraps.
func chain(err error) []error {
	all := []error{err}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, chain(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

var verb = regexp.MustCompile(`%(\[\d\])?[+#.0-9]*[a-zA-Z]`)

// occurs reports whether all contains text. A formatting verb in text matches anything.
func occurs(text, all string) bool {
	parts := verb.Split(text, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(strings.ReplaceAll(parts[i], "%%", "%"))
	}
	return regexp.MustCompile(strings.Join(parts, `.*`)).MatchString(all)
}

// sources returns the texts in dirs with their positions, and the exported types of errors.
func sources(t *testing.T, dirs []string) (texts map[string]string, exported []string) {
	t.Helper()
	texts = map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			add := func(e ast.Expr) {
				text := literal(e)
				if len(strings.Fields(verb.ReplaceAllString(text, ""))) >= 3 && !strings.Contains(text, "bug:") {
					texts[text] = set.Position(e.Pos()).String()
				}
			}
			for _, d := range file.Decls {
				f, isFunc := d.(*ast.FuncDecl)
				says := isFunc && f.Recv != nil && strings.Contains(" Error what hint waited ", " "+f.Name.Name+" ")
				if says && f.Name.Name == "Error" {
					if of := receiver(f); ast.IsExported(of) {
						exported = append(exported, file.Name.Name+"."+of)
					}
				}
				ast.Inspect(d, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.CallExpr:
						if makesError(n.Fun) && len(n.Args) > 0 {
							add(n.Args[0])
						}
					case *ast.CompositeLit:
						if of, ok := n.Type.(*ast.Ident); ok && of.Name == "statusError" {
							for _, e := range n.Elts {
								if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 1 {
									add(call.Args[0])
								}
							}
						}
					case *ast.BinaryExpr:
						if says && literal(n) != "" {
							add(n)
							return false
						}
					case *ast.BasicLit:
						if says && n.Kind == token.STRING {
							add(n)
						}
					}
					return true
				})
			}
		}
	}
	return texts, exported
}

func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func makesError(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name == "usagef"
	case *ast.SelectorExpr:
		of, _ := f.X.(*ast.Ident)
		return of != nil && (of.Name == "errors" && f.Sel.Name == "New" || of.Name == "fmt" && f.Sel.Name == "Errorf")
	}
	return false
}

// literal returns the value of a literal, or of a sum. A part of a sum that is no literal becomes a
// verb. literal returns "" if no part is a literal.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		a, b := literal(e.X), literal(e.Y)
		if a == "" && b == "" || e.Op != token.ADD {
			return ""
		}
		if a == "" {
			a = "%v"
		}
		if b == "" {
			b = "%v"
		}
		return a + b
	}
	return ""
}

// Of returns the error of a call. Its arguments are the two results of the call, which need not be
// assigned to variables in a Row:
//
//	Err: errortable.Of(client.Mutex("a").Lock(ctx))
func Of[T any](_ T, err error) error { return err }
