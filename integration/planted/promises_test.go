package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write lock/PROMISES.md")

// pageOfPromises is the file with the table of promises.
const pageOfPromises = "lock/PROMISES.md"

// mark matches the id of a promise in a document.
var mark = regexp.MustCompile(`\((P\d+)\)`)

// fileOf returns the file of a package that has the test, and the name of the test.
func fileOf(t *testing.T, root string, ts tests) (file, test string) {
	t.Helper()
	test, of, _ := strings.Cut(strings.TrimPrefix(ts.run, "^"), "$")
	file, found := testsOf(t, filepath.Join(root, ts.pkg))[test]
	require.True(t, found, "no such test: %s %s", ts.pkg, ts.run)
	file, err := filepath.Rel(root, file)
	require.NoError(t, err)
	return filepath.ToSlash(file), test + strings.NewReplacer("/^", " (", "_", " ", "$", ")").Replace(of)
}

// page returns lock/PROMISES.md.
func page(t *testing.T, root string) string {
	t.Helper()
	planted := map[string]bug{}
	for _, b := range bugs {
		planted[b.name] = b
	}
	var text strings.Builder
	fmt.Fprintf(&text, `# Promises

The documents carry a mark such as (P2) behind a promise. This is the list of the marks. Beside each
promise stand the tests that prove it, and the bugs that show that they do: integration/planted
plants each bug in a copy of the library, and one of the tests must find it. `+"`go run ./integration/planted -only NAME`"+`
does so with one of them.

A test makes this page. It fails for a promise without a mark, a test or a bug.

| | promise | document | tests | bugs that they find |
|---|---|---|---|---|
`)
	from := func(file string) string { // where a file is, seen from this page
		rel, err := filepath.Rel(filepath.Dir(pageOfPromises), file)
		require.NoError(t, err)
		return filepath.ToSlash(rel)
	}
	for _, p := range promises {
		var tests, names []string
		for _, name := range p.bugs {
			b, found := planted[name]
			require.True(t, found, "%s: no bug has the name %q", p.id, name)
			names = append(names, name)
			for _, ts := range b.tests {
				file, test := fileOf(t, root, ts)
				if link := fmt.Sprintf("[%s](%s)", test, from(file)); !slices.Contains(tests, link) {
					tests = append(tests, link)
				}
			}
		}
		require.NotEmpty(t, tests, p.id)
		fmt.Fprintf(&text, "| %s | %s | [%s](%s) | %s | %s |\n", p.id, p.says, p.doc, from(p.doc), strings.Join(tests, ", "), strings.Join(names, ", "))
	}
	return text.String()
}

// TestEveryPromiseHasItsTest: PROMISES.md is up to date, each document has the marks of its
// promises, and no document has a mark without a promise.
func TestEveryPromiseHasItsTest(t *testing.T) {
	root, err := moduleRoot()
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, p := range promises {
		require.False(t, ids[p.id], "%s is there twice", p.id)
		ids[p.id] = true
		require.NotEmpty(t, p.bugs, p.id)
		text, err := os.ReadFile(filepath.Join(root, p.doc))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), "("+p.id+")"), "%s does not carry (%s) once", p.doc, p.id)
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if name := d.Name(); d.IsDir() || strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range mark.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, ids[m[1]], "%s has the mark of no promise: %s", path, m[0])
		}
		return err
	}))
	want := page(t, root)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(root, pageOfPromises), []byte(want), 0o666))
	}
	got, err := os.ReadFile(filepath.Join(root, pageOfPromises))
	require.NoError(t, err)
	require.Equal(t, want, string(got), "go test ./integration/planted -run TestEveryPromise -update writes it anew")
}
