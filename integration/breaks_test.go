package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTableOfBreaksIsComplete: every exported name of the earlier commit that is gone or declared in
// another way stands in CHANGELOG.md, in the table of what breaks a program.
func TestTheTableOfBreaksIsComplete(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	before, now := exported(read(filepath.Join("testdata", "api-"+earlier+".txt"))), exported(read(filepath.Join("testdata", "api.txt")))
	_, table, found := strings.Cut(read(filepath.Join(root(t), "CHANGELOG.md")), "\n| in Go |")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n| in Redis |")
	require.True(t, found)

	var broken []string
	for name, declared := range before {
		owner := name[:strings.LastIndex(name, ".")]
		if _, isMember := before[owner]; isMember && now[owner] != before[owner] {
			continue // its type stands there
		}
		if now[name] != declared {
			broken = append(broken, name)
			require.Contains(t, table, "`"+name+"`", "%s was %q and is %q", name, declared, now[name])
		}
	}
	slices.Sort(broken)
	require.Subset(t, broken, []string{"lock.Mutex.Do", "lock.Reason", "renewal.Recorder", "wheel.CallbackError.Timers", "wheel.Config.OnSlow"})
	for _, name := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range strings.Split(strings.ReplaceAll(name[1], "`", ""), ", ") {
			_, was := before[name]
			_, is := now[name]
			require.True(t, was || is, "the table names %s, which there is not", name)
		}
	}
}

// exported are the declarations of api.txt by their names, such as wheel.Config.OnSlow. Of a variable
// or a constant only the name counts.
func exported(api string) map[string]string {
	names := map[string]string{}
	pkg, inType, inBlock := "", "", false
	method := regexp.MustCompile(`^func \(\w+ \*?(\w+)\) (\w+)`)
	for line := range strings.Lines(api) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "//" {
			continue
		}
		declared := strings.Join(words, " ")
		switch {
		case words[0] == "package":
			pkg = words[1][strings.LastIndex(words[1], "/")+1:]
		case method.MatchString(line):
			m := method.FindStringSubmatch(line)
			names[pkg+"."+m[1]+"."+m[2]] = declared
		case strings.HasPrefix(line, "func "):
			name, _, _ := strings.Cut(words[1], "(")
			names[pkg+"."+name] = declared
		case strings.HasPrefix(line, "type "):
			names[pkg+"."+words[1]], inType = declared, words[1]
		case strings.HasPrefix(line, "const (") || strings.HasPrefix(line, "var ("):
			inBlock = true
		case strings.HasPrefix(line, "const ") || strings.HasPrefix(line, "var "):
			names[pkg+"."+words[1]] = ""
		case strings.HasPrefix(line, ")") || strings.HasPrefix(line, "}"):
			inType, inBlock = "", false
		case strings.HasPrefix(line, "\t") && inBlock:
			names[pkg+"."+strings.TrimSuffix(words[0], ",")] = ""
		case strings.HasPrefix(line, "\t") && inType != "" && !strings.HasPrefix(words[0], "//"):
			fields, kind := words, ""
			for i, word := range words {
				if !strings.HasSuffix(word, ",") {
					fields, kind = words[:i+1], strings.Join(words[i+1:], " ")
					break
				}
			}
			for _, field := range fields {
				field, _, _ = strings.Cut(strings.TrimSuffix(field, ","), "(") // of an interface
				names[pkg+"."+inType+"."+field] = kind
			}
		}
	}
	return names
}
