package lockgoredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closed closes a go-redis client when the test ends.
func closed[C redis.UniversalClient](t *testing.T, rdb C) C {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() }) // after a failover it complains of connections that the server closed
	return rdb
}

// used returns a Client that the test closes, if there is one.
func used(t *testing.T, c *lock.Client, err error) *lock.Client {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	return c
}

// requireSame takes a lock and finds its key by go-redis: both use the same database.
func requireSame(t *testing.T, rdb redis.UniversalClient, c *lock.Client) {
	t.Helper()
	ctx := bounded.Context(t)
	require.NoError(t, c.Mutex("same").Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		fields, err := rdb.HLen(ctx, "same").Result()
		require.NoError(t, err)
		require.EqualValues(t, 1, fields)
		return nil
	}))
	n, err := rdb.Exists(ctx, "same").Result()
	require.NoError(t, err)
	require.Zero(t, n)
}
