package integration_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/stranger"
)

// earlier is a commit whose programs may still run in a fleet, see .github/CHANGELOG.md.
const earlier = "23e34c7"

// fleetRounds is how often each of four goroutines of a process takes the lock.
const fleetRounds = 40

// mayFallBy is by how much tokens may fall while old and new clients with a prefix run together. It
// is 10 ms of the server's clock, and a second of that clock is 2^20 tokens.
const mayFallBy = 10 * (1 << 20) / 1000

// TestAMixedFleet: processes of the earlier commit, with the rights that its page gives, and
// processes of this one share locks. .ci/run -all asks for it.
func TestAMixedFleet(t *testing.T) {
	old, programs := fleetPrograms(t)
	one := fixture.Server(t)
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	for side, tree := range map[string]string{"old": old, "new": moduleRoot(t)} {
		for i, s := range append([]*redistest.Server{one}, rc.Servers...) {
			fixture.Do(t, s, "ACL", rightsIn(t, tree, side, i > 0)...)
		}
	}
	for _, f := range []struct {
		name, prefix, user string
		servers            []string
	}{
		{"one server", "app:", "of the side", []string{one.Addr()}},
		{"one server without a prefix", "", "default", []string{one.Addr()}},
		{"a Cluster", "app:", "of the side", rc.Addrs()},
		{"a Cluster without a prefix", "", "default", rc.Addrs()},
	} {
		for _, kind := range []string{"mutex", "fair", "rw", "permits"} {
			t.Run(f.name+"/"+kind, func(t *testing.T) {
				witness, s := fixture.Server(t), one
				if len(f.servers) > 1 {
					i, err := rc.Owner(redisc.Slot(f.prefix + "contended"))
					require.NoError(t, err)
					s = rc.Servers[i]
				}
				if kind == "permits" {
					fixture.Do(t, s, "SET", f.prefix+"contended", 3)
				}
				var all sync.WaitGroup
				began := time.Now()
				for side, program := range programs {
					for range 2 {
						args := []string{
							"-side", side, "-servers", strings.Join(f.servers, ","), "-witness", witness.Addr(),
							"-prefix", f.prefix, "-kind", kind, "-rounds", strconv.Itoa(fleetRounds),
						}
						if f.user != "default" {
							args = append(args, "-user", side, "-password", "secret")
						}
						all.Go(func() {
							out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
							if err != nil || bytes.Contains(out, []byte(" lost ")) {
								t.Errorf("%s: %v\n%s", side, err, out)
							}
						})
					}
				}
				all.Wait()
				t.Logf("%d acquisitions in %v", 16*fleetRounds, time.Since(began))
				requireHistory(t, fixture.Strings(t, witness, "LRANGE", "log", 0, -1), f.prefix, kind == "mutex" || kind == "fair")
				if kind == "permits" {
					require.EqualValues(t, 3, fixture.Int(t, s, "GETDEL", f.prefix+"contended"), "all were given back")
				}
				for _, s := range append([]*redistest.Server{one}, rc.Servers...) {
					require.Empty(t, leftoverKeys(t, s))
				}
			})
		}
	}
	require.ElementsMatch(t, []string{"wheellock_token", "app:wheellock_token"}, fixture.Keys(t, one, "*"), "old clients have one counter for all prefixes")
}

// fleetPrograms returns the source of the earlier commit, and the programs of both sides.
func fleetPrograms(t *testing.T) (old string, programs map[string]string) {
	t.Helper()
	if os.Getenv("WHEELLOCK_FLEET") == "" {
		t.Skip("it takes minutes: WHEELLOCK_FLEET=1 asks for it")
	}
	fixture.NeedAbilities(t, redistest.ChannelRights)
	old = sourceOf(t, earlier)
	return old, map[string]string{"old": buildFleet(t, old), "new": buildFleet(t, moduleRoot(t))}
}

