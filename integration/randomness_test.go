package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClientHasOneSourceOfRandomness: what a client does by chance can be repeated with
// Config.Rand, because nothing in it takes random numbers from elsewhere.
func TestAClientHasOneSourceOfRandomness(t *testing.T) {
	types := []string{"New", "Rand", "Source"}
	// The source of math/rand/v2 stands in for one that the user does not give.
	defaults := []string{"lock/internal/wait/random.go", "renewal/config.go"}
	// These are no part of a client.
	beside := []string{"lock/cmd/", "lock/cluster/", "lock/sentinel/", "lock/locktest/", "lock/lockprom/", "lock/lockotel/", "lock/lockgoredis/"}
	seen := map[string]bool{}
	for _, tree := range []string{"lock", "renewal"} {
		err := filepath.WalkDir(filepath.Join(root(t), tree), func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			name, err := filepath.Rel(root(t), path)
			require.NoError(t, err)
			name = filepath.ToSlash(name)
			if e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				slices.ContainsFunc(beside, func(b string) bool { return strings.HasPrefix(name, b) }) {
				return nil
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			as := importedAs(f, "math/rand/v2")
			require.Empty(t, importedAs(f, "math/rand"), name)
			if as == "" {
				return nil
			}
			seen[name] = true
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && x.Name == as && !slices.Contains(types, s.Sel.Name) &&
					(!slices.Contains(defaults, name) || s.Sel.Name != "Uint64") {
					t.Errorf("%s: %s.%s is not the client's source: use its Rand", fset.Position(s.Pos()), as, s.Sel.Name)
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	for _, name := range defaults {
		require.True(t, seen[name], "%s is not what this test thinks", name)
	}
}

// importedAs is the name by which f uses a package; "" if it does not import it.
func importedAs(f *ast.File, path string) string {
	for _, i := range f.Imports {
		if strings.Trim(i.Path.Value, `"`) != path {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return "rand"
	}
	return ""
}
