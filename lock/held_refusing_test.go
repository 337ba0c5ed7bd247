package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// refusing are ways to make a server refuse all writes, and to end that.
var refusing = map[string]struct {
	advice       string
	begin, cease func(*testing.T, *redistest.Server)
}{
	"MISCONF": {
		advice: "make the server save its data again (see its log and its disk), or set stop-writes-on-bgsave-error no",
		begin: func(t *testing.T, s *redistest.Server) {
			require.NoError(t, os.MkdirAll(filepath.Join(dump(t, s), "in the way"), 0o777))
			fixture.Do(t, s, "CONFIG", "SET", "save", "3600 1")
			save(t, s, "err")
		},
		cease: func(t *testing.T, s *redistest.Server) {
			require.NoError(t, os.RemoveAll(dump(t, s)))
			save(t, s, "ok")
		},
	},
	"NOREPLICAS": {
		advice: "connect the replicas of the server, or lower its min-replicas-to-write",
		begin: func(t *testing.T, s *redistest.Server) {
			fixture.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", 1)
		},
		cease: func(t *testing.T, s *redistest.Server) {
			fixture.Do(t, s, "CONFIG", "SET", "min-replicas-to-write", 0)
		},
	},
}

// dump is the file to which s saves its data.
func dump(t *testing.T, s *redistest.Server) string {
	t.Helper()
	return filepath.Join(fixture.Strings(t, s, "CONFIG", "GET", "dir")[1], fixture.Strings(t, s, "CONFIG", "GET", "dbfilename")[1])
}

// save makes s save its data, and awaits how that ends.
func save(t *testing.T, s *redistest.Server, status string) {
	t.Helper()
	fixture.Do(t, s, "BGSAVE")
	bounded.Until(t, func() bool {
		info := string(fixture.Do(t, s, "INFO", "persistence").([]byte))
		return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+status)
	})
}

func eachRefusal(t *testing.T, f func(t *testing.T, s *redistest.Server, word string)) {
	for word := range refusing {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			if word == "NOREPLICAS" {
				fixture.Needs(t, redistest.ReplicasRule)
			}
			f(t, fixture.Server(t), word)
		})
	}
}

// TestALossBecauseTheServerRefusesToWriteSaysSo, and so does one record of the log.
func TestALossBecauseTheServerRefusesToWriteSaysSo(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		var out fixture.Log
		hook, ctx := make(chan lock.Event, 10), bounded.Context(t)
		c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second, Logger: out.Logger(), Hooks: lock.Hooks{Lost: func(e lock.Event) { hook <- e }}})
		out.Flush = lock.FlushLog(c)
		var helds []*lock.Held
		for kind, lk := range fixture.Sorts(t, c) {
			if kind != "write" { // "read" has the key
				held, err := lk.Lock(ctx)
				require.NoError(t, err, kind)
				helds = append(helds, held)
			}
		}
		work := helds[0].Context(ctx)
		refusing[word].begin(t, s)
		require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, 5*time.Millisecond)
		refusing[word].cease(t, s)
		errs := []error{context.Cause(work)}
		for _, held := range helds {
			bounded.Receive(t, held.Done())
			errs = append(errs, held.Err(), context.Cause(held.Context(ctx)), bounded.Receive(t, hook).Err, held.Unlock(ctx))
		}
		for _, err := range errs {
			var lost *lock.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, lock.TrustEnded, lost.Reason)
			require.ErrorIs(t, err, lock.ErrLost)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			var said redis.Error
			require.ErrorAs(t, err, &said)
			require.Contains(t, string(said), word)
			require.Equal(t, said, lost.Err)
			require.ErrorContains(t, err, "no renewal was acknowledged in time: Redis answered "+string(said)+": stop the work that needs the lock, and "+refusing[word].advice)
		}
		require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
		require.Contains(t, out.String(), word)
		require.Contains(t, out.String(), refusing[word].advice)
	})
}

// TestAHoldSurvivesAServerThatRefusesToWriteForLessThanALease.
func TestAHoldSurvivesAServerThatRefusesToWriteForLessThanALease(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		var out fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second, Logger: out.Logger()})
		out.Flush = lock.FlushLog(c)
		held := fixture.Hold(t, c.Mutex("m").Lock)
		refusing[word].begin(t, s)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "lock: renewal is refused") }, time.Minute, 5*time.Millisecond)
		refusing[word].cease(t, s)
		before := held.Deadline()
		require.Eventually(t, func() bool { return held.Deadline().After(before) }, time.Minute, 5*time.Millisecond)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
	})
}

// TestALockThatTheServerRefusesToWrite: nothing is taken, TryLock says what to do, and Lock
// has it as soon as the server writes again.
func TestALockThatTheServerRefusesToWrite(t *testing.T) {
	t.Parallel()
	eachRefusal(t, func(t *testing.T, s *redistest.Server, word string) {
		c, ctx := fixture.ClientOf(t, s, lock.Config{}), bounded.Context(t)
		refusing[word].begin(t, s)
		_, err := c.Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, word)
		require.ErrorContains(t, err, refusing[word].advice+", then try again")
		var said redis.Error
		require.True(t, errors.As(err, &said))
		require.False(t, fixture.Exists(t, s, "m"))

		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, refusing[word].advice)
		got := make(chan error, 1)
		go func() { got <- c.Mutex("m").Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
		refusing[word].cease(t, s)
		require.NoError(t, bounded.Receive(t, got))
	})
}
