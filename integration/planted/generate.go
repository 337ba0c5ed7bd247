package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A drawn bug is an edit that somebody could make in a hurry. A condition is negated, "and" becomes
// "or", a call or an assignment is left out if its result is not needed to compile, or a time that was
// taken before sending is taken after the answer.

// drawBugs draws n bugs in the Go files of some packages. With the same seed and the same files, it
// draws the same bugs.
func drawBugs(root string, packages []string, n int, seed uint64) ([]bug, error) {
	var all []bug
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			more, err := mutations(pkg, filepath.Base(file), text)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))], nil
}

// mutations returns all bugs that can be drawn in a file.
func mutations(pkg, file string, text []byte) (all []bug, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	clocked := slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time"` })
	at := func(p token.Pos) int { return files.Position(p).Offset }
	function := ""
	add := func(kind string, from, to token.Pos, with string) {
		before, after, ok := uniqueEdit(text, at(from), at(to), with)
		if !ok {
			return
		}
		all = append(all, bug{
			name:   fmt.Sprintf("%s-%s-%s-%d", filepath.Base(pkg), strings.TrimSuffix(file, ".go"), kind, files.Position(from).Line),
			breaks: fmt.Sprintf("%s: %q is %q", function, text[at(from):at(to)], with),
			file:   pkg + "/" + file, before: before, after: after,
			tests: []tests{{pkg: "./" + pkg}, {pkg: simulation.pkg, worlds: 300, limit: maxSimulationTime}, {pkg: "./lock", limit: 10 * time.Minute}, {pkg: "./integration/world", limit: 10 * time.Minute}},
		})
	}
	others := map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	statement := func(s ast.Stmt) {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !isLockCall(call) {
				add("call", s.Pos(), s.End(), "")
			}
		case *ast.AssignStmt:
			if _, field := s.Lhs[0].(*ast.SelectorExpr); field && s.Tok != token.DEFINE {
				add("set", s.Pos(), s.End(), "")
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			function = n.Name.Name
		case *ast.IfStmt:
			add("if", n.Cond.Pos(), n.Cond.End(), "!("+string(text[at(n.Cond.Pos()):at(n.Cond.End())])+")")
		case *ast.BinaryExpr:
			if other, ok := others[n.Op]; ok {
				add("or", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "Stamp" && clocked {
				add("stamp", n.Pos(), n.End(), "time.Now()")
			}
		case *ast.BlockStmt:
			for _, s := range n.List {
				statement(s)
			}
		case *ast.CaseClause:
			for _, s := range n.Body {
				statement(s)
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b bug) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// isLockCall reports whether a call locks or unlocks a mutex. It is not left out, because a test that hangs
// would find that at once.
func isLockCall(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "Lock" || s.Sel.Name == "Unlock")
}

// uniqueEdit returns the whole lines of an edit, before and after it. It takes as many lines as are
// needed so that the text before is in the file only once. It returns false if that needs too many.
func uniqueEdit(text []byte, from, to int, with string) (before, after string, ok bool) {
	first, last := from, to
	for range 6 {
		first = 1 + bytes.LastIndexByte(text[:max(first-1, 0)], '\n')
		if n := bytes.IndexByte(text[last:], '\n'); n >= 0 {
			last += n + 1
		}
		if whole := text[first:last]; bytes.Index(text, whole) == bytes.LastIndex(text, whole) {
			return string(text[first:last]), string(text[first:from]) + with + string(text[to:last]), true
		}
	}
	return "", "", false
}
