package locktest_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

func TestASlowServerCarriesOutWhatItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewServer(t)
		mu := s.Client(lock.Config{}).Mutex("m")
		for _, delay := range []time.Duration{0, 200 * time.Millisecond} {
			s.SetDelay(0)
			warm, err := mu.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, warm.Unlock(t.Context()))
			s.SetDelay(delay)
			began := time.Now()
			held, err := mu.Lock(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(began), delay)
			require.LessOrEqual(t, time.Since(began), 2*delay+time.Millisecond)
			require.NoError(t, held.Unlock(t.Context()))
		}
		s.SetDelay(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := mu.Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotSent, "the first try was sent")
		s.SetDelay(0)
		_, err = mu.Lock(t.Context()) // it knows the field that may be left
		require.NoError(t, err)
	})
}

// TestASlowAnswerToTIMEIsNoMissingRight: a server that hung at the first TIME must answer PING before the
// next TIME, and has less time for that answer. If a slow server does not answer in time, the client must
// not conclude that it refuses TIME.
func TestASlowAnswerToTIMEIsNoMissingRight(t *testing.T) {
	for _, delay := range []time.Duration{0, 100, 350, 450, 600, 900} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := locktest.NewServer(t)
			s.Pause() // it hangs when it is first asked
			c := s.Client(lock.Config{IOTimeout: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := c.Mutex("m").TryLock(t.Context())
			require.Error(t, err)
			s.SetDelay(delay * time.Millisecond)
			s.Resume()
			held, err := c.Mutex("m").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // all is logged
			require.NotContains(t, log.String(), "TIME")
			_, known := c.Stats().Clocks[0], len(c.Stats().Clocks) > 0
			require.True(t, known, "requests have a time limit")
			s.SetDelay(0)
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
}
