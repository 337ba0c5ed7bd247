package lock_test

import (
	"testing"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

func TestSlotsAreRedis(t *testing.T) {
	// From the Cluster specification.
	require.Equal(t, 12739, lock.SlotOf("123456789"))
	require.Equal(t, lock.SlotOf("{user1000}.following"), lock.SlotOf("{user1000}.followers"))
	for _, key := range []string{"", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "foo{bar", "foo}bar{", "\x00\xff{\xfe}"} {
		require.Equal(t, redisc.Slot(key), lock.SlotOf(key), key)
	}
}

func FuzzSlots(f *testing.F) {
	f.Add("a{b}c")
	f.Add("}{")
	f.Fuzz(func(t *testing.T, key string) {
		require.Equal(t, redisc.Slot(key), lock.SlotOf(key))
		if key != "" && lock.CheckSlot(key) == nil { // the empty name is refused before
			require.Equal(t, redisc.Slot(key), redisc.Slot(lock.Derived("redisson_lock__channel", key)), "its channel shares its slot")
		}
	})
}
