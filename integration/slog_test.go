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

// logKeys are the attributes of what the library logs, by the first words of
// the message. Users search their logs for them: they are as much a promise as
// the API is, and stand at Config.Logger of lock and in the fields of wheel.Config.
var logKeys = map[string][]string{
	"wheel: a callback failed":                                     {"error", "stack"},
	"wheel: a callback was slow":                                   {"task", "took"},
	"lock: a Held was dropped without Unlock":                      {"name"},
	"lock: a hook panicked":                                        {"name", "panic", "stack"},
	"lock: no connection to Redis":                                 {"server", "error"},
	"lock: connected to Redis again":                               {"server"},
	"lock: the server was replaced":                                {"old", "new"},
	"lock: INFO memory ended the connection":                       {"server", "error"},
	"lock: renewal is refused":                                     {"server", "error", "advice"},
	"lock: PUBLISH is refused":                                     {"server", "error"},
	"lock: pub/sub failed":                                         {"server", "error"},
	"lock: Check has advice":                                       {"server", "advice", "error"},
	"lock: pub/sub works again":                                    {"server"},
	"lock: TIME is refused":                                        {"server", "error"},
	"lock: this server says again and again":                       {"server"},
	"lock: the server's clock was set":                             {"server", "by"},
	"lock: still waiting for a lock that this client itself holds": {"name", "waited"},
	"lock: when its memory is full, this Redis evicts keys":        {"server", "maxmemory_policy", "maxmemory"},
	"lock: how releases are published was chosen":                  {"command", "versions"},
	"lock: sharded pub/sub is refused":                             {"server", "command", "error"},
	"lock: this server does not tell its version":                  {"server", "error"},
}

func TestLogKeysAreTheAgreedOnes(t *testing.T) {
	found := map[string][]string{}
	for _, tree := range []string{"wheel", "renewal", "lock"} {
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
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(call.Args) == 0 {
		return "", nil
	}
	if pkg, ok := method.X.(*ast.Ident); ok && pkg.Name == "redis" {
		return "", nil // a conversion to redis.Error
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
