package integration_test

import (
	"encoding/json"
	"go/version"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goVersion = "1.25.0"

// releasedModules are the modules beside the root's that users require. They are modules so that
// a user of lock does not get their dependencies.
var releasedModules = []string{"lock/lockgoredis", "lock/lockotel", "lock/lockprom"}

// otherModules are modules too, but have no versions.
var otherModules = []string{"bench/peers", "lock/examples/fencing"}

// goMod is what go mod edit -json says of a go.mod.
type goMod struct {
	Module    struct{ Path string }
	Go        string
	Toolchain string
	Require   []struct{ Path, Version string }
	Replace   []struct {
		Old, New struct{ Path, Version string }
	}
	Exclude []any
}

func readGoMod(t *testing.T, dir string) (mod goMod) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, filepath.Join(moduleRoot(t), dir), nil, "go", "mod", "edit", "-json")), &mod))
	return mod
}

func TestGoModAsksForNoMoreThanAgreed(t *testing.T) {
	mod := readGoMod(t, ".")
	require.Equal(t, module, mod.Module.Path)
	require.Equal(t, goVersion, mod.Go)
	require.Empty(t, mod.Toolchain, "go.mod has a toolchain line")
	require.Empty(t, mod.Replace, "a replacement does not reach users")
	require.Empty(t, mod.Exclude)
	for _, r := range mod.Require {
		require.NotRegexp(t, "prometheus/|opentelemetry|go-redis", r.Path, "it belongs into the go.mod of lock/lockprom, lock/lockotel or lock/lockgoredis")
	}
}

// TestModulesBesideAreThoseThatAreChecked: each further module is known here, and .ci/run tests it. The
// released modules need no newer Go than the root module, and their only replacement makes them use
// this checkout.
func TestModulesBesideAreThoseThatAreChecked(t *testing.T) {
	var found []string
	require.NoError(t, filepath.WalkDir(moduleRoot(t), func(name string, _ fs.DirEntry, err error) error {
		if name == filepath.Join(moduleRoot(t), ".ci") {
			return fs.SkipDir // a tool of the checks
		}
		if err == nil && filepath.Base(name) == "go.mod" && filepath.Dir(name) != moduleRoot(t) {
			dir, _ := filepath.Rel(moduleRoot(t), filepath.Dir(name))
			found = append(found, filepath.ToSlash(dir))
		}
		return err
	}))
	require.ElementsMatch(t, append(otherModules, releasedModules...), found)
	checks, err := os.ReadFile(filepath.Join(moduleRoot(t), ".ci", "run"))
	require.NoError(t, err)
	for _, dir := range found {
		require.Regexp(t, `(?m)^\s*for module in [^;]*\b`+dir+`\b`, string(checks))
		mod := readGoMod(t, dir)
		require.Equal(t, module+"/"+dir, mod.Module.Path)
		if !slices.Contains(releasedModules, dir) {
			continue
		}
		require.LessOrEqual(t, version.Compare("go"+mod.Go, "go"+goVersion), 0, "%s wants go %s", dir, mod.Go)
		require.Empty(t, mod.Toolchain)
		require.Empty(t, mod.Exclude)
		require.Len(t, mod.Replace, 1)
		require.Equal(t, module, mod.Replace[0].Old.Path)
		require.Equal(t, "../..", mod.Replace[0].New.Path)
	}
}

func TestNoDependencyRaisesTheGoVersion(t *testing.T) {
	list := run(t, moduleRoot(t), nil, "go", "list", "-deps", "-test",
		"-f", "{{with .Module}}{{.Path}} {{.GoVersion}}{{end}}", "./...")
	modules := 0
	for line := range strings.Lines(list) {
		path, v, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || v == "" {
			continue
		}
		modules++
		require.LessOrEqual(t, version.Compare("go"+v, "go"+goVersion), 0, "%s wants go %s", path, v)
	}
	require.NotZero(t, modules)
}

func TestUserOfWheelLinksNoOtherModule(t *testing.T) {
	require.Equal(t, []string{module}, linked(t, `package main

import (
	"fmt"

	"github.com/wheellock/wheellock/wheel"
)

func main() {
	w, err := wheel.New(wheel.Config{})
	fmt.Println(w, err)
}
`))
}

// TestUserOfLockLinksRedigoOnly, whatever the URL is. Only package cluster links the module for Clusters.
func TestUserOfLockLinksRedigoOnly(t *testing.T) {
	require.Equal(t, []string{redigo, module}, linked(t, `package main

import (
	"fmt"

	"github.com/wheellock/wheellock/lock"
)

func main() {
	client, err := lock.Open("redis-sentinel://127.0.0.1:1?master=mymaster", lock.Config{})
	fmt.Println(client, err)
	client, err = lock.Endpoint{URL: "rediss://127.0.0.1:1"}.Open(lock.Config{})
	fmt.Println(client, err)
}
`))
}

// TestTheCommandIsBuiltFromElsewhere, as go install does, and links Redis clients alone.
func TestTheCommandIsBuiltFromElsewhere(t *testing.T) {
	dir, env := userModule(t, map[string]string{"empty.go": "package user\n"})
	binary := filepath.Join(dir, "user.exe")
	run(t, dir, env, "go", "build", "-o", binary, module+"/lock/cmd/wheellock")
	var modules []string
	for line := range strings.Lines(run(t, dir, env, "go", "version", "-m", binary)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" {
			modules = append(modules, fields[1])
		}
	}
	slices.Sort(modules)
	require.Equal(t, []string{redigo, rediscModule}, modules)
}

// linked returns the modules whose packages a user's program links, as go version -m would print them
// for its binary. Nothing is built.
func linked(t *testing.T, program string) []string {
	t.Helper()
	dir, env := userModule(t, map[string]string{"main.go": program})
	modules := strings.Fields(run(t, dir, env, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "."))
	slices.Sort(modules)
	return slices.Compact(modules)
}
