package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pkg is what go list says of a package, test files left out.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Deps       []string // also the imports of imports
}

// rule says what a tree of packages of this module may import beside itself and
// the standard library. It may also import everything that the trees in ours may import.
type rule struct {
	tree   string   // below the module: "lock" is also lock/..., except trees with a rule of their own
	ours   []string // trees of this module
	others []string // modules; "*" is any
}

const (
	redigo          = "github.com/gomodule/redigo"
	rediscModule    = "github.com/mna/redisc"
	hdrModule       = "github.com/HdrHistogram/hdrhistogram-go"
	miniredisModule = "github.com/alicebob/miniredis/v2"
	gopherLua       = "github.com/yuin/gopher-lua" // miniredis runs scripts with it
)

// plot draws the charts. The other modules are its dependencies.
var plot = []string{
	"gonum.org/v1/plot", "codeberg.org/go-fonts/liberation", "codeberg.org/go-latex/latex", "codeberg.org/go-pdf/fpdf", "git.sr.ht/~sbinet/gg",
	"github.com/ajstarks/svgo", "github.com/golang/freetype", "golang.org/x/image", "golang.org/x/text",
}

// rules are searched from the top. The first rule whose tree has a package counts.
var rules = []rule{
	{tree: "wheel"},
	{tree: "renewal", ours: []string{"wheel"}},
	{tree: "lock/script"},
	{tree: "lock/topology", others: []string{redigo}},
	{tree: "lock/internal/format/keys"},
	{tree: "lock/internal/engine/owner"},
	{tree: "lock/internal/engine/waitqueue"},
	{tree: "lock/internal/support/record", ours: []string{"lock/internal/support/work"}},
	{tree: "lock/internal/support/work"},
	{tree: "lock/internal/proof/simulation"},
	{tree: "lock/internal/proof/twin", ours: []string{"lock/script"}},
	{tree: "lock/internal/support/wait"},
	{tree: "lock/internal/engine/watch", ours: []string{"lock/internal/support/wait"}},
	{tree: "lock/internal/support/diagnosis", ours: []string{"lock/internal/transport/dialing", "lock/internal/format/keys", "lock/internal/transport/pipe", "lock/internal/transport/servers", "lock/internal/format/wire", "lock/script", "lock/topology"}, others: []string{redigo}},
	{tree: "lock/internal/transport/dialing", ours: []string{"lock/internal/support/wait"}, others: []string{redigo}},
	{tree: "lock/internal/transport/endpoint", ours: []string{"lock/internal/transport/dialing", "lock/internal/transport/resp"}, others: []string{redigo}},
	{tree: "lock/internal/transport/resp", ours: []string{"lock/script", "lock/internal/transport/dialing"}, others: []string{redigo}},
	{tree: "lock/internal/format/wire", ours: []string{"lock/script", "lock/internal/format/keys", "lock/internal/transport/resp"}, others: []string{redigo}},
	{tree: "lock/internal/transport/pipe", ours: []string{"lock/script", "lock/internal/transport/dialing", "lock/internal/format/keys", "lock/internal/transport/resp", "lock/internal/support/work", "lock/internal/support/wait"}, others: []string{redigo}},
	{tree: "lock/internal/transport/renewer", ours: []string{"lock/internal/transport/pipe", "lock/internal/format/keys", "lock/internal/transport/dialing", "lock/internal/transport/resp", "lock/script", "renewal"}, others: []string{redigo}},
	{tree: "lock/internal/transport/pubsub", ours: []string{"lock/internal/transport/pipe", "lock/internal/format/keys", "lock/internal/transport/resp", "lock/internal/support/record", "lock/internal/support/wait"}, others: []string{redigo}},
	{tree: "lock/internal/transport/servers", ours: []string{"lock/topology", "lock/internal/transport/pipe", "lock/internal/transport/pubsub", "lock/internal/format/keys", "lock/internal/transport/dialing", "lock/internal/transport/resp", "lock/internal/support/record"}, others: []string{redigo}},
	{tree: "lock/internal/engine/orphans", ours: []string{"lock/internal/transport/network", "lock/internal/format/wire", "lock/internal/transport/pipe", "lock/internal/support/wait"}},
	{tree: "lock/internal/engine/locktable", ours: []string{"lock/internal/engine/owner", "lock/internal/transport/pubsub", "lock/internal/support/record", "lock/internal/support/wait", "lock/internal/engine/waitqueue", "lock/internal/format/wire"}},
	{tree: "lock/internal/transport/network", ours: []string{"lock/internal/transport/renewer", "lock/internal/transport/pipe", "lock/internal/transport/pubsub", "lock/internal/support/record", "lock/internal/format/wire", "lock/internal/transport/servers", "renewal"}, others: []string{redigo}},
	{tree: "lock/internal/engine/hold", ours: []string{"lock/topology", "lock/internal/support/work", "lock/internal/transport/renewer", "lock/internal/format/keys", "lock/internal/engine/locktable", "lock/internal/transport/network", "lock/internal/engine/orphans", "lock/internal/engine/owner", "lock/internal/transport/pipe", "lock/internal/transport/pubsub", "lock/internal/support/record", "lock/internal/transport/servers", "lock/internal/support/wait", "lock/internal/engine/waitqueue", "lock/internal/engine/watch", "lock/internal/format/wire", "renewal"}, others: []string{redigo}},
	{tree: "lock/internal/engine/quorum", ours: []string{"lock/internal/engine/owner", "lock/internal/support/wait", "lock/internal/engine/waitqueue", "lock/internal/format/wire", "renewal"}},
	{tree: "lock/cluster", ours: []string{"lock/topology", "lock/internal/transport/dialing", "lock/internal/transport/endpoint", "lock/internal/transport/resp"}, others: []string{redigo, rediscModule}},
	{tree: "lock/sentinel", ours: []string{"lock/topology", "lock/internal/transport/dialing", "lock/internal/transport/endpoint", "lock/internal/transport/resp"}, others: []string{redigo}},
	{tree: "lock/locktest/memredis", others: []string{redigo, miniredisModule, gopherLua}},
	{tree: "lock/cmd/wheellock", ours: []string{"lock", "lock/cluster", "lock/sentinel", "lock/topology", "lock/internal/support/work", "lock/internal/support/diagnosis", "lock/internal/transport/endpoint", "lock/internal/engine/owner"}, others: []string{redigo}},
	{tree: "lock/keeper", ours: []string{"lock", "wheel"}},
	{tree: "lock/locktest", ours: []string{"lock", "lock/internal/format/keys", "lock/locktest/memredis", "lock/script"}},
	{tree: "lock", ours: []string{"renewal", "lock/script", "lock/sentinel", "lock/topology", "lock/internal/support/work", "lock/internal/support/diagnosis", "lock/internal/transport/dialing", "lock/internal/transport/endpoint", "lock/internal/engine/hold", "lock/internal/format/keys", "lock/internal/engine/locktable", "lock/internal/engine/orphans", "lock/internal/engine/owner", "lock/internal/transport/network", "lock/internal/engine/quorum", "lock/internal/transport/pipe", "lock/internal/transport/pubsub", "lock/internal/support/record", "lock/internal/transport/resp", "lock/internal/transport/servers", "lock/internal/support/wait", "lock/internal/engine/waitqueue", "lock/internal/engine/watch", "lock/internal/format/wire"}, others: []string{redigo}},
	{tree: "bench/internal/report", others: plot},
	{tree: "bench/internal/run/holders", ours: []string{"bench/internal/report", "wheel", "lock", "lock/cluster", "lock/script", "lock/topology", "integration/redistest"}, others: []string{redigo, rediscModule, hdrModule}},
	{tree: "bench/internal/run", ours: []string{"bench/internal/report", "bench/internal/run/holders", "lock", "lock/script", "integration/redistest"}, others: []string{redigo}},
	{tree: "bench", ours: []string{"lock", "lock/cluster", "lock/sentinel", "bench/internal/run", "bench/internal/run/holders", "integration/redistest"}, others: []string{"*"}},
	{tree: containerTree, ours: []string{"integration/redistest"}, others: []string{"*"}},
	{tree: "integration/redistest", ours: []string{"lock/locktest/memredis"}, others: []string{redigo}},
	{tree: "integration/bounded"},
	{tree: "integration/errortable", others: []string{"*"}},
	{tree: "integration/fixture", ours: []string{"lock", "integration/bounded", "integration/faultproxy", "integration/redistest"}, others: []string{"*"}},
	{tree: "integration/stranger", others: []string{redigo}},
	{tree: "integration/faultproxy", ours: []string{"lock/script"}, others: []string{redigo}},
	{tree: "integration/faults", ours: []string{"lock", "integration/redistest", "integration/faultproxy"}, others: []string{"*"}},
	{tree: "integration"},
}

