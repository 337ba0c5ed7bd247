package network

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
)

// counting is a Handler that counts records.
type counting struct {
	slog.Handler
	n int
}

// after returns how many records there are after l has written all.
func (c *counting) after(l *record.Logger) int {
	l.Drain()
	return c.n
}

func (c *counting) Handle(context.Context, slog.Record) error {
	c.n++
	return nil
}

// advice is Config.Advice. It advises only on refusals that do not end by themselves.
func advice(refusal error) string {
	if pipe.RefusesWrites(refusal) || pipe.Definite(refusal) {
		return "mend it"
	}
	return ""
}

// TestARefusedRenewalIsLoggedOnceUntilItWorksAndOnceInALease, even if other batches are renewed
// meanwhile: one key may be refused for ever while all others are renewed.
func TestARefusedRenewalIsLoggedOnceUntilItWorksAndOnceInALease(t *testing.T) {
	const misconf, noPerm, loading = redis.Error("MISCONF Redis is configured to save"), redis.Error("NOPERM no"), redis.Error("LOADING Redis is loading")
	synctest.Test(t, func(t *testing.T) {
		r, err := servers.New(servers.Config{
			Dial: nil, Closing: make(chan struct{}), Logger: record.New(slog.New(slog.DiscardHandler)),
			Opened: func(*servers.Server) (servers.Attachment, error) { return nil, nil },
		})
		require.NoError(t, err)
		log := &counting{Handler: slog.Default().Handler()}
		l := &lane{refusals: new(atomic.Uint64), server: r.Server("x"), logger: record.New(slog.New(log)), advice: advice, lease: time.Minute}
		for i := range 100 {
			l.answered(misconf)
			time.Sleep(2 * time.Second)
			require.Equal(t, 1, log.after(l.logger), "until one works %d", i)
		}
		l.answered(errors.New("i/o timeout"))
		l.answered(misconf)
		require.Equal(t, 1, log.after(l.logger), "silence is no renewal")
		l.answered(nil)
		for range 100 { // and one key that is renewed
			l.answered(noPerm)
			l.answered(nil)
			time.Sleep(3 * time.Second)
		}
		require.Equal(t, 1+5, log.after(l.logger), "in five minutes")
		time.Sleep(time.Minute)
		l.answered(loading)
		require.Equal(t, 1+5, log.after(l.logger), "that passes")
		require.Equal(t, loading, l.Refusal(), "the last answer")
		l.answered(misconf)
		require.Equal(t, misconf, l.Refusal())
	})
}

// TestARenewalThatIsRefusedAgainAndAgainMakesFewRecords, however short the lease is. A refusal that was
// not logged is logged later.
func TestARenewalThatIsRefusedAgainAndAgainMakesFewRecords(t *testing.T) {
	for _, n := range []int{1_000, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			r, err := servers.New(servers.Config{
				Dial: nil, Closing: make(chan struct{}), Logger: record.New(slog.New(slog.DiscardHandler)),
				Opened: func(*servers.Server) (servers.Attachment, error) { return nil, nil },
			})
			require.NoError(t, err)
			log := &counting{Handler: slog.Default().Handler()}
			l := &lane{refusals: new(atomic.Uint64), server: r.Server("x"), logger: record.New(slog.New(log)), advice: advice, lease: time.Millisecond}
			for range n {
				l.answered(redis.Error("NOPERM no"))
				l.answered(nil)
				time.Sleep(time.Millisecond)
			}
			require.Equal(t, 5, log.after(l.logger), "of %d in less than a minute", n)
			l.answered(redis.Error("NOPERM no"))
			time.Sleep(time.Minute)
			l.answered(redis.Error("NOPERM no"))
			require.Equal(t, 6, log.after(l.logger), "it is still refused")
			for range 10 {
				time.Sleep(time.Minute)
				l.answered(redis.Error("NOPERM no"))
			}
			require.Equal(t, 6, log.after(l.logger), "the log has it")
		})
	}
}

// TestARenewalThatIsAnsweredEndsASilence, also if the server does not tell its time.
func TestARenewalThatIsAnsweredEndsASilence(t *testing.T) {
	for name, answer := range map[string]error{"renewed": nil, "refused": redis.Error("LOADING Redis is loading")} {
		t.Run(name, func(t *testing.T) {
			log := &counting{Handler: slog.Default().Handler()}
			logger := record.New(slog.New(log))
			r, err := servers.New(servers.Config{
				Dial: nil, Closing: make(chan struct{}), Logger: logger,
				Opened: func(*servers.Server) (servers.Attachment, error) { return nil, nil },
			})
			require.NoError(t, err)
			l := &lane{refusals: new(atomic.Uint64), server: r.Server("x"), logger: logger, advice: advice, lease: time.Minute}
			l.server.Failed(pipe.ErrUnanswered)
			require.Equal(t, 1, log.after(logger))
			l.answered(errors.New("i/o timeout"))
			require.Equal(t, 1, log.after(logger))
			l.answered(answer)
			require.Equal(t, 2, log.after(logger), "it answers again")
		})
	}
}
