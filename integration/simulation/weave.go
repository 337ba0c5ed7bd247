package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	module     = "github.com/wheellock/wheellock"
	pointsPath = module + "/integration/simulation/points"
)

// woven are the trees of the product whose mutexes are replaced, and apart are those
// within them that are no part of a client.
var (
	woven = []string{"lock", "renewal"}
	apart = []string{"lock/cmd", "lock/locktest", "lock/internal/twin"}
)

// replaced are the names of package sync that package points has. Of the others a
// bubble knows when a goroutine waits, so nothing has to be done.
var replaced = []string{"Mutex", "Once"}

// Edit is a change of the product's text, to plant a bug. Before is looked for in all
// files that are woven, so an Edit survives when its place moves to another file.
type Edit struct {
	Before, After string
}

// Weave writes an overlay for go build -overlay into dir, and returns the name of its
// file. root is the directory of the module. An Edit whose text is not found exactly
// once is an error.
func Weave(root, dir string, edits ...Edit) (string, error) {
	w := weaver{root: root, dir: dir, edits: edits, found: make([]int, len(edits)), replace: map[string]string{}}
	for _, tree := range woven {
		if err := filepath.WalkDir(filepath.Join(root, tree), w.visit); err != nil {
			return "", err
		}
	}
	var errs []error
	for i, n := range w.found {
		if n != 1 {
			errs = append(errs, fmt.Errorf("simulation: the product has this text %d times, not once: %q: correct the edit", n, edits[i].Before))
		}
	}
	if w.mutexes == 0 {
		errs = append(errs, errors.New("simulation: no mutex was replaced"))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	if err := w.write(filepath.Join(root, "integration", "simulation", "points", "woven.go"),
		[]byte("package points\n\nconst Woven = true\n")); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": w.replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

type weaver struct {
	// immutable
	root, dir string
	edits     []Edit

	found   []int             // how often each edit's text was met
	mutexes int               // that were replaced
	replace map[string]string // of a file's name to that of its woven text
}

// visit weaves a file of the product.
func (w *weaver) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(w.root, path)
	if err != nil {
		return err
	}
	if entry.IsDir() {
		_, noModule := os.Stat(filepath.Join(path, "go.mod"))
		if slices.Contains(apart, filepath.ToSlash(rel)) || noModule == nil || entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		return nil
	}
	if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
		return nil
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := before
	for i, e := range w.edits {
		w.found[i] += bytes.Count(text, []byte(e.Before))
		text = bytes.ReplaceAll(text, []byte(e.Before), []byte(e.After))
	}
	text, mutexes, err := Replace(text)
	if err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	w.mutexes += mutexes
	if bytes.Equal(text, before) {
		return nil
	}
	return w.write(path, text)
}

// write makes text what the go command reads in place of a file.
func (w *weaver) write(path string, text []byte) error {
	name := filepath.Join(w.dir, strconv.Itoa(len(w.replace))+"_"+filepath.Base(path))
	w.replace[path] = name
	return os.WriteFile(name, text, 0o644)
}

// Replace replaces what it can of package sync in a Go file by package points, and
// returns how often it did. Lines keep their numbers.
func Replace(text []byte) ([]byte, int, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	name := ""
	for _, i := range file.Imports {
		if i.Path.Value == `"sync"` {
			name = "sync"
			if i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	if name == "" {
		return text, 0, nil
	}
	var places []int // of the package's name
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
			switch {
			case slices.Contains(replaced, s.Sel.Name):
				places = append(places, files.Position(x.Pos()).Offset)
			case s.Sel.Name == "RWMutex":
				// A goroutine that waits for one is not blocked as a bubble counts it.
				err = errors.New("simulation: package points has no RWMutex: add it")
			}
		}
		return true
	})
	if err != nil || len(places) == 0 {
		return text, 0, err
	}
	var out bytes.Buffer
	at := files.Position(file.Name.End()).Offset
	out.Write(text[:at])
	fmt.Fprintf(&out, "; import points %q", pointsPath)
	for _, place := range places {
		out.Write(text[at:place])
		out.WriteString("points")
		at = place + len(name)
	}
	out.Write(text[at:])
	fmt.Fprintf(&out, "\nvar _ %s.Locker\n", name) // it may be used no more
	return out.Bytes(), len(places), nil
}
