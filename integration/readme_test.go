package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
)

// goBlocks are the Go code blocks of a Markdown text.
func goBlocks(markdown string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go[^\\S\n]*\n(.*?)^```").FindAllStringSubmatch(markdown, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// isFile says whether a block is a whole file; else it is a part of one.
func isFile(block string) bool {
	return regexp.MustCompile(`(?m)^package \w+`).MatchString(block)
}

func isProgram(block string) bool {
	return regexp.MustCompile(`(?m)^package main\b`).MatchString(block) && strings.Contains(block, "func main()")
}

func readmeBlocks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	require.NoError(t, err)
	blocks := goBlocks(strings.ReplaceAll(string(text), "\r\n", "\n"))
	require.NotEmpty(t, blocks, "README.md has no Go code block: a reader looks for one first")
	return blocks
}

// Whole files are compiled as a user would; parts must be found, line for
// line, in the examples of some package, which are compiled and run there.
func TestREADMECodeCompiles(t *testing.T) {
	files := map[string]string{}
	examples := exampleLines(t)
	for i, block := range readmeBlocks(t) {
		if isFile(block) {
			files[fmt.Sprintf("block%d/code.go", i+1)] = block
			continue
		}
		require.Contains(t, examples, normalized(block),
			"Go block %d of README.md is no whole file (it has no package clause), and in no example_*_test.go:\n%s", i+1, block)
	}
	if len(files) > 0 {
		dir, env := userModule(t, files)
		run(t, dir, env, "go", "vet", "./...")
	}
}

func TestFirstREADMEBlockRuns(t *testing.T) {
	block := readmeBlocks(t)[0]
	require.True(t, isProgram(block), "the first Go block of README.md is no program:\n%s", block)

	srv, err := redistest.Auto(t.Context())
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Stop()) }()

	// A reader has Redis at the usual address; here it is elsewhere.
	block = regexp.MustCompile(`(localhost|127\.0\.0\.1)?:6379`).ReplaceAllString(block, srv.Addr())
	dir, env := userModule(t, map[string]string{"main.go": block})
	binary := filepath.Join(dir, "readme.exe")
	run(t, dir, env, "go", "build", "-o", binary, ".")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), redistest.EnvAddr+"="+srv.Addr())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "the first Go block of README.md, on %s, said:\n%s", srv, out)
	t.Logf("on %s it says:\n%s", srv, out)
}

// exampleLines is the code of all example files.
func exampleLines(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*/example*_test.go", "*/*/example*_test.go"} {
		names, err := filepath.Glob(filepath.Join(root(t), pattern))
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			all.WriteString(normalized(string(text)))
		}
	}
	return all.String()
}

// normalized is code without its indentation and empty lines.
func normalized(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestGoBlocksAreFound(t *testing.T) {
	blocks := goBlocks("a\n```go\npackage main\n\nfunc main() {}\n```\n```sh\ngo\n```\n```go\nx := 1\n```\n")
	require.Equal(t, []string{"package main\n\nfunc main() {}\n", "x := 1\n"}, blocks)
	require.True(t, isFile(blocks[0]))
	require.True(t, isProgram(blocks[0]))
	require.False(t, isFile(blocks[1]))
	require.Equal(t, "a\nb\n", normalized("\ta\n\n\t\tb\n"))
}
