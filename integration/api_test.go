package integration_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// TestAPIIsTheAgreedOne makes every change of the exported API a line in a
// diff. What the documentation says is left out, so that such a line is seen.
func TestAPIIsTheAgreedOne(t *testing.T) {
	var b strings.Builder
	for path := range strings.Lines(run(t, moduleRoot(t), nil, "go", "list", "./wheel/...", "./renewal/...", "./lock/...")) {
		path = strings.TrimSpace(path)
		if strings.Contains(path+"/", "/internal/") {
			continue
		}
		b.WriteString("package " + strings.TrimPrefix(path, module+"/") + "\n\n")
		b.WriteString(declarations(run(t, moduleRoot(t), nil, "go", "doc", "-all", path)) + "\n\n")
	}
	for _, dir := range releasedModules {
		b.WriteString("package " + dir + "\n\n")
		b.WriteString(declarations(run(t, filepath.Join(moduleRoot(t), dir), nil, "go", "doc", "-all", ".")) + "\n\n")
	}
	got := strings.TrimSpace(b.String()) + "\n"
	file := filepath.Join("testdata", "api.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "write it with: go test ./integration -run API -update")
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got,
		"the exported API has changed; if that is meant: go test ./integration -run API -update")
}

// declarations are what go doc -all prints, without the words.
func declarations(doc string) string {
	// What precedes the first of these is the package's own comment.
	start := regexp.MustCompile(`(?m)^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$`).FindStringIndex(doc)
	if start == nil {
		return ""
	}
	comment := regexp.MustCompile(`\s*// .*$`)
	var b strings.Builder
	for line := range strings.Lines(doc[start[0]:]) {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		line = strings.TrimRight(comment.ReplaceAllString(strings.TrimRight(line, "\n"), ""), " \t")
		if line != "" && line != "//" {
			b.WriteString(line + "\n")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestDeclarationsLeaveWordsOut(t *testing.T) {
	require.Equal(t, "FUNCTIONS\nfunc F() error\nTYPES\ntype T struct {\n\tA int\n}\nfunc (T) M()",
		declarations("package p // import \"p\"\n\nWords.\n\nFUNCTIONS\n\nfunc F() error\n    F says func G().\n\n    More.\n\nTYPES\n\ntype T struct {\n\t// A is it.\n\tA int // one\n\n\t// Has unexported fields.\n}\n    T is.\n\nfunc (T) M()\n"))
}
