package simulation

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Rewrite returns a Go file in which goroutines stop at points. If mutexes is set, its mutexes are
// mutexes of package points. Goroutines have names. A goroutine that was woken stops before it goes
// on. If several cases of a select are ready, the scheduler chooses one. name is the file's name, for
// positions. Rewrite also returns how many mutexes it has replaced.
func Rewrite(name string, text []byte, mutexes bool) ([]byte, int, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	w := &rewriter{name: name, text: string(text), files: files, replaced: map[string][]string{}}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, 0, err
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if names := drawing[path]; names != nil {
			w.replaced[name] = slices.Clone(names)
			w.uses = append(w.uses, name+"."+remaining[path])
		}
		if path == "sync" {
			w.sync = name
			if mutexes {
				w.replaced[name] = append(w.replaced[name], locking...)
			}
		}
	}
	ast.Inspect(file, w.visit)
	if w.err != nil {
		return nil, 0, w.err
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	head := w.at(file.Name.End())
	out := w.text[:head]
	rest := w.render(head, len(w.text))
	if len(w.edits) == 0 && !strings.Contains(rest, "points.") {
		return text, 0, nil
	}
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(pointsPath) }) {
		out += fmt.Sprintf("; import points %q", pointsPath)
	}
	out += rest
	for _, use := range w.uses {
		out += "\nvar _ " + use + "\n" // so that the import is still used
	}
	return []byte(out), w.mutexes, nil
}

type rewriter struct {
	// immutable
	name  string
	text  string
	files *token.FileSet
	sync  string // the name of package sync in the file; empty if it is not imported
	// replaced are the identifiers of a package that package points has too, by the package's name in the file.
	replaced map[string][]string

	uses    []string // a type of each of these packages that is not replaced
	edits   []edit   // an edit makes the edits within it
	mutexes int      // how many were replaced
	err     error
}

// edit replaces text from one place to another.
type edit struct {
	from, to int
	with     func() string
}

func (w *rewriter) at(p token.Pos) int { return w.files.Position(p).Offset }

// line returns a comment from which on the compiler counts lines as in the original file.
func (w *rewriter) line(at int) string {
	return fmt.Sprintf("/*line %s:%d*/", w.name, 1+strings.Count(w.text[:at], "\n"))
}

func (w *rewriter) replace(from, to int, with func() string) {
	w.edits = append(w.edits, edit{from, to, with})
}

func (w *rewriter) insert(at int, text string) {
	w.replace(at, at, func() string { return text })
}

// render returns the text from one place to another, with its edits.
func (w *rewriter) render(from, to int) string {
	out, at := "", from
	for _, e := range w.edits {
		if e.from < at || e.to > to {
			continue
		}
		out += w.text[at:e.from] + e.with()
		at = e.to
	}
	return out + w.text[at:to]
}

const woken = `points.Here("woken")`

func (w *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		w.selector(n)
	case *ast.CallExpr:
		w.call(n)
	case *ast.GoStmt:
		from, to := w.at(n.Call.Pos()), w.at(n.Call.End())
		w.replace(w.at(n.Pos()), w.at(n.End()), func() string {
			return "{ pointsBorn := points.Born(func() { " + w.render(from, to) + " }); go pointsBorn() }"
		})
	case *ast.LabeledStmt:
		if _, ok := n.Stmt.(*ast.SelectStmt); ok {
			w.err = errors.New("simulation: a select with a label is not woven: give the label to a loop")
		}
	case *ast.SelectStmt:
		w.choice(n)
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	case *ast.CommClause:
		w.statements(n.Body)
	}
	return true
}

// selector replaces an identifier of another package that package points has too.
func (w *rewriter) selector(s *ast.SelectorExpr) {
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return
	}
	switch {
	case slices.Contains(w.replaced[x.Name], s.Sel.Name):
		if x.Name == w.sync && slices.Contains(locking, s.Sel.Name) {
			w.mutexes++
		}
		w.replace(w.at(x.Pos()), w.at(x.End()), func() string { return "points" })
	case x.Name == w.sync && s.Sel.Name == "RWMutex" && slices.Contains(w.replaced[x.Name], "Mutex"):
		// A goroutine that waits for one is not blocked as a bubble counts it.
		w.err = errors.New("simulation: package points has no RWMutex: add it")
	}
}

