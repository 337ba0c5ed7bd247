package run

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

// Each way in which a lock can be lost, done to one lock of a row, is found.
func TestCheckFindsEveryLostLock(t *testing.T) {
	t.Parallel()
	const n, lease = 8, time.Hour
	for _, d := range holders.Drivers() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			srv := fixture.RedisOrMini(t)
			name := func(i int) string { return "l" + strconv.Itoa(i) }
			target := holders.OneServer(srv)
			h, err := holders.Hold(d, target, "l", n, lease)
			require.NoError(t, err)
			defer h.Close()
			for i := range n {
				require.NoError(t, h.Acquire(context.Background(), i))
			}
			require.Equal(t, n, h.CountHeld())
			lost, odd, err := checkHeld(target, n, name, h, lease, func(int) {})
			require.NoError(t, err)
			require.Zero(t, lost)
			require.Zero(t, odd)

			conn := fixture.Dial(t, srv)
			do := func(command string, args ...any) {
				_, err := conn.Do(command, args...)
				require.NoError(t, err)
			}
			do("DEL", "l0")                       // absent
			do("DEL", "l1")                       // another's
			do("HSET", "l1", "somebody:1:1", "1") //
			do("PEXPIRE", "l1", 1000_000)         //
			do("HSET", "l2", "somebody:1:1", "1") // shared with another
			do("SET", "l3", "x", "PX", 1000_000)  // no lock at all
			do("PERSIST", "l4")                   // never expires
			do("PEXPIRE", "l5", 36_000_000)       // lives longer than the lease
			do("RENAME", "l6", "l7")              // absent, and another lock of ours in its place
			lost, odd, err = checkHeld(target, n, name, h, lease, func(int) {})
			require.NoError(t, err)
			require.Equal(t, 6, lost, "l0 to l3, l6 and l7")
			require.Equal(t, 2, odd, "l4 and l5")

			there, err := countKeys(target, n, name, func(int) {})
			require.NoError(t, err)
			require.Equal(t, 6, there)
			deleted, err := deleteKeys(target, n, name, func(int) {})
			require.NoError(t, err)
			require.Equal(t, 6, deleted)
		})
	}
}
