package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

func TestCheckSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	w := wheellock(t, s.URL(), "check")
	require.Zero(t, w.run(t), w.stderr)
	require.Equal(t, "Redis has all that wheellock needs.\n", w.stdout.String())
	require.Empty(t, fixture.LockKeys(t, s))

	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">pass", "~app:*", "~*app:*", "&*", "+@all", "-publish")
	url := strings.Replace(s.URL(), "redis://", "redis://locker:pass@", 1)
	w = wheellock(t, url, "check", "-prefix", "app:")
	require.Equal(t, statusMissing, w.run(t), w.stderr)
	require.Contains(t, strings.ToLower(w.stderr.String()), "publish")
	require.Empty(t, w.stdout.String())
	for line := range strings.Lines(w.stderr.String()) {
		require.True(t, strings.HasPrefix(line, "wheellock: "), line)
	}

	require.NoError(t, s.Kill())
	w = wheellock(t, s.URL(), "check")
	require.Equal(t, statusUnknown, w.run(t))
	require.Contains(t, w.stderr.String(), s.Addr())
}