// call gives names to the goroutines that WaitGroup.Go, time.AfterFunc and context.AfterFunc
// make.
func (w *rewriter) call(c *ast.CallExpr) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	x, _ := s.X.(*ast.Ident)
	switch {
	case s.Sel.Name == "Go" && len(c.Args) == 1:
	case s.Sel.Name == "AfterFunc" && len(c.Args) == 2 && x != nil && (x.Name == "time" || x.Name == "context"):
	default:
		return
	}
	f := c.Args[len(c.Args)-1]
	w.insert(w.at(f.Pos()), "points.Born(")
	w.insert(w.at(f.End()), ")")
}

// statements adds a point after each statement in which a goroutine waits.
func (w *rewriter) statements(list []ast.Stmt) {
	for _, s := range list {
		if waits(s) {
			w.insert(w.at(s.End()), "; "+woken)
		}
	}
}

// waits reports whether a statement receives, or calls Wait.
func waits(s ast.Stmt) bool {
	var x ast.Expr
	switch s := s.(type) {
	case *ast.ExprStmt:
		x = s.X
	case *ast.AssignStmt:
		if len(s.Rhs) == 1 {
			x = s.Rhs[0]
		}
	}
	switch x := x.(type) {
	case *ast.UnaryExpr:
		return x.Op == token.ARROW
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Wait" && len(x.Args) == 0
	}
	return false
}

// choice tries the cases of a select one after the other, in their order or in reverse, before it
// waits for all of them. So the runtime never chooses one at random.
func (w *rewriter) choice(s *ast.SelectStmt) {
	var cases []*ast.CommClause
	var otherwise *ast.CommClause
	for _, c := range s.Body.List {
		if c := c.(*ast.CommClause); c.Comm != nil {
			cases = append(cases, c)
		} else {
			otherwise = c
		}
	}
	if len(cases) < 2 {
		if otherwise == nil && len(cases) == 1 {
			w.insert(w.at(cases[0].Colon)+1, " "+woken+";")
		}
		return
	}
	// A channel may be the result of a function in which the goroutine stops. So all channels are
	// evaluated once, before the first case is tried. Then no case can become ready between two tries.
	hoisted := ""
	for i, c := range cases {
		if x := channelOf(c.Comm); x != nil {
			name := fmt.Sprint("pointsChannel", i)
			from, to := w.at(x.Pos()), w.at(x.End())
			hoisted += name + " := " + w.text[from:to] + "\n"
			w.replace(from, to, func() string { return name })
		}
	}
	from, to := w.at(s.Pos()), w.at(s.End())
	clause := func(c *ast.CommClause) string {
		head, colon := w.at(c.Pos()), w.at(c.Colon)+1
		stop := ""
		if otherwise == nil {
			stop = " " + woken + ";"
		}
		return "\n" + w.line(head) + w.render(head, colon) + stop + w.render(colon, w.end(s, c))
	}
	all := func() string {
		out := "select {"
		for _, c := range s.Body.List {
			out += clause(c.(*ast.CommClause))
		}
		return out + "\n}"
	}
	var tried func(order []*ast.CommClause) string
	tried = func(order []*ast.CommClause) string {
		if len(order) == 1 { // nothing else can be ready now
			return all()
		}
		return "select {" + clause(order[0]) + "\ndefault:\n" + tried(order[1:]) + "\n}"
	}
	w.replace(from, to, func() string {
		backwards := slices.Clone(cases)
		slices.Reverse(backwards)
		return "{\n" + hoisted + "if points.Flip() {\n" + tried(backwards) + "\n} else {\n" + tried(cases) + "\n}\n}" + w.line(to)
	})
}

// channelOf returns the channel that a case receives from or sends to.
func channelOf(comm ast.Stmt) ast.Expr {
	var x ast.Expr
	switch s := comm.(type) {
	case *ast.SendStmt:
		return s.Chan
	case *ast.ExprStmt:
		x = s.X
	case *ast.AssignStmt:
		x = s.Rhs[0]
	}
	if x, ok := x.(*ast.UnaryExpr); ok && x.Op == token.ARROW {
		return x.X
	}
	return nil
}

// end returns where a clause of a select ends.
func (w *rewriter) end(s *ast.SelectStmt, c *ast.CommClause) int {
	for _, next := range s.Body.List {
		if next.Pos() > c.Pos() {
			return w.at(next.Pos())
		}
	}
	return w.at(s.Body.Rbrace)
}
