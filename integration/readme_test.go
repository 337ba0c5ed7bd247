package integration_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// goBlocks returns the Go code blocks of a Markdown text.
func goBlocks(markdown string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go[^\\S\n]*\n(.*?)^```").FindAllStringSubmatch(markdown, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// isFile reports whether a block is a whole file, and not a part of one.
func isFile(block string) bool {
	return regexp.MustCompile(`(?m)^package \w+`).MatchString(block)
}

func isProgram(block string) bool {
	return regexp.MustCompile(`(?m)^package main\b`).MatchString(block) && strings.Contains(block, "func main()")
}

func readmeBlocks(t *testing.T) []string {
	t.Helper()
	var text []byte
	for _, page := range []string{"README.md", "lock/SERVERS.md", "lock/SERVICE.md"} {
		more, err := os.ReadFile(filepath.Join(moduleRoot(t), filepath.FromSlash(page)))
		require.NoError(t, err)
		text = append(text, more...)
	}
	blocks := goBlocks(strings.ReplaceAll(string(text), "\r\n", "\n"))
	require.NotEmpty(t, blocks, "README.md has no Go code block: a reader looks for one first")
	return blocks
}

// TestREADMECodeCompiles compiles whole files as a user would. Parts of files must be found, line for
// line, in the examples of some package, which are compiled and run there.
func TestREADMECodeCompiles(t *testing.T) {
	files := map[string]string{}
	examples := exampleLines(t)
	for i, block := range readmeBlocks(t) {
		if isFile(block) {
			files[fmt.Sprintf("block%d/%s", i+1, fileName(block))] = block
			continue
		}
		require.Contains(t, examples, normalized(block),
			"Go block %d of README.md is no whole file (it has no package clause), and in no *example_test.go:\n%s", i+1, block)
	}
	if len(files) > 0 {
		dir, env := userModule(t, files)
		run(t, dir, env, "go", "vet", "./...")
	}
}

// fileName returns the name that a user would give a whole file.
func fileName(block string) string {
	if regexp.MustCompile(`(?m)^func Test\w*\(`).MatchString(block) {
		return "code_test.go"
	}
	return "code.go"
}

// TestREADMETestsPass: a test in README.md is run as pasted.
func TestREADMETestsPass(t *testing.T) {
	files := map[string]string{}
	for i, block := range readmeBlocks(t) {
		if isFile(block) && fileName(block) == "code_test.go" {
			files[fmt.Sprintf("block%d/code_test.go", i+1)] = block
		}
	}
	require.NotEmpty(t, files, "README.md shows how a service is tested")
	dir, env := userModule(t, files)
	run(t, dir, env, "go", "test", "-count=1", "./...")
}

func TestREADMEProgramsRun(t *testing.T) {
	blocks := readmeBlocks(t)
	require.True(t, isProgram(blocks[0]), "the first Go block of README.md is no program:\n%s", blocks[0])

	srv := fixture.Auto(t)

	for i, block := range blocks {
		if !isProgram(block) {
			continue // an example of a package, which runs there
		}
		// A reader has Redis at the usual address; here it is elsewhere.
		block = regexp.MustCompile(`(localhost|127\.0\.0\.1)?:6379`).ReplaceAllString(block, srv.Addr())
		dir, env := userModule(t, map[string]string{"main.go": block})
		binary := filepath.Join(dir, "readme.exe")
		run(t, dir, env, "go", "build", "-o", binary, ".")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary)
		cmd.Env = append(os.Environ(), redistest.EnvAddr+"="+srv.Addr())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "Go block %d of README.md, on %s, said:\n%s", i+1, srv, out)
		require.NotContains(t, string(out), "false", "Go block %d of README.md, on %s", i+1, srv)
		t.Logf("block %d, on %s, says:\n%s", i+1, srv, out)
	}
}

// TestTheFirstProgramOfREADMEEndsWithoutRedis by itself, and says why.
func TestTheFirstProgramOfREADMEEndsWithoutRedis(t *testing.T) {
	dir, env := userModule(t, map[string]string{"main.go": readmeBlocks(t)[0]})
	binary := filepath.Join(dir, "readme.exe")
	run(t, dir, env, "go", "build", "-o", binary, ".")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), redistest.EnvAddr+"=127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "it does not end: %s", out)
	require.Error(t, err)
	require.Contains(t, string(out), "connection refused")
	require.Contains(t, string(out), "127.0.0.1:1")
}

// exampleLines returns the code of all example files.
func exampleLines(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*/*example_test.go", "*/*/*example_test.go"} {
		names, err := filepath.Glob(filepath.Join(moduleRoot(t), pattern))
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			all.WriteString(normalized(string(text)))
		}
	}
	return all.String()
}

// compiledOnly are the examples that are not run, because they need servers that the tests do not start.
var compiledOnly = []string{"lock/cluster ExampleNew", "lock/cluster ExampleOpen", "lock/lockgoredis ExampleNewFailover", "lock/sentinel Example", "lock/sentinel ExampleOpen"}

// TestExamplesAreRun: go test does not run an example without an output comment.
func TestExamplesAreRun(t *testing.T) {
	var notRun []string
	count := 0
	for _, tree := range []string{"wheel", "renewal", "lock"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(moduleRoot(t), tree), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(moduleRoot(t), filepath.Dir(name))
			if err != nil {
				return err
			}
			for _, e := range doc.Examples(file) {
				if count++; e.Output == "" && !e.EmptyOutput {
					notRun = append(notRun, filepath.ToSlash(dir)+" Example"+e.Name)
				}
			}
			return nil
		}))
	}
	require.Greater(t, count, 25)
	require.ElementsMatch(t, compiledOnly, notRun)
}

// normalized returns code without its indentation and empty lines.
func normalized(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// readmeSection returns the text under a heading of README.md, up to the next heading.
func readmeSection(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"+heading+"\n")
	require.True(t, found, "README.md has no heading %q", heading)
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// TestSettingsSayTheirDefaults: the comment of lock.Config names each field, in its order, and the comment
// of a field names its default, if that is a constant.
func TestSettingsSayTheirDefaults(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(moduleRoot(t), "lock", "config.go"), nil, parser.ParseComments)
	require.NoError(t, err)
	texts := map[string]string{}
	var config string
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE || general.Specs[0].(*ast.TypeSpec).Name.Name != "Config" {
			continue
		}
		config = general.Doc.Text()
		for _, f := range general.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
			texts[f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
	}
	var named []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +(.*)$`).FindAllStringSubmatch(config, -1) {
		named = append(named, strings.Split(m[1], ", ")...)
	}
	require.Equal(t, slices.Collect(structFields(reflect.TypeFor[lock.Config]())), named)
	for field, want := range map[string]string{
		"Lease":         seconds(lock.DefaultLease),
		"MaxPoll":       seconds(lock.DefaultMaxPoll),
		"IOTimeout":     seconds(lock.DefaultIOTimeout) + ", or Lease/10 if that is less",
		"UnlockTimeout": seconds(lock.DefaultUnlockTimeout),
		"Connections":   strconv.Itoa(lock.DefaultConnections),
		"MaxBatch":      strconv.Itoa(renewal.DefaultMaxBatch),
		"Dispatchers":   strconv.Itoa(renewal.DefaultDispatchers),
		"Replicas":      "0",
		"MaxHold":       "0, no limit",
	} {
		require.Regexp(t, `default `+regexp.QuoteMeta(want)+`($|[.,;: ])`, texts[field], field)
	}
}

