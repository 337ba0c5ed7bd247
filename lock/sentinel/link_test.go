package sentinel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// TestSentinelsALongWayOffAreDialledWithTheDefaults, and so is their master.
func TestSentinelsALongWayOffAreDialledWithTheDefaults(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	f := startFake(t, s.Addr(), 1)
	link := fixture.Link(t, 300*time.Millisecond)
	source, err := sentinel.Open("redis-sentinel://"+f.Addr()+"/0?master=mymaster", sentinel.Config{NetDial: link.Dial})
	require.NoError(t, err)
	c := fixture.Client(t, source, lock.Config{})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
