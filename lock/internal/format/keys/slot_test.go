package keys_test

import (
	"testing"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

func TestSlotsAreRedis(t *testing.T) {
	// an example of the Cluster specification
	require.Equal(t, 12739, keys.Slot("123456789"))
	require.Equal(t, keys.Slot("{user1000}.following"), keys.Slot("{user1000}.followers"))
	for _, key := range []string{"", "foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "foo{bar", "foo}bar{", "\x00\xff{\xfe}"} {
		require.Equal(t, redisc.Slot(key), keys.Slot(key), key)
	}
}

func FuzzSlots(f *testing.F) {
	f.Add("a{b}c")
	f.Add("}{")
	f.Fuzz(func(t *testing.T, key string) {
		require.Equal(t, redisc.Slot(key), keys.Slot(key))
		if key != "" && keys.CheckSlot(key) == nil { // Check refuses the empty name
			require.Equal(t, redisc.Slot(key), redisc.Slot(keys.Channel(key)), "its channel shares its slot")
		}
	})
}
