package integration_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

	text, err := os.ReadFile(filepath.Join(root(t), ".github", "CHANGELOG.md"))
	require.NoError(t, err)
	named := namedInLists(strings.ReplaceAll(string(text), "\r\n", "\n"))
	for _, name := range want {
		if !slices.Contains(named, name) {
			t.Errorf("CHANGELOG.md, \"Every call and setting\": %s is missing", name)
		}
	}
	slices.Sort(named)
	for i, name := range named {
		if i > 0 && named[i-1] == name {
			t.Errorf("CHANGELOG.md, \"Every call and setting\": %s is there twice", name)
		} else if !slices.Contains(want, name) {
			t.Errorf("CHANGELOG.md, \"Every call and setting\": %s is not in testdata/api.txt", name)
		}
	}
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
