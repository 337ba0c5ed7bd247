package dialing_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// conn is a connection that records whether it was closed.
type conn struct {
	redis.Conn
	closed atomic.Bool
}

func (c *conn) Close() error {
	c.closed.Store(true)
	return nil
}

// deaf is a dial function that does not heed its context.
type deaf struct {
	d     time.Duration // how long a call takes
	err   error
	calls atomic.Int64

	mu     sync.Mutex // guards brings
	brings []*conn    // the connections that were returned
}

func (f *deaf) dial(context.Context) (redis.Conn, error) {
	f.calls.Add(1)
	time.Sleep(f.d)
	if f.err != nil {
		return nil, f.err
	}
	c := &conn{}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brings = append(f.brings, c)
	return c, nil
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestADialInTimeIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deaf{d: time.Second}
		b := dialing.NewBound(1)
		for range 3 { // one after the other
			c, err := b.Dial(within(t, 2*time.Second), 0, f.dial)
			require.NoError(t, err)
			require.False(t, c.(*conn).closed.Load())
		}
		f.err = errors.New("refused")
		_, err := b.Dial(within(t, 2*time.Second), 0, f.dial)
		require.Equal(t, f.err, err)
		for _, none := range []redis.Conn{nil, (*conn)(nil)} {
			_, err = b.Dial(t.Context(), 0, func(context.Context) (redis.Conn, error) { return none, nil })
			require.Equal(t, dialing.ErrNoConn, err)
		}
	})
}

func TestNoDialBeginsWhileTheLastIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deaf{d: time.Hour}
		b := dialing.NewBound(1)
		_, err := b.Dial(within(t, time.Second), 0, f.dial)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 100 {
			began := time.Now()
			_, err := b.Dial(within(t, time.Second), 0, f.dial)
			require.ErrorIs(t, err, dialing.ErrOut)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(began))
		}
		require.EqualValues(t, 1, f.calls.Load())
		c, err := b.Dial(within(t, time.Hour), 0, f.dial)
		require.NoError(t, err)
		require.EqualValues(t, 1, f.calls.Load())
		require.Same(t, f.brings[0], c, "what the first brought is used")
		require.False(t, f.brings[0].closed.Load())
	})
}

func TestWhatADialBringsTooLateForAllIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deaf{d: time.Hour}
		b := dialing.NewBound(1)
		_, err := b.Dial(within(t, time.Second), 0, f.dial)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.True(t, f.brings[0].closed.Load())
		f.d = 0
		_, err = b.Dial(within(t, time.Second), 0, f.dial)
		require.NoError(t, err)
		require.EqualValues(t, 2, f.calls.Load())
	})
}

// TestAfterADialThatFailedLateTheNextDials: the next caller does not get the error of the last dial.
func TestAfterADialThatFailedLateTheNextDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deaf{d: time.Minute, err: errors.New("reset")}
		b := dialing.NewBound(1)
		_, err := b.Dial(within(t, time.Second), 0, f.dial)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		g := &deaf{d: time.Second}
		_, err = b.Dial(within(t, time.Hour), 0, g.dial)
		require.NoError(t, err)
		require.EqualValues(t, 1, g.calls.Load())
	})
}

// TestADialThatIsOutHoldsUpItsOwnServerAlone: another server is dialled at once.
func TestADialThatIsOutHoldsUpItsOwnServerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := &deaf{d: time.Hour}, &deaf{}
		b := dialing.NewBound(1)
		_, err := b.Dial(within(t, time.Second), "old", f.dial)
		require.Error(t, err)
		_, err = b.Dial(within(t, time.Second), "new", g.dial)
		require.NoError(t, err)
		time.Sleep(2 * time.Hour) // the bubble ends when it has returned
	})
}

// TestDialsThatAreOutAreBounded, if callers come one after the other, and two at the same time.
func TestDialsThatAreOutAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, together = 3, 2
		var out, largest, got, failed atomic.Int64
		b := dialing.NewBound(most)
		for range together {
			go func() {
				for range 50 {
					c, err := b.Dial(within(t, time.Second), 0, func(context.Context) (redis.Conn, error) {
						n := out.Add(1)
						defer out.Add(-1)
						for m := largest.Load(); n > m && !largest.CompareAndSwap(m, n); m = largest.Load() {
						}
						time.Sleep(4300 * time.Millisecond)
						return &conn{}, nil
					})
					if err == nil && !c.(*conn).closed.Load() {
						got.Add(1)
					} else {
						failed.Add(1)
					}
				}
			}()
		}
		time.Sleep(time.Hour)
		require.LessOrEqual(t, largest.Load(), int64(most+together-1))
		require.EqualValues(t, 50*together, got.Load()+failed.Load(), "each is answered")
		require.Positive(t, got.Load(), "what came late was of use")
	})
}

func TestAllWhoWaitForADialGoOnWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &deaf{d: time.Minute}
		b := dialing.NewBound(1)
		_, err := b.Dial(within(t, time.Second), 0, f.dial)
		require.Error(t, err)
		var got atomic.Int64
		for range 5 {
			go func() {
				if c, err := b.Dial(within(t, 10*time.Minute), 0, f.dial); err == nil && !c.(*conn).closed.Load() {
					got.Add(1)
				}
			}()
		}
		time.Sleep(time.Hour)
		require.EqualValues(t, 5, got.Load())
		require.EqualValues(t, 5, f.calls.Load(), "one of them got what was out")
	})
}