func structFields(of reflect.Type) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range of.NumField() {
			if !yield(of.Field(i).Name) {
				return
			}
		}
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// quotedCode yields the texts in backquotes on README.md and the pages to which it links, outside of
// code blocks. Before each text it yields the page and the line, such as "README.md:7".
func quotedCode(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	texts := map[string]string{}
	for _, page := range []string{"README.md", "lock/MOVING.md", "lock/SERVERS.md", "lock/SERVICE.md"} {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), filepath.FromSlash(page)))
		require.NoError(t, err)
		texts[page] = string(text)
	}
	quoted := regexp.MustCompile("`([^`\n]*)`")
	return func(yield func(where, code string) bool) {
		for page, text := range texts {
			inBlock, n := false, 0
			for line := range strings.Lines(text) {
				n++
				if strings.HasPrefix(line, "```") {
					inBlock = !inBlock
					continue
				}
				for _, m := range quoted.FindAllStringSubmatch(line, -1) {
					if !inBlock && !yield(fmt.Sprintf("%s:%d", page, n), m[1]) {
						return
					}
				}
			}
		}
	}
}

// TestREADMENamesWhatThereIs: the calls in the tables and sentences of the pages exist.
func TestREADMENamesWhatThereIs(t *testing.T) {
	api, err := os.ReadFile(filepath.Join("testdata", "api.txt"))
	require.NoError(t, err)
	packages := map[string]string{}
	for _, p := range strings.Split("\n"+string(api), "\npackage ")[1:] {
		name, declared, _ := strings.Cut(p, "\n")
		packages[path.Base(name)] = declared
	}
	// The variables of README.md, and the types that declare their methods.
	methods := map[string]string{"client": "*Client", "mu": "*Mutex", "held": "*Held"}
	named := 0
	for where, code := range quotedCode(t) {
		for _, call := range regexp.MustCompile(`\b(\w+)\.([A-Z]\w*)`).FindAllStringSubmatch(code, -1) {
			var declared string
			switch {
			case methods[call[1]] != "":
				declared = `(?m)^func \(\w+ ` + regexp.QuoteMeta(methods[call[1]]) + `\) ` + call[2] + `\(`
			case packages[call[1]] != "":
				declared = `(?m)^(func |type |\t|const |var )` + call[2] + `\b`
			default:
				continue
			}
			named++
			in := packages["lock"]
			if packages[call[1]] != "" {
				in = packages[call[1]]
			}
			if !regexp.MustCompile(declared).MatchString(in) {
				t.Errorf("%s: there is no %s", where, call[0])
			}
		}
	}
	require.Greater(t, named, 50, "the expression has found too little")
}