// containerTree brings dockertest, which is for the tests of integration alone.
const containerTree = "integration/redistest/container"

// forTests are the trees that may link package testing, which adds its flags to a
// program. No rule of another tree names them, so otherwise only test files import them.
var forTests = []string{containerTree, "integration/bounded", "integration/fixture", "integration/errortable"}

func isWithin(tree, path string) bool {
	return path == module+"/"+tree || strings.HasPrefix(path, module+"/"+tree+"/")
}

// ruleOf is the rule that holds for a package of this module.
func ruleOf(path string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return isWithin(r.tree, path) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// withImported returns the rule with everything that the trees in ours may import.
func (r rule) withImported() rule {
	for _, tree := range r.ours {
		below, _ := ruleOf(module + "/" + tree)
		below = below.withImported()
		r.ours = append(slices.Clip(r.ours), below.ours...)
		r.others = append(slices.Clip(r.others), below.others...)
	}
	return r
}

// violations are the imports that the rules forbid.
func violations(pkgs []pkg) []string {
	byPath := map[string]pkg{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	var out []string
	for _, p := range pkgs {
		if p.Module == nil || p.Module.Path != module {
			continue
		}
		r, known := ruleOf(p.ImportPath)
		if !known {
			out = append(out, fmt.Sprintf("%s is a package that no rule knows", p.ImportPath))
			continue
		}
		r = r.withImported()
		for _, path := range p.Deps {
			d := byPath[path]
			switch {
			case path == "testing" && !slices.ContainsFunc(forTests, func(tree string) bool { return isWithin(tree, p.ImportPath) }):
			case d.Standard, path == "C":
				continue
			case d.Module != nil && d.Module.Path == module:
				to, _ := ruleOf(path)
				if to.tree == r.tree || slices.Contains(r.ours, to.tree) {
					continue
				}
			case d.Module != nil && (slices.Contains(r.others, "*") || slices.Contains(r.others, d.Module.Path)):
				continue
			}
			out = append(out, fmt.Sprintf("%s must not import %s", p.ImportPath, path))
		}
	}
	return out
}

func TestImportsRunDownwardsOnly(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			// The race detector is refused without cgo, and changes no import.
			flags := strings.ReplaceAll(os.Getenv("GOFLAGS"), "-race", "")
			text := run(t, moduleRoot(t), []string{"GOOS=" + goos, "CGO_ENABLED=0", "GOFLAGS=" + flags},
				"go", "list", "-deps", "-json=ImportPath,Standard,Module,Deps", "./...")
			var pkgs []pkg
			for dec := json.NewDecoder(strings.NewReader(text)); ; {
				var p pkg
				err := dec.Decode(&p)
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				pkgs = append(pkgs, p)
			}
			for _, must := range []string{"wheel", "renewal", "lock", "lock/cluster", "lock/sentinel", "lock/cmd/wheellock", "lock/locktest", "bench", "bench/internal/run", "bench/internal/run/holders", "bench/internal/report", "integration/redistest", containerTree, "integration/bounded", "integration/fixture"} {
				require.True(t, slices.ContainsFunc(pkgs, func(p pkg) bool { return p.ImportPath == module+"/"+must }), "package %s is missing", must)
			}
			for _, v := range violations(pkgs) {
				t.Error(v)
			}
		})
	}
}

