package lock_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
)

func TestInspectSaysWhoHoldsTheLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	require.Equal(t, "app:"+t.Name(), mu.Name())
	info, err := mu.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.Info{}, info)
	require.False(t, mu.HeldBy(ctx))

	held, err := mu.Lock(lock.WithOwner(ctx, "worker-7"))
	require.NoError(t, err)
	inner, err := mu.Lock(held.Context(ctx))
	require.NoError(t, err)
	info, err = mu.Inspect(ctx)
	require.NoError(t, err)
	require.True(t, info.Locked)
	require.Equal(t, 2, info.Holders[0].Count)
	require.Regexp(t, "^"+c.ID()+":worker-7:[0-9]+$", info.Holders[0].Field)
	require.Greater(t, info.TTL, time.Duration(0))
	locked, err := mu.IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	ttl, err := mu.TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, ttl, 20*time.Second)
	require.True(t, fixture.Exists(t, s, "app:"+t.Name()))

	require.True(t, mu.HeldBy(held.Context(ctx)))
	require.True(t, mu.HeldBy(lock.WithOwner(ctx, "worker-7")))
	require.False(t, mu.HeldBy(ctx))
	require.False(t, mu.HeldBy(lock.WithoutOwner(held.Context(ctx))))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	require.False(t, mu.HeldBy(lock.WithOwner(ctx, "worker-7")))
}

func TestEveryClientSeesTheLabelOfAHolder(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	other := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	for label, want := range map[string]string{
		"": owner.Label(owner.NewID(host)), "-": "", "web-1": "web-1", "a:b{c}\n\xff": "a_b_c___",
		"orders-api-7f9c5d9b4d-x2k4j": "pi-7f9c5d9b4d-x2k4j",
	} {
		c := fixture.ClientOf(t, s, lock.Config{Label: label})
		require.Len(t, c.ID(), 36)
		require.Equal(t, want, owner.Label(c.ID()))
		for kind, mu := range fixture.MutexKinds(c, "label:"+want) {
			held := fixture.Hold(t, mu.Lock)
			named := fixture.MutexKinds(other, mu.Name())[kind]
			for _, from := range []*lock.Mutex{mu, named} {
				info, err := from.Inspect(ctx)
				require.NoError(t, err, kind)
				require.Len(t, info.Holders, 1, kind)
				require.Equal(t, want, info.Holders[0].Label, kind)
			}
			deleted, err := named.ForceUnlock(ctx)
			require.NoError(t, err, kind)
			require.True(t, deleted, kind)
			require.False(t, fixture.Exists(t, s, mu.Name()), kind)
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost, kind)
		}
	}
}

func TestTheLabelOfAHostIsWithoutItsDomain(t *testing.T) {
	for host, want := range map[string]string{"": "", "web-1": "web-1", "ip-10-0-12-34.eu-west-1.compute.internal": "ip-10-0-12-34"} {
		require.Equal(t, want, lock.LabelOn(host, lock.Config{}))
		require.Equal(t, "a.b", lock.LabelOn(host, lock.Config{Label: "a.b"}))
		require.Empty(t, lock.LabelOn(host, lock.Config{Label: "-"}))
	}
}

// TestALabelCostsNoMemory: the id is as long as one without it.
func TestALabelCostsNoMemory(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	memory := map[string]int64{}
	for _, label := range []string{"-", "a", "a-very-long-label-of-a-pod-x2k4j"} {
		c := fixture.ClientOf(t, s, lock.Config{Label: label})
		for kind, mu := range fixture.MutexKinds(c, "memory") {
			held := fixture.Hold(t, mu.Lock)
			of := fixture.Int(t, s, "MEMORY", "USAGE", mu.Name(), "SAMPLES", 0)
			if memory[kind] == 0 {
				memory[kind] = of
			}
			require.Equal(t, memory[kind], of, "%s %s", kind, label)
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
	}
}

// TestAFieldOf64BytesIsTheLongestThatIsCheap: the reason for the length of an id, and what the
// document of WithOwner says.
func TestAFieldOf64BytesIsTheLongestThatIsCheap(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	bytes := map[int]int64{}
	for _, n := range []int{64, 65} {
		fixture.Do(t, s, "HSET", "x", strings.Repeat("f", n), 1)
		fixture.Do(t, s, "PEXPIRE", "x", time.Hour.Milliseconds())
		bytes[n] = fixture.Int(t, s, "MEMORY", "USAGE", "x")
		fixture.Do(t, s, "DEL", "x")
	}
	require.InDelta(t, 136, bytes[65]-bytes[64], 30)

	c := fixture.ClientOf(t, s, lock.Config{})
	for text, cheap := range map[string]bool{strings.Repeat("o", 19): true, strings.Repeat("o", 30): false} {
		held := fixture.Hold(t, func(ctx context.Context) (*lock.Held, error) { return c.Mutex("n").Lock(lock.WithOwner(ctx, text)) })
		kind, err := redis.String(fixture.Do(t, s, "OBJECT", "ENCODING", "n"), nil)
		require.NoError(t, err)
		require.Equal(t, cheap, kind == "listpack" || kind == "ziplist", kind)
		require.NoError(t, held.Unlock(bounded.Context(t)))
	}
}

// TestAFieldWithoutALabelIsReadAsEver: of an older version, of Redisson, and of anybody.
func TestAFieldWithoutALabelIsReadAsEver(t *testing.T) {
	t.Parallel()
	s := fixture.RedisOrMini(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	for _, field := range []string{
		"8743c9c0-0795-4907-87fd-6c719a6b4586:1:1", "8743c9c0-0795-4907-87fd-6c719a6b4586:77", "x@host:1",
		strings.Repeat("x", 28) + "@\x1b[2J-1:1:1", strings.Repeat("x", 36) + "@host:1",
	} {
		fixture.Do(t, s, "HSET", "n", field, 1)
		fixture.Do(t, s, "PEXPIRE", "n", 30_000)
		info, err := c.Mutex("n").Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, []lock.Holder{{Field: field, Count: 1}}, info.Holders)
		_, err = c.Mutex("n").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		deleted, err := c.Mutex("n").ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, deleted)
	}
}
