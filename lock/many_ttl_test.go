package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

func TestTTLManyIsTTLOfEachName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{KeyPrefix: "app:"})
		names := fixture.Names("n", 2000)
		fixture.LockAll(t, srv.Client(lock.Config{KeyPrefix: "app:"}), names[:1500])
		for _, do := range [][]any{{"SET", "app:forever", "1"}, {"SET", "app:other", "1", "PX", 5000}} {
			_, err := srv.Do(do[0].(string), do[1:]...)
			require.NoError(t, err)
		}
		bad := strings.Repeat("x", 65<<10)
		names = append(names, "forever", bad, "other", "")
		ttls, errs := c.TTLMany(t.Context(), names)
		require.Len(t, ttls, len(names))
		require.Len(t, errs, len(names))
		for i, name := range names[:2000] {
			want, err := c.Mutex(name).TTL(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, ttls[i], name)
			require.Equal(t, i < 1500, ttls[i] > 0)
			require.NoError(t, errs[i])
		}
		require.Equal(t, []time.Duration{-1, 0, 5 * time.Second, 0}, ttls[2000:])
		require.NoError(t, errs[2000])
		require.Equal(t, c.CheckName(bad), errs[2001])
		require.NoError(t, errs[2002])
		require.Equal(t, c.CheckName(""), errs[2003])
		ttls, errs = c.TTLMany(t.Context(), nil)
		require.Empty(t, ttls)
		require.Empty(t, errs)
	})
}

func TestTTLManyOfAServerThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		names := fixture.Names("n", 1000)
		_, errs := c.TTLMany(t.Context(), names)
		for _, err := range errs {
			require.NoError(t, err)
		}
		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, errs = c.TTLMany(ctx, names)
		for _, err := range errs {
			require.ErrorIs(t, err, lock.ErrUnknown)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		_, errs = c.TTLMany(t.Context(), names) // ends by itself
		for _, err := range errs {
			require.ErrorIs(t, err, lock.ErrUnknown)
		}
		srv.Resume()
		require.NoError(t, fixture.RetryUntilKnown(func() error {
			_, errs = c.TTLMany(t.Context(), names)
			return errors.Join(errs...)
		}))
		require.NoError(t, c.Close(t.Context()))
		_, errs = c.TTLMany(t.Context(), names)
		for _, err := range errs {
			require.ErrorIs(t, err, lock.ErrClosed)
		}
	})
}

// TestTTLManyKeepsTheAnswersThatCameInTime: the end of ctx gives an error to the other names only.
func TestTTLManyKeepsTheAnswersThatCameInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		names := fixture.Names("n", 1000)
		fixture.LockAll(t, c, names)
		srv.SetDelay(10 * time.Millisecond)
		partly := 0
		for limit := 10 * time.Millisecond; ; limit += 10 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			ttls, errs := c.TTLMany(ctx, names)
			cancel()
			answered := 0
			for i, err := range errs {
				require.Equal(t, ttls[i] > 0, err == nil, "%v and %v", ttls[i], err)
				if err == nil {
					answered++
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
			if answered == len(names) {
				break
			}
			if answered > 0 {
				partly++
			}
		}
		require.NotZero(t, partly)
		srv.SetDelay(0)
	})
}

// TestStatsCountTheRequestsOfTTLMany that failed, as those of other calls. A caller that leaves does not count.
func TestStatsCountTheRequestsOfTTLMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		names := fixture.Names("n", 10)
		_, errs := c.TTLMany(t.Context(), names)
		require.NoError(t, errors.Join(errs...))
		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		c.TTLMany(ctx, names)
		require.Zero(t, c.Stats().Unanswered)
		c.TTLMany(t.Context(), names)
		require.EqualValues(t, 10, c.Stats().Unanswered)
		require.Zero(t, c.Stats().Refused)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, errs = c.TTLMany(t.Context(), names)
		}()
		synctest.Wait()
		_ = c.Close(ctx)
		<-done
		require.ErrorIs(t, errs[9], lock.ErrClosed)
		require.EqualValues(t, 10, c.Stats().Unanswered)
	})
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		_, errs := c.TTLMany(t.Context(), []string{"n"})
		require.ErrorIs(t, errs[0], lock.ErrUnknown, "no server is known")
		unanswered := c.Stats().Unanswered
		is.AssignSlots("a")
		is.Refuse("a", "NOPERM")
		_, errs = c.TTLMany(t.Context(), fixture.Names("n", 10))
		require.ErrorContains(t, errs[9], "NOPERM")
		require.EqualValues(t, 10, c.Stats().Refused)
		require.Equal(t, unanswered, c.Stats().Unanswered)
		require.NoError(t, c.Close(t.Context()))
	})
}

// A name that occurs again and again is tried as often.
func TestTryLockManyTriesEveryOccurrenceOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.New(t, lock.Config{})
		tries := c.TryLockMany(t.Context(), []string{"a", "b", "a", "a", "b", "a"})
		for i, try := range tries {
			if i < 2 {
				require.NoError(t, try.Err)
				continue
			}
			require.ErrorIs(t, try.Err, lock.ErrNotAcquired, i)
			require.Nil(t, try.Held)
		}
		for _, err := range lock.UnlockMany(t.Context(), []*lock.Held{tries[0].Held, tries[1].Held}) {
			require.NoError(t, err)
		}
	})
}
