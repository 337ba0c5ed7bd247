package integration_test

import (
	"os"
	"os/exec"
	"path"
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

// TestChangelogNamesTheAPI: every exported package, function, type, method, error and setting is named
// once in the lists of CHANGELOG.md, and nothing else is. A list begins with its package, groups of
// names end with a semicolon, and a type stands before a colon and its members.
func TestChangelogNamesTheAPI(t *testing.T) {
	api, err := os.ReadFile(filepath.Join("testdata", "api.txt"))
	require.NoError(t, err)
	var want []string
	for name, declared := range exported(strings.ReplaceAll(string(api), "\r\n", "\n")) {
		if isCallOrSetting(name, declared) {
			want = append(want, name)
		}
	}
	require.Greater(t, len(want), 300, "testdata/api.txt was not understood")
	require.Contains(t, want, "topology.Topology.Follow")
	require.Contains(t, want, "lock.Config.Label")

	text, err := os.ReadFile(filepath.Join(root(t), "CHANGELOG.md"))
	require.NoError(t, err)
	slices.Sort(want)
	named := namedInLists(strings.ReplaceAll(string(text), "\r\n", "\n"))
	slices.Sort(named)
	require.Equal(t, strings.Join(want, "\n"), strings.Join(named, "\n"), "the lists under \"Every call and setting\"")
}

// isCallOrSetting leaves out constants, the fields of answers, and methods that the standard library calls.
func isCallOrSetting(name, declared string) bool {
	parts := strings.Split(name, ".")
	if len(parts) == 2 {
		return declared != "" || strings.HasPrefix(parts[1], "Err")
	}
	if strings.HasPrefix(declared, "func ") {
		return !slices.Contains([]string{"Error", "Is", "MarshalText", "String", "Unwrap"}, parts[2])
	}
	// What a caller fills in, and the interfaces.
	return regexp.MustCompile(`(Config|Options|Endpoint|Hooks|Terms|Owner|Renewer|Task|TB|\btopology\.Topology)$`).MatchString(parts[0] + "." + parts[1])
}

// namedInLists are the names in lists such as "- `lock`, locks: `New`; `Mutex`: `Lock`, `TryLock`.", in
// full: lock.New, lock.Mutex, lock.Mutex.Lock.
func namedInLists(text string) []string {
	var names []string
	quoted := regexp.MustCompile("`([^`]*)`")
	for _, version := range strings.Split(text, "\nEvery call and setting")[1:] {
		version, _, _ = strings.Cut(version, "\n#")
		for _, list := range strings.Split(version, "\n- ")[1:] {
			head, groups, _ := strings.Cut(list, ":")
			pkg := path.Base(quoted.FindStringSubmatch(head)[1])
			for group := range strings.SplitSeq(groups, ";") {
				in := pkg
				if owner, members, isType := strings.Cut(group, ":"); isType {
					in += "." + quoted.FindStringSubmatch(owner)[1]
					names, group = append(names, in), members
				}
				for _, name := range quoted.FindAllStringSubmatch(group, -1) {
					names = append(names, in+"."+name[1])
				}
			}
		}
	}
	return names
}

func TestListsOfNamesAreUnderstood(t *testing.T) {
	require.Equal(t, []string{"lock.New", "lock.ErrLost", "lock.Mutex", "lock.Mutex.Lock", "lock.Mutex.TryLock", "lock.Try", "wheel.New", "topology.Layout"},
		namedInLists("- `no`: `List`\n\nEvery call and setting:\n\n- `lock`, locks: `New`, `ErrLost`; `Mutex`:\n  `Lock`, `TryLock`; `Try`.\n- `wheel`: `New`.\n\n### Changed\n\n- `lock`: `Other`\n\nEvery call and setting that is new:\n\n- `lock/topology`: `Layout`.\n"))
}