// TestAMixedFleetBesideJava: four processes of each side, with eight goroutines each, take turns with sixteen
// threads of a JVM. Old clients take the releases that new ones leave to Java, and new ones must not starve.
func TestAMixedFleetBesideJava(t *testing.T) {
	const lasts = 20 * time.Second
	_, programs := fleetPrograms(t)
	s, witness := fixture.Server(t), fixture.Server(t)
	jvm, err := stranger.New(stranger.Config{
		Dial: func() (redis.Conn, error) { return s.Dial() }, Key: "contended", Threads: 16, Lease: 30 * time.Second,
		Wait: 5 * time.Second, Hold: 5 * time.Millisecond, Again: time.Millisecond,
		Delay: func() time.Duration { return time.Millisecond + rand.N(time.Millisecond) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, jvm.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for side, program := range programs {
		for range 4 {
			all.Go(func() {
				out, err := exec.CommandContext(t.Context(), program, "-side", side, "-servers", s.Addr(), "-witness", witness.Addr(),
					"-kind", "mutex", "-goroutines", "8", "-for", lasts.String()).CombinedOutput()
				if err != nil || bytes.Contains(out, []byte(" lost ")) {
					t.Errorf("%s: %v\n%s", side, err, out)
				}
			})
		}
	}
	require.NoError(t, jvm.Run(ctx))
	all.Wait()
	turns := map[string]int{"Java": jvm.Counts().Turns}
	for _, line := range fixture.Strings(t, witness, "LRANGE", "log", 0, -1) {
		words := strings.Fields(line)
		require.Len(t, words, 3, "%q: two were inside", line)
		turns[words[1]]++
	}
	t.Logf("turns: %v", turns)
	require.Greater(t, turns["new"], turns["old"]/4)
	require.Positive(t, turns["Java"])
}

// requireHistory checks that no two processes that exclude each other were inside at once, that the sides
// took turns, and that tokens are as CHANGELOG.md says. Only some kinds of locks have tokens.
func requireHistory(t *testing.T, history []string, prefix string, tokens bool) {
	t.Helper()
	require.Len(t, history, 16*fleetRounds)
	changes, repeated, fell, highest, before := 0, 0, int64(0), int64(0), ""
	for _, line := range history {
		words := strings.Fields(line)
		require.Len(t, words, 3, "%q: two that exclude each other were inside", line)
		if side := words[1]; side != before {
			changes, before = changes+1, side
		}
		token, err := strconv.ParseInt(words[2], 10, 64)
		require.NoError(t, err)
		if !tokens {
			require.Zero(t, token)
			continue
		}
		if token == highest {
			repeated++
		}
		fell, highest = max(fell, highest-token), max(highest, token)
	}
	t.Logf("%d changes of side, %d repeated tokens, tokens fell by %d at most", changes, repeated, fell)
	require.Greater(t, changes, 10)
	if prefix == "" {
		require.Zero(t, repeated)
		require.Zero(t, fell, "all have one counter")
	}
	require.LessOrEqual(t, fell, int64(mayFallBy))
}

// sourceOf returns a directory with the files of a commit.
func sourceOf(t *testing.T, commit string) string {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "git", "-C", moduleRoot(t), "archive", commit).Output()
	if err != nil {
		t.Skipf("this checkout does not have commit %s: fetch the whole history", commit)
	}
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.MkdirAll(path, 0o755))
		case tar.TypeReg:
			text, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, text, 0o644))
		}
	}
}

// buildFleet builds testdata/fleet with the packages of a tree.
func buildFleet(t *testing.T, tree string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "fleet")
	dir := filepath.Join(tree, "integration", "testdata", "fleet")
	if tree != moduleRoot(t) {
		text, err := os.ReadFile(filepath.Join("testdata", "fleet", "main.go"))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), text, 0o644))
	}
	run(t, tree, []string{"GOWORK=off"}, "go", "build", "-buildvcs=false", "-o", program, "./integration/testdata/fleet")
	return program
}

// rightsIn returns the arguments of ACL that make a user with all rights that the page of a tree lists. In
// older trees this page is README.md.
func rightsIn(t *testing.T, tree, user string, inCluster bool) []any {
	t.Helper()
	page := filepath.Join(tree, "lock", "SERVERS.md")
	text, err := os.ReadFile(page)
	if errors.Is(err, fs.ErrNotExist) {
		page = filepath.Join(tree, "README.md")
		text, err = os.ReadFile(page)
	}
	require.NoError(t, err)
	args := []any{"SETUSER", user, "reset"}
	for _, words := range fixture.RightsOfPage(t, page) {
		for _, word := range words[1:] {
			args = append(args, word)
		}
	}
	if inCluster {
		more := regexp.MustCompile(`(?s)in a Cluster (.*?)\n\n`).FindSubmatch(text)
		require.NotNil(t, more)
		for _, word := range regexp.MustCompile("`([+~&][^`]*)`").FindAllSubmatch(more[1], -1) {
			if strings.HasPrefix(string(word[1]), "+s") && !fixture.HasAbilities(t, redistest.ShardedPubSub) {
				continue // the server does not have this command
			}
			args = append(args, string(word[1]))
		}
	}
	return args
}

// leftoverKeys returns the keys that a server should not have any more: all but the token counters.
func leftoverKeys(t *testing.T, s *redistest.Server) (left []string) {
	t.Helper()
	for _, key := range fixture.Keys(t, s, "*") {
		if !strings.Contains(key, "wheellock_token") {
			left = append(left, key)
		}
	}
	return left
}
