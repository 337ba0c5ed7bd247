package script_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/wheellock/wheellock/lock/script"
)

// While a slot moves key by key, a server refuses a script if it lacks one of several KEYS. So a script
// can rely on the values at its KEYS. A key whose name the script makes is not in KEYS. After ASKING
// such a key seems absent until it has arrived. Such a script must not follow an ASK, see Concludes,
// unless the list below says why it may.

// seenToElsewhere says why a script that uses other keys than its KEYS may follow an ASK.
var seenToElsewhere = map[*script.Script]string{
	script.RwRenew: "package renewer does not believe that a reader is gone while the slot moves",
	script.Guard:   "the keys of the command are behind the lock's in KEYS",
	script.Check:   "all commands are about the scratch key, which nobody else uses",
}

// TestAScriptThatUsesOtherKeysThanItsKEYSFollowsNoASK, and no other script stays behind.
func TestAScriptThatUsesOtherKeysThanItsKEYSFollowsNoASK(t *testing.T) {
	for _, s := range script.All() {
		uses, reason := undeclared(t, s.Text()), seenToElsewhere[s]
		if reason != "" {
			require.NotEmpty(t, uses, "%s needs no reason", s.Name())
			require.False(t, s.Concludes(), s.Name())
			continue
		}
		require.Equal(t, len(uses) > 0, s.Concludes(), "%s uses %q", s.Name(), uses)
	}
}

// TestUndeclaredKeysAreFound in each way in which a script can make one.
func TestUndeclaredKeysAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"redis.call('get', KEYS[1])":                                                                      0,
		"local key, n = KEYS[1], 1 return redis.pcall('pttl', key)":                                       0,
		"local keys, call = KEYS, redis.call for i = 1, 2 do call('get', keys[i]) end":                    0,
		"local function has(key) return redis.call('exists', key) end has(KEYS[1]) has(KEYS[2])":          0,
		"local function do_(n, ...) return redis.call(...) end do_(1, 'del', KEYS[3] or KEYS[1])":         0,
		"-- ARGV[2] command that publishes\nredis.call(ARGV[2] or 'publish', ARGV[1], '0')":               0,
		"local function never(key) redis.call('get', key) end redis.call('time')":                         0,
		"local writers writers = KEYS[2] local function f() redis.call('del', writers) end f()":           0,
		"redis.call('get', KEYS[1] .. ':more')":                                                           1,
		"redis.call('get', ARGV[1])":                                                                      1,
		"redis.call('exists', KEYS[1], ARGV[1])":                                                          1,
		"local key = KEYS[1] if true then key = '{' .. key .. '}' end redis.call('pttl', key)":            1,
		"local function has(key) return redis.call('exists', key) end has(KEYS[1]) has(ARGV[2])":          1,
		"local function do_(n, ...) return redis.call(...) end do_(1, 'get', KEYS[1]) do_(1, 'get', 'x')": 1,
		"local pcall = redis.pcall pcall('hget', 'x', 'y')":                                               1,
		"for _, key in ipairs(redis.call('lrange', KEYS[1], 0, 1)) do redis.call('del', key) end":         1,
		"string.gsub(ARGV[1], '.', function(key) redis.call('get', key) end)":                             1,
		"local real = redis real.call('get', ARGV[1])":                                                    1,
		"redis.call(unpack(ARGV))":                                                                        1,
		"redis.call('exists', unpack(ARGV, 1, 2))":                                                        1,
		"redis.call(ARGV[2] or 'publish', ARGV[1], '0')":                                                  1,
	} {
		require.Len(t, undeclared(t, text), want, text)
	}
}

// undeclared returns the commands of a script that may use a key which is not one of its KEYS.
func undeclared(t *testing.T, text string) (uses []string) {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	require.NoError(t, err)
	lua := &luaScript{text: text, functions: map[string]*ast.FunctionExpr{}, values: map[string][]ast.Expr{}, extra: map[string][][]ast.Expr{}, in: map[*ast.FuncCallExpr]string{}}
	lua.read(chunk, "")
	commands := lua.commands
	for i := 0; i < len(commands); i++ {
		args := commands[i].Args
		if _, all := args[0].(*ast.Comma3Expr); all {
			for _, more := range lua.extra[lua.in[commands[i]]] {
				commands = append(commands, &ast.FuncCallExpr{Args: more, ExprBase: commands[i].ExprBase})
			}
			continue
		}
		if !lua.isDeclared(args) {
			uses = append(uses, fmt.Sprintf("line %d", commands[i].Line()))
		}
	}
	return uses
}

// luaScript has what the reachable code of a script does with its names. Equal names of different
// blocks count as one, so at worst a declared key counts as undeclared.
type luaScript struct {
	text      string
	functions map[string]*ast.FunctionExpr
	values    map[string][]ast.Expr   // the expressions that are assigned to a name; nil: one that is not known
	extra     map[string][][]ast.Expr // the arguments that calls of a function give for its "..."
	commands  []*ast.FuncCallExpr
	in        map[*ast.FuncCallExpr]string // the function that a command stands in
}

