package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestWhatDeletesAKeyDoesNotTouchItAgain: the slot is on its way, and all keys are still at the old
// server. After a script has deleted a key, the server does not let it use the key again, because the
// key may be at the new server. The message of such a release would be lost, and its caller would not
// know.
func TestWhatDeletesAKeyDoesNotTouchItAgain(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	cfg := lock.Config{Lease: time.Minute}
	c := newClient(t, rc, cluster.Options{PubSub: topology.PubSubPlain}, cfg)
	for what, test := range map[string]struct {
		begin   func(t *testing.T, s *redistest.Server, name string) (end func(context.Context) error)
		channel func(name string) string
	}{
		"ForceUnlock of a Mutex": {func(t *testing.T, _ *redistest.Server, name string) func(context.Context) error {
			fixture.Hold(t, c.Mutex(name).Lock)
			return func(ctx context.Context) error { _, err := c.Mutex(name).ForceUnlock(ctx); return err }
		}, keys.Channel},
		"Unlock of a Writer before others that wait": {func(t *testing.T, s *redistest.Server, name string) func(context.Context) error {
			held := fixture.Hold(t, c.RWMutex(name).Writer().Lock)
			fixture.Do(t, s, "HSET", keys.RWWriters(name), "other", 1)
			return held.Unlock
		}, keys.RWChannel},
		"ForceUnlock of a Writer before others that wait": {func(t *testing.T, s *redistest.Server, name string) func(context.Context) error {
			fixture.Hold(t, c.RWMutex(name).Writer().Lock)
			fixture.Do(t, s, "HSET", keys.RWWriters(name), "other", 1)
			return func(ctx context.Context) error { _, err := c.RWMutex(name).Writer().ForceUnlock(ctx); return err }
		}, keys.RWChannel},
		"a Writer that gives up": {func(t *testing.T, s *redistest.Server, name string) func(context.Context) error {
			fixture.Hold(t, c.RWMutex(name).Reader().Lock)
			gaveUp := waits(t, c.RWMutex(name).Writer(), s, keys.RWWriters(name))
			return func(context.Context) error { gaveUp(); return nil }
		}, keys.RWChannel},
		"Unlock of a FairMutex before one that waits": {func(t *testing.T, s *redistest.Server, name string) func(context.Context) error {
			held := fixture.Hold(t, c.FairMutex(name).Lock)
			gaveUp := waits(t, c.FairMutex(name), s, keys.FairQueue(name))
			return func(ctx context.Context) error {
				err := held.Unlock(ctx)
				gaveUp()
				return err
			}
		}, keys.Channel},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := bounded.Context(t)
			name := what
			slot, from := redisc.Slot(name), owner(t, rc, name)
			to := (from + 1) % 3
			end := test.begin(t, rc.Servers[from], name)
			heard := fixture.Dial(t, rc.Servers[from])
			hear := func() error { _, err := redis.ReceiveWithTimeout(heard, 20*time.Second); return err }
			require.NoError(t, heard.Send("PSUBSCRIBE", test.channel(name)+"*"))
			require.NoError(t, heard.Flush())
			require.NoError(t, hear(), "it is confirmed")
			require.NoError(t, rc.BeginMove(slot, from, to))
			require.NoError(t, end(ctx))
			require.NoError(t, hear(), "waiters are told")
			require.NoError(t, rc.MoveKeys(slot, from, to))
			require.NoError(t, rc.EndMove(slot, from, to))
		})
	}
}

// waits starts a call that waits for m until the returned function is called. The call waits when the
// server has key.
func waits(t *testing.T, m *lock.Mutex, s *redistest.Server, key string) (gaveUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded.Context(t))
	ended := make(chan error, 1)
	go func() { ended <- m.Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
	require.Eventually(t, func() bool { return fixture.Exists(t, s, key) }, time.Minute, time.Millisecond)
	return func() {
		cancel()
		require.ErrorIs(t, bounded.Receive(t, ended), context.Canceled)
	}
}
