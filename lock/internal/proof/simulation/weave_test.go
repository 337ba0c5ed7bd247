package simulation_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/proof/simulation"
)

// product writes a product of two files. One file is no part of a client.
func product(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"lock/deep/a.go":             text,
		"lock/deep/a_test.go":        "package lock\n\nimport \"sync\"\n\nvar test sync.Mutex\n",
		"lock/cmd/c.go":              "package main\n\nimport \"sync\"\n\nvar command sync.Mutex\n",
		"lock/beside/go.mod":         "module beside\n",
		"lock/beside/b.go":           "package beside\n\nimport \"sync\"\n\nvar beside sync.Mutex\n",
		"renewal/r.go":               "package renewal\n\nimport s \"sync\"\n\nvar once s.Once\n",
		"renewal/testdata/broken.go": "no Go",
		"wheel/w.go":                 "package wheel\n\nimport \"sync\"\n\nvar kept sync.Mutex\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestTheMutexesOfTheProductAreReplaced(t *testing.T) {
	root, dir := product(t, "package lock\n\nimport \"sync\"\n\nvar mu sync.Mutex // sync.Mutex\nvar cond = sync.NewCond(&mu)\nvar bug = 1\n"), t.TempDir()
	overlay, err := simulation.Weave(root, dir, "")
	require.NoError(t, err)
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	var read struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &read))
	got := map[string]string{}
	for path, by := range read.Replace {
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		text, err := os.ReadFile(by)
		require.NoError(t, err)
		got[filepath.ToSlash(rel)] = string(text)
	}
	points := `import points "github.com/wheellock/wheellock/integration/points"`
	require.Equal(t, map[string]string{
		"lock/deep/a.go":              "package lock; " + points + "\n\nimport \"sync\"\n\nvar mu points.Mutex // sync.Mutex\nvar cond = sync.NewCond(&mu)\nvar bug = 1\n\nvar _ sync.Locker\n",
		"renewal/r.go":                "package renewal; " + points + "\n\nimport s \"sync\"\n\nvar once points.Once\n\nvar _ s.Locker\n",
		"integration/points/woven.go": "package points\n\nconst Woven = true\n",
	}, got)
}

// TestWhatAnotherOverlayReplacesIsWoven, and replaced files that are not woven stay replaced.
func TestWhatAnotherOverlayReplacesIsWoven(t *testing.T) {
	root, dir := product(t, "package lock\n\nimport \"sync\"\n\nvar mu sync.Mutex\n"), t.TempDir()
	other, base := filepath.Join(dir, "other.go"), filepath.Join(dir, "base.json")
	require.NoError(t, os.WriteFile(other, []byte("package lock\n\nimport \"sync\"\n\nvar other sync.Mutex\n"), 0o644))
	replaced, untouched := filepath.Join(root, "lock", "deep", "a.go"), filepath.Join(root, "lock", "cmd", "c.go")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: other, untouched: other}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(base, text, 0o644))
	overlay, err := simulation.Weave(root, dir, base)
	require.NoError(t, err)
	text, err = os.ReadFile(overlay)
	require.NoError(t, err)
	var read struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, other, read.Replace[untouched])
	text, err = os.ReadFile(read.Replace[replaced])
	require.NoError(t, err)
	require.Contains(t, string(text), "var other points.Mutex")
	_, err = simulation.Weave(root, dir, filepath.Join(dir, "nothing.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWhatCannotBeWovenIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		says string
	}{
		"a lock of another kind": {"package lock\n\nimport \"sync\"\n\nvar mu sync.RWMutex\n", "RWMutex"},
		"no Go":                  {"packages", "a.go"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulation.Weave(product(t, tc.text), t.TempDir(), "")
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// TestARewrittenFileDoesWhatItDid: points change nothing else in a file, wherever they are.
func TestARewrittenFileDoesWhatItDid(t *testing.T) {
	const text = `package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

var mu sync.Mutex

func pick(a, b chan int, c <-chan struct{}) (got string) {
	select {
	case n := <-a:
		for range 2 { // a break in here is the loop's
			break
		}
		got = fmt.Sprint("a", n)
	case b <- 1:
		if got == "" {
			got = "b"
			break
		}
		got = "never"
	case <-c:
		return "c"
	}
	return got
}

func must(a, b <-chan int) int {
	select {
	case n := <-a:
		return n
	case n := <-b:
		return -n
	}
}

func main() {
	a, b, c := make(chan int, 1), make(chan int, 1), make(chan struct{})
	a <- 7
	fmt.Println(pick(a, nil, c))
	fmt.Println(pick(nil, b, c), <-b)
	close(c)
	fmt.Println(pick(nil, nil, c))
	a <- 5
	fmt.Println(must(a, nil))
	select {
	case <-a:
		fmt.Println("a")
	case <-b:
		fmt.Println("b")
	default:
		fmt.Println("none")
	}
	var wg sync.WaitGroup
	wg.Go(func() { mu.Lock(); defer mu.Unlock(); go func(n int) { a <- n }(3) })
	wg.Wait()
	fmt.Println(<-a)
	time.AfterFunc(time.Millisecond, func() { a <- 4 })
	n := <-a // waited for
	fmt.Println(n)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { a <- 6 })
	cancel()
	select {
	case n := <-a:
		fmt.Println(n)
	}
	panic("line 73")
}
`
	woven, mutexes, err := simulation.Rewrite("main.go", []byte(text), true)
	require.NoError(t, err)
	require.Equal(t, 1, mutexes)
	run := func(text string) (lines []string) {
		dir, err := os.MkdirTemp(".", "testdata_")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644))
		out, _ := exec.Command("go", "run", "./"+dir).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "main.go:") {
				line = line[strings.Index(line, "main.go:"):strings.LastIndex(line, " ")] + "\n"
			}
			if !strings.HasPrefix(line, "goroutine ") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	require.Equal(t, run(text), run(string(woven)), "%s", woven)
	require.Equal(t, 4, strings.Count(string(woven), "points.Born"), "%s", woven)
	require.Contains(t, string(woven), "if points.Flip()")

	same := "package main\n\nfunc main() {}\n"
	untouched, _, err := simulation.Rewrite("main.go", []byte(same), true)
	require.NoError(t, err)
	require.Equal(t, same, string(untouched))
}
