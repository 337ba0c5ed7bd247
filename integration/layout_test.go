package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
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

// TestChangelogHasItsForm is that of Keep a Changelog: the newest version first,
// each with a date, changes in the sections that it names, in its order.
func TestChangelogHasItsForm(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "CHANGELOG.md"))
	require.NoError(t, err)
	sections := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	versions, last := 0, -1
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			if versions == 0 && line == "## Unreleased" {
				break
			}
			require.Regexp(t, `^## v?\d+\.\d+\.\d+(-\S+)? - \d{4}-\d\d-\d\d$`, line)
			versions++
			last = -1
		case strings.HasPrefix(line, "### "):
			i := slices.Index(sections, strings.TrimPrefix(line, "### "))
			require.Greater(t, i, last, "%q is not the next of %v", line, sections)
			last = i
		case strings.HasPrefix(line, "- "):
			require.GreaterOrEqual(t, last, 0, "%q stands in no section", line)
		}
	}
}

// TestChangelogNamesTheScripts: whoever runs old and new clients side by side
// looks there.
func TestChangelogNamesTheScripts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "CHANGELOG.md"))
	require.NoError(t, err)
	for _, s := range script.All() {
		family := regexp.MustCompile(`_.*`).ReplaceAllString(s.Name(), "_*")
		if !strings.Contains(string(text), "`"+s.Name()+"`") && !strings.Contains(string(text), "`"+family+"`") {
			t.Errorf("CHANGELOG.md says nothing of script %s", s.Name())
		}
	}
}
