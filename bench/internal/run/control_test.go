package run

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

const controlName = "wheellock:bench:test:control"

func TestControlLockGoesByItself(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *redistest.Server{"own": fixture.RedisOrMini, "embedded": fixture.Mini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := start(t)
			_, err := checkExpiry(context.Background(), holders.OneServer(srv), controlName, ControlLease)
			require.NoError(t, err)
			require.Empty(t, fixture.LockKeys(t, srv))
		})
	}
}

// meddle does something to the control lock until the test ends.
func meddle(t *testing.T, srv *redistest.Server, do func(redis.Conn)) {
	t.Helper()
	conn := fixture.Dial(t, srv)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				do(conn)
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

// The broken twin: a lock that is kept alive must be found out.
func TestControlLockThatIsRenewedIsAFault(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	meddle(t, srv, func(conn redis.Conn) { _, _ = conn.Do("PEXPIRE", controlName, 10_000) })
	_, err := checkExpiry(context.Background(), holders.OneServer(srv), controlName, ControlLease)
	for range 10 {
		if !fixture.IsNoAnswer(err) { // a machine that is too busy is asked again
			break
		}
		_, err = checkExpiry(context.Background(), holders.OneServer(srv), controlName, ControlLease)
	}
	require.ErrorContains(t, err, "is still there")
	require.Empty(t, fixture.LockKeys(t, srv))
}

func TestControlLockThatGoesTooEarlyIsAFault(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	meddle(t, srv, func(conn redis.Conn) { _, _ = conn.Do("DEL", controlName) })
	// So long a lease that no slow machine makes it look kept.
	_, err := checkExpiry(context.Background(), holders.OneServer(srv), controlName, time.Minute)
	require.ErrorContains(t, err, "before its lease")
}

func TestControlLockIsReleasedWhenInterrupted(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		_ = waitFor(srv, controlName)
	})
	_, err := checkExpiry(ctx, holders.OneServer(srv), controlName, time.Minute)
	wg.Wait()
	require.ErrorIs(t, err, errInterrupted)
	require.Empty(t, fixture.LockKeys(t, srv))
}

// waitFor waits until the key is there.
func waitFor(srv *redistest.Server, name string) error {
	conn, err := srv.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		if n, err := redis.Int(conn.Do("EXISTS", name)); err != nil || n == 1 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
