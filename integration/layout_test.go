package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// house is the top level, beside dotfiles. What is true must be there.
var house = map[string]bool{
	"go.mod": true, "go.sum": true, "README.md": true,
	"wheel": true, "renewal": true, "lock": true, "bench": true, "integration": true,
	"CHANGELOG.md": false, "LICENSE": false,
}

func TestTopLevelHoldsWhatItShould(t *testing.T) {
	found := topLevel(t)
	for _, name := range found {
		if _, known := house[name]; !known && !strings.HasPrefix(name, ".") {
			t.Errorf("%s is a stranger at the top level", name)
		}
	}
	for name, must := range house {
		if must && !slices.Contains(found, name) {
			t.Errorf("%s is missing at the top level", name)
		}
	}
}

// topLevel lists the names at the top that are not ignored by git, so that a
// report somebody wrote there does not count; all of them without git.
func topLevel(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(root(t))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if _, err := os.Stat(filepath.Join(root(t), ".git")); err != nil {
		return names
	}
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"check-ignore", "--"}, names...)...)
	cmd.Dir = root(t)
	ignored, _ := cmd.Output() // status 1: none is ignored; other errors: as without git
	var kept []string
	for _, name := range names {
		if !strings.Contains("\n"+string(ignored), "\n"+name+"\n") {
			kept = append(kept, name)
		}
	}
	return kept
}
