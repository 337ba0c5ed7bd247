package main

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestInspectSaysWhoHoldsALock(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	c := fixture.ClientOf(t, s, lock.Config{Label: "web-1"})
	ctx := bounded.Context(t)
	inspect := func(args ...string) string {
		t.Helper()
		w := wheellock(t, s.URL(), append([]string{"inspect"}, args...)...)
		require.Zero(t, w.run(t), w.stderr)
		require.Empty(t, w.stderr.String())
		return w.stdout.String()
	}
	parsed := func(name string) (v view) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(inspect("-json", name)), &v))
		return v
	}
	require.Equal(t, "n: free\n", inspect("n"))
	require.Equal(t, view{Name: "n"}, parsed("n"))

	held := fixture.Hold(t, c.Mutex("n").Lock)
	again := fixture.Hold(t, func(ctx context.Context) (*lock.Held, error) { return c.Mutex("n").Lock(held.Context(ctx)) })
	require.Regexp(t, `^n: held \(exclusive\)\n  lease   \d+\.\d s left\n  holder  web-1 \(`+c.ID()+`:\d+:\d+\), 2 times\n$`, inspect("n"))
	v := parsed("n")
	require.True(t, v.Locked)
	require.Equal(t, "exclusive", v.Mode)
	require.Positive(t, *v.TTL)
	require.Contains(t, v.Holders[0].ID, c.ID())
	require.Equal(t, 2, v.Holders[0].Count)
	require.Equal(t, "web-1", v.Holders[0].Label)
	require.NoError(t, again.Unlock(ctx))

	rw := c.RWMutex("rw")
	reading := fixture.Hold(t, rw.Reader().Lock)
	fixture.Hold(t, rw.Reader().Lock)
	require.Equal(t, "read", parsed("rw").Mode)
	require.Len(t, parsed("rw").Holders, 2)
	require.NotNil(t, reading)
	fixture.Hold(t, c.RWMutex("w").Writer().Lock)
	require.Equal(t, "write", parsed("w").Mode)
	require.Contains(t, inspect("w"), ", writes\n")

	fenced := fixture.Hold(t, c.FencedMutex("f").Lock)
	require.Equal(t, fenced.Token(), parsed("f").Token)
	require.Contains(t, inspect("f"), "token   1 ")

	fixture.Do(t, s, "SET", "foreign", "x", "EX", 100)
	require.Equal(t, "foreign", parsed("foreign").Mode)
	require.Contains(t, inspect("foreign"), "foreign: held (foreign)\n")

	odd := "odd\x7f\u009b2J\U000e0001"
	id := "8743c9c0-0795-4907-87fd-6c719a6b4586:1\xff\u202e"
	fixture.Do(t, s, "HSET", odd, id, 1)
	require.Contains(t, inspect("-json", odd), `"name": "odd\u007f\u009b2J\udb40\udc01",`)
	require.Equal(t, odd, parsed(odd).Name)
	require.False(t, parsed(odd).Quoted)
	require.Equal(t, holder{ID: strconv.Quote(id), Quoted: true, Count: 1}, parsed(odd).Holders[0])
	fixture.Do(t, s, "HSET", "\xff", id, 1)
	require.Equal(t, `"\xff"`, parsed("\xff").Name)
	require.True(t, parsed("\xff").Quoted)

	fixture.Do(t, s, "RPUSH", "list", "x")
	w := wheellock(t, s.URL(), "inspect", "list")
	require.Equal(t, statusUnknown, w.run(t))
	w.requireOneLine(t, "another name")

	for _, name := range []string{"rw", "w", "f", "n"} {
		w := wheellock(t, s.URL(), "unlock", "-force", name)
		require.Zero(t, w.run(t), w.stderr)
		require.Equal(t, name+": unlocked\n", w.stdout.String())
		require.False(t, fixture.Exists(t, s, name))
	}
	w = wheellock(t, s.URL(), "unlock", "-force", "foreign")
	require.Equal(t, statusNotAcquired, w.run(t))
	w.requireOneLine(t, "another library has the lock")
	require.True(t, fixture.Exists(t, s, "foreign"))
}

// TestInspectPrintsNothingThatATerminalObeys: any client of Redis may choose a field or the name of a lock.
func TestInspectPrintsNothingThatATerminalObeys(t *testing.T) {
	said := view{Name: "a\r\nb: free", Locked: true, Mode: "exclusive", Holders: []holder{
		{ID: "x:1\n  token   9 (of the last fenced holder)"}, {ID: "\x1b[2J:2"}, {ID: "\xff:3"}, {ID: "übung:4"}, {ID: "\x1b:5", Label: "web-1"},
	}}.String()
	require.Equal(t, `"a\r\nb: free": held (exclusive)
  lease   without end
  holder  "x:1\n  token   9 (of the last fenced holder)"
  holder  "\x1b[2J:2"
  holder  "\xff:3"
  holder  übung:4
  holder  web-1 ("\x1b:5")
`, said)
}