// readmeValues declares the variables that the calls in README.md's tables and sentences use.
const readmeValues = `package calls

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

var (
	ctx     context.Context
	work    func(context.Context, *lock.Held) error
	d, ttl  time.Duration
	n       int64
	name    string
	id      string
	pool    *redis.Pool
	client  *lock.Client
	a, b, c *lock.Mutex
	mu      *lock.Mutex
	held    *lock.Held
	sem     *lock.Semaphore
	permits *lock.PermitSemaphore
	latch   *lock.CountDownLatch
	_       cluster.Options
)

func _() {
`

// TestREADMECallsCompile: each call and each value of this module that stands in backquotes compiles
// unchanged.
func TestREADMECallsCompile(t *testing.T) {
	ours := regexp.MustCompile(`^(client|mu|held|sem|permits|latch|lock|cluster)\.[A-Z]\w*[({]`)
	var calls strings.Builder
	calls.WriteString(readmeValues)
	count := 0
	for where, code := range quotedCode(t) {
		if !ours.MatchString(code) {
			continue
		}
		e, err := parser.ParseExpr(code)
		if err != nil {
			t.Errorf("%s: %s: %v", where, code, err)
			continue
		}
		count++
		if _, isCall := e.(*ast.CallExpr); !isCall {
			code = "_ = " + code
		}
		fmt.Fprintf(&calls, "//line %s\n%s\n", where, code) // so the compiler names the page
	}
	require.Greater(t, count, 40, "the expression has found too little")
	calls.WriteString("}\n")
	dir, env := userModule(t, map[string]string{"calls.go": calls.String()})
	run(t, dir, env, "go", "build", "-gcflags=-e", ".")
}

// TestREADMEFiguresAreMeasured: the figures in its table, and where it says that other libraries are
// better, are in BENCHMARKS.md.
func TestREADMEFiguresAreMeasured(t *testing.T) {
	measured, err := os.ReadFile(filepath.Join(moduleRoot(t), "bench", "BENCHMARKS.md"))
	require.NoError(t, err)
	requireMeasured := func(figure string) {
		require.Regexp(t, `(^|[^\d.,])`+regexp.QuoteMeta(figure)+`($|[^\d])`, string(measured), "%s: not in BENCHMARKS.md", figure)
	}
	figures := 0
	for row := range strings.Lines(readmeSection(t, "## Two commands")) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, figure := range regexp.MustCompile(`\d[\d,.]*\d|\d`).FindAllString(strings.Join(cells[2:], "|"), -1) {
			figures++
			requireMeasured(figure)
		}
	}
	require.GreaterOrEqual(t, figures, 6)

	better := readmeSection(t, "## When something else is better")
	figures = 0
	for _, m := range regexp.MustCompile(`(\d[\d,.]*)\s(us|ns|ms|bytes)\b`).FindAllStringSubmatch(better, -1) {
		figures++
		requireMeasured(m[1])
	}
	require.GreaterOrEqual(t, figures, 8)
}
