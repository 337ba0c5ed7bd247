package integration_test

import (
	"encoding/json"
	"go/version"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goVersion = "1.25.0"

func TestGoModAsksForNoMoreThanAgreed(t *testing.T) {
	var mod struct {
		Module    struct{ Path string }
		Go        string
		Toolchain string
		Replace   []any
		Exclude   []any
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, root(t), nil, "go", "mod", "edit", "-json")), &mod))
	require.Equal(t, module, mod.Module.Path)
	require.Equal(t, goVersion, mod.Go)
	require.Empty(t, mod.Toolchain, "go.mod has a toolchain line")
	require.Empty(t, mod.Replace, "a replacement does not reach users")
	require.Empty(t, mod.Exclude)
}

func TestNoDependencyRaisesTheGoVersion(t *testing.T) {
	list := run(t, root(t), nil, "go", "list", "-deps", "-test",
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

func TestUserOfLockLinksRedigoOnly(t *testing.T) {
	require.Equal(t, []string{redigo, module}, linked(t, `package main

import (
	"fmt"

	"github.com/wheellock/wheellock/lock"
)

func main() {
	client, err := lock.New(nil, lock.Config{})
	fmt.Println(client, err)
}
`))
}

// What locktest brings is for its own importers, which are tests.
func TestUserOfLocktestLinksMiniredis(t *testing.T) {
	require.Equal(t, []string{miniredisModule, redigo, module, gopherLua}, linked(t, `package main

import (
	"fmt"

	"github.com/wheellock/wheellock/lock/locktest"
)

func main() {
	fmt.Println(locktest.NewServer(nil))
}
`))
}

// TestTheCommandIsBuiltFromElsewhere, as go install does, and links Redis clients alone.
func TestTheCommandIsBuiltFromElsewhere(t *testing.T) {
	dir, env := userModule(t, map[string]string{"empty.go": "package user\n"})
	require.Equal(t, []string{redigo, rediscModule}, linkedBy(t, dir, env, module+"/lock/cmd/wheellock"))
}

// linked are the modules in the binary of a user's program.
func linked(t *testing.T, program string) []string {
	t.Helper()
	dir, env := userModule(t, map[string]string{"main.go": program})
	return linkedBy(t, dir, env, ".")
}

// linkedBy are the modules in the binary of a package.
func linkedBy(t *testing.T, dir string, env []string, path string) []string {
	t.Helper()
	binary := filepath.Join(dir, "user.exe")
	run(t, dir, env, "go", "build", "-o", binary, path)
	var modules []string
	for line := range strings.Lines(run(t, dir, env, "go", "version", "-m", binary)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" {
			modules = append(modules, fields[1])
		}
	}
	slices.Sort(modules)
	return modules
}

// TestUsersSeeNoVersionWithKnownFaults: who requires this module has what it
// requires in the list of modules, tests' dependencies too, and a scanner looks
// there.
func TestUsersSeeNoVersionWithKnownFaults(t *testing.T) {
	least := map[string]string{
		"github.com/docker/docker":            "v27.1.1",
		"github.com/go-viper/mapstructure/v2": "v2.4.0",
		"github.com/opencontainers/runc":      "v1.2.8",
		"github.com/sirupsen/logrus":          "v1.9.3",
	}
	for line := range strings.Lines(run(t, root(t), nil, "go", "list", "-m", "all")) {
		path, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if want, ok := least[path]; ok {
			v, _, _ = strings.Cut(v, "+")
			require.GreaterOrEqual(t, version.Compare("go"+v[1:], "go"+want[1:]), 0, "%s is required in %s", path, v)
			delete(least, path)
		}
	}
	for path := range least {
		t.Logf("%s is not required any more", path)
	}
}
