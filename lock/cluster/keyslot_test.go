package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// TestAllKeysOfALockShareItsSlot, as a server computes slots, whatever the name and the
// prefix are. The counter of tokens is in the slot too.
func TestAllKeysOfALockShareItsSlot(t *testing.T) {
	conn := fixture.Dial(t, onCluster(t).Servers[0])
	words := []string{"{", "}", "a", ":", "7", "timeout", "order:42", "redisson_lock_queue:", "wheellock_token:", "{t}"}
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string, most int) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, most).Draw(t, label), "")
		}
		prefix := text("prefix", 3)
		if keys.CheckPrefix(prefix) != nil {
			t.Skip("no prefix")
		}
		name := prefix + text("name", 5)
		if keys.Check(name) != nil || keys.CheckSlot(name) != nil {
			t.Skip("no name")
		}
		counter := keys.CountersOf(prefix, true).Key(name)
		slots := make(map[int64][]string)
		for _, key := range []string{
			name, counter, keys.FencedCounter(name), keys.FairQueue(name), keys.FairScores(name), keys.FairSigns(name), keys.Polls(name),
			keys.RWReader(name, "c:1:2"), keys.RWWriters(name), keys.PermitsTaken(name), keys.Result(name, "c", 1), keys.Prefix(name) + ":x",
			// A sharded channel must be where its lock is.
			keys.Channel(name), keys.RWChannel(name), keys.SemaphoreChannel(name), keys.LatchChannel(name, true), keys.FairChannel(name, "c:1:2"),
		} {
			slot, err := conn.Do("CLUSTER", "KEYSLOT", key)
			require.NoError(t, err)
			slots[slot.(int64)] = append(slots[slot.(int64)], key)
		}
		require.Len(t, slots, 1, slots)
	})
}