// TestReleasedModulesImportWhatTheyAreFor: each may import lock and renewal, and one other library with
// the packages that it needs. The test reads the source files, because go list would need that library.
func TestReleasedModulesImportWhatTheyAreFor(t *testing.T) {
	allowed := map[string][]string{
		"lock/lockgoredis": {
			module + "/lock/cluster", module + "/lock/sentinel", redigo + "/redis", rediscModule,
			"github.com/redis/go-redis/v9", "github.com/redis/go-redis/v9/auth",
		},
		"lock/lockprom": {"github.com/prometheus/client_golang/prometheus", module + "/lock/keeper"},
		"lock/lockotel": {
			"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
			"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
		},
	}
	require.Len(t, allowed, len(releasedModules))
	for _, dir := range releasedModules {
		names, err := filepath.Glob(filepath.Join(moduleRoot(t), dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && path != module+"/lock" && path != module+"/renewal" {
					require.Contains(t, allowed[dir], path, name)
				}
			}
		}
	}
}

// TestForbiddenImportsAreFound has one row for each way to break a rule, and one that breaks none.
func TestForbiddenImportsAreFound(t *testing.T) {
	house := &struct{ Path string }{module}
	for _, c := range []struct {
		from, to, toModule string
		forbidden          bool
	}{
		{"wheel", redigo + "/redis", redigo, true},
		{"wheel", module + "/renewal", module, true},
		{"wheel/internal/x", module + "/lock", module, true},
		{"lock", "testing", "", true},
		{"lock/internal/engine/waitqueue", redigo + "/redis", redigo, true},
		{"lock/internal/transport/pipe", module + "/lock", module, true},
		{"lock", module + "/integration/fixture", module, true},
		{"util", "fmt", "", true}, // no rule knows it
		{"lock", "fmt", "", false},
		{"lock", module + "/wheel", module, false}, // renewal may
		{"integration/fixture", "testing", "", false},
	} {
		to := pkg{ImportPath: c.to, Standard: c.toModule == ""}
		if c.toModule != "" {
			to.Module = &struct{ Path string }{c.toModule}
		}
		from := pkg{ImportPath: module + "/" + c.from, Module: house, Deps: []string{c.to}}
		require.Equal(t, c.forbidden, len(violations([]pkg{from, to})) > 0, "%s -> %s", c.from, c.to)
	}
}
