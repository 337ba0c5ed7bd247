package simulation_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/simulation"
)

// A product of two files, one of which is no part of a client.
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
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestTheMutexesOfTheProductAreReplaced(t *testing.T) {
	root, dir := product(t, "package lock\n\nimport \"sync\"\n\nvar mu sync.Mutex // sync.Mutex\nvar cond = sync.NewCond(&mu)\nvar bug = 1\n"), t.TempDir()
	overlay, err := simulation.Weave(root, dir, simulation.Edit{Before: "bug = 1", After: "bug = 2"})
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
	points := `import points "github.com/wheellock/wheellock/integration/simulation/points"`
	require.Equal(t, map[string]string{
		"lock/deep/a.go":                         "package lock; " + points + "\n\nimport \"sync\"\n\nvar mu points.Mutex // sync.Mutex\nvar cond = sync.NewCond(&mu)\nvar bug = 2\n\nvar _ sync.Locker\n",
		"renewal/r.go":                           "package renewal; " + points + "\n\nimport s \"sync\"\n\nvar once points.Once\n\nvar _ s.Locker\n",
		"integration/simulation/points/woven.go": "package points\n\nconst Woven = true\n",
	}, got)
}

func TestWhatCannotBeWovenIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		edit []simulation.Edit
		says string
	}{
		"a lock of another kind":      {"package lock\n\nimport \"sync\"\n\nvar mu sync.RWMutex\n", nil, "RWMutex"},
		"an edit whose text is gone":  {"package lock\n", []simulation.Edit{{Before: "bug", After: ""}}, "0 times"},
		"an edit whose text is twice": {"package lock\n\nvar bug, bugs int\n", []simulation.Edit{{Before: "bug", After: "flaw"}}, "2 times"},
		"no Go":                       {"packages", nil, "a.go"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulation.Weave(product(t, tc.text), t.TempDir(), tc.edit...)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// The bugs that are planted must still be where their texts say.
func TestPlantedBugsHaveTheirPlaces(t *testing.T) {
	for _, bug := range planted {
		_, err := simulation.Weave(filepath.Join("..", ".."), t.TempDir(), bug.edits...)
		require.NoError(t, err, bug.name)
		require.False(t, strings.Contains(bug.name, " "), "names are for regular expressions")
	}
}
