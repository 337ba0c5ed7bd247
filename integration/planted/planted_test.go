package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testsOf returns the tests of a package, with the file of each.
func testsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	fileOf := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range function.FindAllSubmatch(text, -1) {
			fileOf[string(m[1])] = file
		}
	}
	return fileOf
}

// TestEveryBugApplies: the code that a bug edits is where the list says, and so are the
// tests that must find the bug.
func TestEveryBugApplies(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, b := range bugs {
		require.False(t, names[b.name], "%s is there twice", b.name)
		names[b.name] = true
		require.NotEmpty(t, b.breaks, b.name)
		edited, err := b.editTexts(root)
		if !assert.NoError(t, err, b.name) {
			continue
		}
		for _, e := range b.edits() {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			require.NoError(t, err, b.name)
			require.NotEqual(t, string(text), string(edited[e.file]), b.name)
		}
		require.NotEmpty(t, b.tests, b.name)
		for _, ts := range b.tests {
			run, _, _ := strings.Cut(ts.run, "/")
			match, found := regexp.MustCompile(run), ""
			for name := range testsOf(t, filepath.Join(root, ts.pkg)) {
				if match.MatchString(name) {
					found = name
				}
			}
			assert.NotEmpty(t, found, "%s: %s has no test that matches %s", b.name, ts.pkg, ts.run)
		}
	}
}

func TestAnEditThatDoesNotApplyIsAnError(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f.go"), []byte("one two two"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "g.go"), []byte("four"), 0o600))
	edited, err := bug{file: "f.go", before: "one", after: "three", also: []edit{{"f.go", "three two", "five"}, {"g.go", "four", ""}}}.editTexts(root)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"f.go": []byte("five two"), "g.go": {}}, edited)
	_, err = bug{file: "f.go", before: "one", also: []edit{{"g.go", "three", ""}}}.editTexts(root)
	require.ErrorContains(t, err, "the text before is 0 times in g.go, not once")
	_, err = bug{file: "f.go", before: "two"}.editTexts(root)
	require.ErrorContains(t, err, "the text before is 2 times in f.go, not once")
	_, err = bug{file: "f.go", before: "four"}.editTexts(root)
	require.ErrorContains(t, err, "the text before is 0 times in f.go, not once")
	_, err = bug{file: "gone.go", before: "one"}.editTexts(root)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestThePartsAreTheWhole: no bug is in two parts, and none in no part.
func TestThePartsAreTheWhole(t *testing.T) {
	all, some := regexp.MustCompile(""), regexp.MustCompile("^run-")
	for n := 1; n <= len(bugs)+1; n++ {
		times := map[string]int{}
		for k := range n {
			for _, b := range selectBugs(bugs, all, part{k, n}) {
				times[b.name]++
			}
		}
		require.Len(t, times, len(bugs))
		for name, times := range times {
			require.Equal(t, 1, times, name)
		}
	}
	for _, b := range selectBugs(bugs, some, part{0, 1}) {
		require.True(t, strings.HasPrefix(b.name, "run-"))
	}
	for _, text := range []string{"", "1", "-1/2", "2/2", "0/0", "x/y"} {
		require.Error(t, new(part).Set(text), text)
	}
	p := part{}
	require.NoError(t, p.Set("3/10"))
	require.Equal(t, part{3, 10}, p)
}

// TestTheSimulationSaysWhatItHasFound: the number of worlds, and the broken promise.
func TestTheSimulationSaysWhatItHasFound(t *testing.T) {
	require.Empty(t, describeFind("--- FAIL: TestSum\n panic: no"))
	require.Equal(t, " after 12 worlds: a has two holders", describeFind("x: after 12 worlds, 3s:\n  7 0.5 BROKEN: a has two holders\nBROKEN: other\n"))
	require.Equal(t, " after 3 worlds: index out of range", describeFind("after 3 worlds, 1s:\n   panic: index out of range\n"))
	require.Equal(t, " after 3 worlds", describeFind("after 3 worlds, 1s:\n"))
}

// TestPlantingSaysWhoFindsABug: in a module of its own, with a bug that its test finds, one
// that no test finds, and one that is no Go.
func TestPlantingSaysWhoFindsABug(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":    "module example.com/sum\n\ngo 1.25.0\n",
		"s.go":      "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a + b }\n",
		"s_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 0) != 2 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\nfunc TestNothing(t *testing.T) {}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
	}
	for _, tt := range []struct{ name, after, run, found, err string }{
		{"found", "a * b", "", "TestSum", ""},
		{"survives", "a - b", "", "", ""},
		{"crashes", "a + b/b", "", "TestSum", ""},
		{"not looked for", "a * b", "TestNothing", "", ""},
		{"no Go", "a +", "", "", "does not compile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := bug{name: "bug", file: "s.go", before: "a + b", after: tt.after, tests: []tests{{pkg: ".", run: tt.run}}}
			found, err := b.plant(t.Context(), root, t.TempDir(), t.Output())
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.found, found)
		})
	}
	text, err := os.ReadFile(filepath.Join(root, "s.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), "a + b", "nothing in the module has changed")
}
