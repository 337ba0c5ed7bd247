package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logKeys are the attributes of what package wheel logs, by the first words of
// the message. Users search their logs for them: they are as much a promise as
// the API is, and stand in the document of wheel. Package renewal logs nothing.
// What package lock logs is in the table of lock/internal/record.
var logKeys = map[string][]string{
	"wheel: a callback failed":   {"error", "stack"},
	"wheel: a callback was slow": {"task", "took"},
}

func TestLogKeysAreTheAgreedOnes(t *testing.T) {
	found := map[string][]string{}
	for _, tree := range []string{"wheel", "renewal"} {
		dir := filepath.Join(root(t), tree)
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if message, keys := logCall(t, call); message != "" {
						found[message] = keys
					}
				}
				return true
			})
			return nil
		}))
	}
	begins := slices.Collect(maps.Keys(logKeys))
	for message, keys := range found {
		i := slices.IndexFunc(begins, func(begin string) bool { return strings.HasPrefix(message, begin) })
		if i < 0 {
			t.Errorf("%q is logged, and not in the table", message)
			continue
		}
		require.Equal(t, logKeys[begins[i]], keys, message)
	}
	require.Len(t, found, len(logKeys), "the table has messages that nobody logs")
}

// logCall returns the message and the keys of a call that logs, or "".
func logCall(t *testing.T, call *ast.CallExpr) (message string, keys []string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return "", nil
	}
	// All go through the method log of wheel's records, which has the bound.
	require.NotContains(t, []string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name, "a record without a bound")
	if method.Sel.Name != "log" {
		return "", nil
	}
	for i, arg := range call.Args {
		switch text := literal(arg); {
		case i == 0:
			message = text
		case i%2 == 1:
			require.NotEmpty(t, text, "%s: a key is no literal", message)
			keys = append(keys, text)
		}
	}
	return message, keys
}

// literal is the text of a string literal, or a sum of them.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}
