package twin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

// TestWhatIsNotCovered shows what can happen although a client keeps all its rules: if the network, or
// the server's clock, does something that the documents exclude.
func TestWhatIsNotCovered(t *testing.T) {
	const (
		least   = 5 // above 1, so the scripts use the server's time in its place
		minute  = time.Minute
		field   = "c:1"
		another = "c:2"
	)
	start := time.UnixMilli(1_700_000_000_000)
	var r Redis
	send := func(now time.Time, s *script.Script, keys int, last time.Time, args ...any) (any, error) {
		reply, _, err := r.Run(now, s, keys, args, last, false, func(string) int64 { return 0 })
		return reply, err
	}
	acquire := func(now, last time.Time, field string) (token int64, err error) {
		reply, err := send(now, script.Acquire, 2, last, "m", "t", field, minute.Milliseconds(), least, 0)
		if err != nil {
			return 0, err
		}
		return reply.([]any)[1].(int64), nil
	}
	release := func(now time.Time, field string) any {
		reply, err := send(now, script.Release, 1, time.Time{}, "m", field, "channel", "publish")
		require.NoError(t, err)
		return reply
	}
	has := func(now time.Time, want ...string) {
		t.Helper()
		fields, _ := r.Fields(now, "m")
		require.Equal(t, want, fields)
	}

	t.Run("the clock is set back while a request is late", func(t *testing.T) {
		r = Redis{}
		last := start.Add(time.Second)
		now := last.Add(time.Millisecond)
		_, err := acquire(now, last, field)
		require.ErrorContains(t, err, "LATE", "its client has given it up, and has released its field for the last time")
		require.Equal(t, int64(-1), release(now, field))
		back := now.Add(-10 * time.Millisecond)
		_, err = acquire(back, last, field)
		require.NoError(t, err)
		has(back.Add(minute), field) // nobody has it, until its lease ends
	})
	t.Run("the clock is set back, and the counter of tokens is lost", func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			r = Redis{}
			first, err := acquire(start, start, field)
			require.NoError(t, err)
			release(start, field)
			if lost {
				require.True(t, r.Delete(start, "t"))
			}
			back := start.Add(-time.Hour)
			second, err := acquire(back, start, another)
			require.NoError(t, err)
			require.Equal(t, lost, second < first, "one of the two alone does no harm")
		}
	})
	t.Run("an acquisition that was answered arrives once more", func(t *testing.T) {
		r = Redis{}
		_, err := acquire(start, start.Add(minute), field)
		require.NoError(t, err)
		require.Equal(t, int64(1), release(start, field))
		_, err = acquire(start, start.Add(minute), field)
		require.NoError(t, err)
		has(start.Add(minute), field) // nobody has it, until its lease ends
	})
	t.Run("a guard that was answered arrives once more", func(t *testing.T) {
		r = Redis{}
		last := start.Add(minute)
		_, err := acquire(start, last, field)
		require.NoError(t, err)
		guard := func(value string) {
			_, err := send(start, script.Guard, 3, last, "m", "m", "value", field, "set", value)
			require.NoError(t, err)
		}
		guard("first")
		guard("second")
		guard("first")
		require.Equal(t, "first", r.Text(start, "value"), "the second came after it")
	})
	t.Run("what changes a semaphore or a latch may arrive as often as it will", func(t *testing.T) {
		r = Redis{}
		r.SetText(start, "s", "3")
		r.SetText(start, "l", "3")
		for range 3 {
			reply, err := send(start, script.SemaphoreTake, 2, start, "s", "result", "1", "1000")
			require.NoError(t, err)
			require.Equal(t, int64(1), reply.([]any)[0])
			_, err = send(start, script.LatchDown, 2, start, "l", "another result", "channel", "1000", "publish")
			require.NoError(t, err)
		}
		require.Equal(t, "2", r.Text(start, "s"))
		require.Equal(t, "2", r.Text(start, "l"))
	})
}