// read reads the code of a function, and then the code of the functions that it calls.
func (l *luaScript) read(code any, function string) {
	var calls []*ast.FuncCallExpr
	inspect(reflect.ValueOf(code), func(node any) (deeper bool) {
		switch n := node.(type) {
		case *ast.LocalAssignStmt:
			for i, name := range n.Names {
				l.assign(name, n.Exprs, i)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if name, ok := to.(*ast.IdentExpr); ok {
					l.assign(name.Value, n.Rhs, i)
				}
			}
		case *ast.GenericForStmt:
			for _, name := range n.Names {
				l.values[name] = append(l.values[name], nil)
			}
		case *ast.FuncCallExpr:
			calls = append(calls, n)
			for _, a := range n.Args {
				if f, ok := a.(*ast.FunctionExpr); ok {
					l.read(f.Stmts, function)
				}
			}
		case *ast.FunctionExpr:
			return false // it is read where it is called
		}
		return true
	})
	for _, call := range calls {
		name, _ := call.Func.(*ast.IdentExpr)
		switch {
		case l.isCommand(call.Func):
			l.commands, l.in[call] = append(l.commands, call), function
		case name != nil && l.functions[name.Value] != nil:
			l.enter(name.Value, call.Args)
		}
	}
}

// enter records what a call gives to a function, and reads the function at its first call.
func (l *luaScript) enter(name string, args []ast.Expr) {
	f := l.functions[name]
	for i, parameter := range f.ParList.Names {
		if i < len(args) {
			l.values[parameter] = append(l.values[parameter], args[i])
		}
	}
	_, known := l.extra[name]
	l.extra[name] = append(l.extra[name], args[min(len(f.ParList.Names), len(args)):])
	if !known {
		l.read(f.Stmts, name)
	}
}

// assign records that the name gets value i of the values.
func (l *luaScript) assign(name string, values []ast.Expr, i int) {
	switch {
	case len(values) == 0: // nil
	case i < len(values):
		if f, ok := values[i].(*ast.FunctionExpr); ok {
			l.functions[name] = f
			return
		}
		l.values[name] = append(l.values[name], values[i])
	default:
		l.values[name] = append(l.values[name], nil) // a later result of a call
	}
}

// isCommand reports whether a function is redis.call or redis.pcall.
func (l *luaScript) isCommand(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.AttrGetExpr:
		key, ok := f.Key.(*ast.StringExpr)
		return ok && (key.Value == "call" || key.Value == "pcall")
	case *ast.IdentExpr:
		for _, v := range l.values[f.Value] {
			if v != nil && l.isCommand(v) {
				return true
			}
		}
	}
	return false
}

// isDeclared reports whether a command uses no other keys than KEYS. A channel is no key.
func (l *luaScript) isDeclared(args []ast.Expr) bool {
	command, constant := args[0].(*ast.StringExpr)
	switch {
	case !constant:
		return l.all(args[0], l.publishes)
	case command.Value == "time" || command.Value == "info" || command.Value == "publish":
		return true
	case command.Value != "exists" && command.Value != "del":
		args = args[:min(2, len(args))]
	}
	for _, key := range args[1:] {
		if !l.all(key, l.isKey) {
			return false
		}
	}
	return true
}

// isKey reports whether an expression is an element of KEYS.
func (l *luaScript) isKey(e ast.Expr) bool {
	of, ok := e.(*ast.AttrGetExpr)
	return ok && l.all(of.Object, func(e ast.Expr) bool { name, ok := e.(*ast.IdentExpr); return ok && name.Value == "KEYS" })
}

// publishes reports whether an expression is a command that publishes: "publish", or an argument that
// is one by the header.
func (l *luaScript) publishes(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StringExpr:
		return e.Value == "publish"
	case *ast.AttrGetExpr:
		of, isName := e.Object.(*ast.IdentExpr)
		n, isNumber := e.Key.(*ast.NumberExpr)
		return isName && isNumber && of.Value == "ARGV" && regexp.MustCompile(`-- ARGV\[`+n.Value+`\] +command that publishes`).MatchString(l.text)
	}
	return false
}

// all reports whether is holds for all values that an expression may have.
func (l *luaScript) all(e ast.Expr, is func(ast.Expr) bool) bool {
	return l.each(e, is, map[string]bool{})
}

func (l *luaScript) each(e ast.Expr, is func(ast.Expr) bool, seen map[string]bool) bool {
	if e == nil {
		return false
	}
	if is(e) {
		return true
	}
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		return (e.Operator == "and" || l.each(e.Lhs, is, seen)) && l.each(e.Rhs, is, seen)
	case *ast.IdentExpr:
		if seen[e.Value] {
			return true
		}
		seen[e.Value] = true
		for _, v := range l.values[e.Value] {
			if !l.each(v, is, seen) {
				return false
			}
		}
		return len(l.values[e.Value]) > 0
	}
	return false
}

// inspect calls visit for each node below v, and goes deeper where it says so.
func inspect(v reflect.Value, visit func(node any) bool) {
	switch v.Kind() {
	case reflect.Interface:
		inspect(v.Elem(), visit)
	case reflect.Pointer:
		if !v.IsNil() && visit(v.Interface()) {
			inspect(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			inspect(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				inspect(v.Field(i), visit)
			}
		}
	}
}
