package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestThePrefixIsTheKeyPrefixOfPrograms: the rights of lock/SERVERS.md for one prefix are enough, and a
// program with that KeyPrefix shares the counter of tokens.
func TestThePrefixIsTheKeyPrefixOfPrograms(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	rights := fixture.RightsOfPage(t, "../../SERVERS.md")
	fixture.GiveRights(t, s, rights[0])
	url := strings.Replace(s.URL(), "redis://", "redis://locker:secret@", 1)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	before := fixture.Hold(t, c.Mutex("n").Lock)
	w := wheellock(t, url, "run", "-prefix", "app:", "n", "--", executable(t), "inspect", "n")
	require.Equal(t, statusNotAcquired, w.run(t), w.stderr)
	w.requireOneLine(t, "app:n: the command was not run", `"wheellock inspect app:n"`)
	w = wheellock(t, url, "inspect", "-prefix", "app:", "n")
	require.Zero(t, w.run(t), w.stderr)
	require.Contains(t, w.stdout.String(), "app:n: held (exclusive)\n")
	w = wheellock(t, url, "unlock", "-prefix", "app:", "-force", "n")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "app:n: unlocked\n", w.stdout.String())
	w = inShell(t, url, `exec "$0" run -prefix app: n -- sh -c 'echo $WHEELLOCK_NAME $WHEELLOCK_TOKEN'`)
	require.Zero(t, w.run(t), w.stderr)
	require.Greater(t, w.stdout.String(), fmt.Sprintf("app:n %d\n", before.Token()))
	require.Equal(t, []string{"app:wheellock_token"}, fixture.Keys(t, s, "*wheellock_token*"))

	// Without the prefix, the advice is to give it.
	w = wheellock(t, url, "run", "n", "--", executable(t), "version")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "did you forget -prefix?")
	w = wheellock(t, url, "run", "-prefix", "another:", "n", "--", executable(t), "version")
	require.Equal(t, statusUnknown, w.run(t))
	require.NotContains(t, w.stderr.String(), "did you forget")
	w = wheellock(t, url, "inspect", "n")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "did you forget -prefix?")
	w = wheellock(t, url, "check")
	require.Equal(t, statusMissing, w.run(t))
	require.Contains(t, w.stderr.String(), "wheellock: did you forget -prefix?")
	w = wheellock(t, url, "check", "-prefix", "another:")
	require.Equal(t, statusMissing, w.run(t))
	require.NotContains(t, w.stderr.String(), "did you forget")
}

// TestCheckTellsAKeyOfListFromACommand: this user lacks one command, and two keys that only list reads.
func TestCheckTellsAKeyOfListFromACommand(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fixture.GiveRights(t, s, fixture.RightsOfPage(t, "../../SERVERS.md")[0])
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "+@all", "-scan")
	w := wheellock(t, strings.Replace(s.URL(), "redis://", "redis://locker:secret@", 1), "check", "-prefix", "app:")
	require.Zero(t, w.run(t), w.stderr)
	said := w.stdout.String()
	require.Contains(t, said, "these rights too: +scan ~redisson_lock_queue:{app:*} ~redisson_lock_token:{app:*}\n")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	w := wheellock(t, "", "version")
	require.Zero(t, w.run(t), w.stderr)
	require.Regexp(t, regexp.MustCompile(`^wheellock \S.* go1\.\S+ \w+/\w+\n$`), w.stdout.String())
	w = wheellock(t, "", "version", "x")
	require.Equal(t, statusUsage, w.run(t))
	w.requireOneLine(t, "no arguments")
}
