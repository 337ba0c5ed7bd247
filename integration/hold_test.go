package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHoldsKnowNeitherTheClientNorItsObjects: the files of package lock that are about a hold,
// from its first script to its last, name none of the types that users have but Held.
func TestHoldsKnowNeitherTheClientNorItsObjects(t *testing.T) {
	files := []string{
		"attempt", "exclusive", "extend", "fairkind", "fairplace", "held", "heldwatch", "hold", "keeper", "kind", "lane",
		"loss", "owe", "permitkind", "release", "run", "rwkinds", "scripts", "telling", "turn",
	}
	objects := []string{
		"Client", "Mutex", "RWMutex", "Semaphore", "PermitSemaphore", "CountDownLatch", "MultiLock", "MultiHeld", "RedLock",
		"Info", "Stats",
	}
	for _, name := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join("..", "lock", name+".go"), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		elsewhere := map[*ast.Ident]bool{} // a field, or a name of another package
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				elsewhere[n.Sel] = true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					elsewhere[key] = true
				}
			case *ast.Ident:
				if slices.Contains(objects, n.Name) && !elsewhere[n] {
					t.Errorf("%s: a hold knows %s", fset.Position(n.Pos()), n.Name)
				}
			}
			return true
		})
	}
}
