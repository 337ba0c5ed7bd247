package pipe_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// timed answers as a server with a clock of its own does.
type timed struct {
	ahead  atomic.Int64            // ns; how far its clock is ahead of this process's clock
	limits atomic.Pointer[[]int64] // of the script calls, in order
	silent atomic.Bool             // it reads requests and does not answer
}

func (s *timed) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *timed) answer(command []string) string {
	now := s.now()
	if s.silent.Load() {
		return mute
	}
	if command[0] == "TIME" {
		return fmt.Sprintf("*2\r\n$10\r\n%010d\r\n$6\r\n%06d\r\n", now.Unix(), now.Nanosecond()/1000)
	}
	if strings.HasPrefix(command[0], "EVAL") {
		limit, err := strconv.ParseInt(command[len(command)-1], 10, 64)
		if err != nil {
			panic(err)
		}
		var all []int64
		if old := s.limits.Load(); old != nil {
			all = *old
		}
		all = append(all, limit)
		s.limits.Store(&all)
		if limit != 0 && now.UnixMilli() > limit {
			return s.late()
		}
	}
	return yes(command)
}

// late is the answer to a request that comes too late.
func (s *timed) late() string { return fmt.Sprintf("-LATE %d\r\n", s.now().UnixMilli()) }

func (s *timed) seen() []int64 { return *s.limits.Load() }

// inTime runs f with a speaker whose clock is known, for each carrier.
func inTime(t *testing.T, f func(t *testing.T, b *harness, srv *timed)) {
	t.Helper()
	srv := &timed{}
	bubble(t, srv.answer, nil, func(t *testing.T, b *harness) {
		srv.ahead.Store(int64(time.Hour))
		srv.limits.Store(nil)
		now := time.Now()
		b.srv.clock.NoteQuestionSent(now)
		b.srv.clock.Sample(now, now, now.Add(time.Hour), 0)
		f(t, b, srv)
	})
}

func TestARequestSaysUntilWhenItMayBeCarriedOut(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		begun := time.Now()
		a := b.call(t.Context(), 1)
		require.NoError(t, a.Err)
		require.Equal(t, begun.Add(time.Hour+time.Second).UnixMilli(), srv.seen()[0], "Timeout, by the server's clock")
		require.True(t, a.MayRunUntil.IsZero(), "it was")

		b.srv.answer = func([]string) string { return hangUp }
		begun = time.Now()
		a = b.call(t.Context(), 1)
		requireNoReply(t, a.Err)
		require.False(t, a.MayRunUntil.Before(begun.Add(time.Second)))
		require.Less(t, a.MayRunUntil.Sub(begun), 1100*time.Millisecond)
	})
}

func TestAScriptThatDoesNotExpireGetsNoLimit(t *testing.T) {
	var count atomic.Int32
	bubble(t, func(command []string) string {
		count.Store(int32(len(command)))
		return ":1\r\n"
	}, nil, func(t *testing.T, b *harness) {
		b.srv.clock.Sample(time.Now(), time.Now(), time.Now(), 0)
		r := b.requests.New("m", script.Release, 1, nil, resp.ArgsOf("m", "field"))
		b.Put(r)
		a := b.requests.Await(t.Context(), r)
		require.NoError(t, a.Err)
		require.True(t, a.MayRunUntil.IsZero())
		require.Equal(t, int32(5), count.Load(), "EVALSHA, SHA, 1, m, field")
	})
}

func TestALateRequestIsSentAgainWithAnotherLimit(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.requireYes(1)
		srv.ahead.Add(int64(time.Hour)) // the server's clock is set
		b.requireYes(2)
		require.Len(t, srv.seen(), 3)
		b.requireYes(3)
		require.Len(t, srv.seen(), 4, "the next one knows")
		b.srv.mu.Lock()
		defer b.srv.mu.Unlock()
		require.InDelta(t, time.Hour, slices.Max(b.srv.off), float64(2*time.Second))
	})
}

func TestTwoClocksAtOneAddressAreNotTrusted(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.requireYes(1)
		clocks := srv.answer
		b.srv.answer = func(command []string) string {
			srv.ahead.Add(int64(time.Hour)) // each answer is another server's
			return clocks(command)
		}
		b.requireYes(2)
		require.Len(t, srv.seen(), 4)
		require.Zero(t, srv.seen()[3], "no limit after two that were too late")
		b.requireYes(3)
		require.Zero(t, srv.seen()[4])
		b.srv.mu.Lock()
		defer b.srv.mu.Unlock()
		require.True(t, b.srv.timed.Distrusted())
	})
}

func TestWhatItsCallerHasLeftIsNotSentAgain(t *testing.T) {
	for name, refusal := range map[string]string{"too late": "-LATE 9000000000000\r\n", "forgotten": "-NOSCRIPT No matching script.\r\n"} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int32
			bubble(t, func(command []string) string {
				sent.Add(1)
				return mute
			}, nil, func(t *testing.T, b *harness) {
				sent.Store(0)
				late := make(chan pipe.Answer, 1)
				r := b.acquire(1, func(a pipe.Answer) { late <- a })
				b.Put(r)
				synctest.Wait() // it is written
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, b.requests.Await(ctx, r).Err, context.Canceled)
				b.srv.say(refusal)
				a := <-late
				_, reply := a.Err.(redis.Error)
				require.True(t, reply, "%v", a.Err)
				require.True(t, a.Stamp.IsZero())
				synctest.Wait()
				require.Equal(t, int32(1), sent.Load())
			})
		})
	}
}

func TestWhatIsPostedIsSentAgain(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.requireYes(1)
		srv.ahead.Add(int64(time.Hour))
		late := make(chan pipe.Answer, 1)
		r := b.acquire(2, func(a pipe.Answer) { late <- a })
		r.Post()
		b.Put(r)
		require.NoError(t, (<-late).Err)
		require.Len(t, srv.seen(), 3)
	})
}

func TestARequestIsNotCarriedOutAfterItsLastMoment(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		begun := time.Now()
		r := b.acquire(1, nil)
		r.Within(begun.Add(300 * time.Millisecond))
		b.Put(r)
		require.NoError(t, b.requests.Await(t.Context(), r).Err)
		require.Equal(t, begun.Add(time.Hour+300*time.Millisecond).UnixMilli(), srv.seen()[0])

		r = b.acquire(2, nil)
		r.Within(begun)
		b.Put(r)
		a := b.requests.Await(t.Context(), r)
		require.ErrorIs(t, a.Err, pipe.ErrExpired)
		require.True(t, a.Stamp.IsZero())
		require.Len(t, srv.seen(), 1, "nothing was sent")

		srv.ahead.Add(int64(time.Hour))
		r = b.acquire(3, nil)
		r.Within(time.Now().Add(300 * time.Millisecond))
		b.Put(r)
		a = b.requests.Await(t.Context(), r)
		require.ErrorContains(t, a.Err, "LATE")
		require.False(t, pipe.Definite(a.Err))
		b.requireYes(4)
		require.NotZero(t, srv.seen()[2], "that says nothing against the server's clock")
	})
}

func TestAConnectionInUseAsksForTheTimeEachMinute(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		for i := range 10 {
			b.requireYes(i)
			time.Sleep(20 * time.Second)
		}
		require.Equal(t, 3, strings.Count(b.srv.commands(), "TIME"))
		srv.ahead.Add(-int64(time.Hour))
		time.Sleep(time.Minute)
		b.requireYes(11) // asked before it, and answered behind it
		b.requireYes(12)
		seen := srv.seen()
		require.InDelta(t, time.Hour.Milliseconds(), seen[len(seen)-2]-seen[len(seen)-1], 2000)
	})
}

// TestAConnectionThatWasIdleForLongIsReplaced: it knows the server's time badly, and a request that is lost on
// it might run for long.
func TestAConnectionThatWasIdleForLongIsReplaced(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		for i := range 12 {
			b.requireYes(i)
			time.Sleep(time.Minute)
		}
		require.EqualValues(t, 1, b.srv.dials.Load(), "it was in use")
		time.Sleep(10 * time.Minute)
		now := time.Now()
		b.srv.mu.Lock()
		b.srv.clock = pipe.Clock{}
		b.srv.clock.Sample(now, now, now.Add(time.Hour), 0)
		b.srv.mu.Unlock()
		b.requireYes(12)
		synctest.Wait()
		require.EqualValues(t, 2, b.srv.dials.Load())
		require.Equal(t, []error{pipe.ErrReplaced}, b.srv.failures())

		b.srv.answer = func([]string) string { return hangUp }
		a := b.call(t.Context(), 13)
		requireNoReply(t, a.Err)
		require.Less(t, a.MayRunUntil.Sub(now), 1100*time.Millisecond)
	})
}

// TestAnOldConnectionIsNotReplacedWhileARequestIsInFlight: the server refuses TIME since the dial.
func TestAnOldConnectionIsNotReplacedWhileARequestIsInFlight(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.srv.answer = func(command []string) string {
			switch {
			case command[0] == "TIME":
				return "-NOPERM\r\n"
			case id(command) == "1":
				time.Sleep(900 * time.Millisecond)
			}
			return srv.answer(command)
		}
		b.requireYes(0)
		time.Sleep(10*time.Minute - 500*time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { b.requireYes(1) })
		time.Sleep(600 * time.Millisecond)
		wg.Go(func() { b.requireYes(2) })
		wg.Wait()
	})
}

func TestAConnectionMayFailWhileItAsksForTheTime(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.requireYes(1)
		time.Sleep(2 * time.Minute)
		srv.silent.Store(true)
		requireNoReply(t, b.call(t.Context(), 2).Err)
		srv.silent.Store(false)
		b.requireYes(3)
	})
}

// TestAnotherServerHasAnotherClock: after a failover, limits are times on the clock of the new server.
func TestAnotherServerHasAnotherClock(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.requireYes(1)
		for _, ahead := range []time.Duration{-time.Hour, 2 * time.Hour} {
			srv.ahead.Store(int64(ahead))
			now := time.Now()
			b.srv.mu.Lock()
			b.srv.clock = pipe.Clock{}
			b.srv.clock.Sample(now, now, now.Add(ahead), 0)
			b.srv.mu.Unlock()
			b.srv.epoch.Add(1)
			b.Drop()
			b.requireYes(2)
			seen := srv.seen()
			require.Equal(t, now.Add(ahead+time.Second).UnixMilli(), seen[len(seen)-1])
		}
		require.Len(t, srv.seen(), 3, "none was too late")
	})
}

// TestOurOwnSlownessIsNoSecondServer: if the client stands still between the stamp and the
// write, its request is late although the client knows the server's clock. LATE has that clock
// in whole milliseconds.
func TestOurOwnSlownessIsNoSecondServer(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		lates := 0
		time.Sleep(850 * time.Microsecond) // the next millisecond begins between the two answers
		b.srv.answer = func(command []string) string {
			answer := srv.answer(command)
			if strings.HasPrefix(command[0], "EVAL") && lates < pipe.MaxLates {
				lates++
				time.Sleep(100 * time.Microsecond)
				return srv.late()
			}
			return answer
		}
		b.requireYes(1)
		b.requireYes(2)
		require.Len(t, srv.seen(), pipe.MaxLates+2)
		require.NotContains(t, srv.seen(), int64(0))
		b.srv.mu.Lock()
		defer b.srv.mu.Unlock()
		require.False(t, b.srv.timed.Distrusted())
	})
}

// TestWhatWasRefusedAsLateHasNoStamp: nothing was carried out, and nothing will be.
func TestWhatWasRefusedAsLateHasNoStamp(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.srv.answer = func([]string) string { return srv.late() }
		a := b.call(t.Context(), 1)
		require.ErrorContains(t, a.Err, "LATE")
		require.True(t, a.Stamp.IsZero())
		require.True(t, a.MayRunUntil.IsZero())

		r := b.acquire(2, nil)
		r.Within(time.Now().Add(300 * time.Millisecond)) // it is not sent again
		b.Put(r)
		a = b.requests.Await(t.Context(), r)
		require.ErrorContains(t, a.Err, "LATE")
		require.True(t, a.Stamp.IsZero())
	})
}

// TestOneBusyAnswerToTIMEIsAskedForAgain: a connection whose first TIME got BUSY asks again
// after a second, and its requests then have limits.
func TestOneBusyAnswerToTIMEIsAskedForAgain(t *testing.T) {
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		b.srv.clock = pipe.Clock{}
		b.srv.clock.NoteQuestionSent(time.Now()) // and the answer was BUSY
		b.requireYes(1)
		time.Sleep(2 * time.Second)
		b.requireYes(2) // asks before it
		b.requireYes(3)
		require.Zero(t, srv.seen()[0])
		require.NotZero(t, srv.seen()[2])
	})
}

// TestAConnectionThatDidNotAskForTheTimeAsksByAScript: TIME got no answer on another connection, so this one
// did not send it when it was made. Requests have limits from the first answer on, and the script asks once
// a minute then. It is not sent again if it is refused for good, but if the server was busy.
func TestAConnectionThatDidNotAskForTheTimeAsksByAScript(t *testing.T) {
	for refusal, times := range map[string][]int{
		"": {1, 2}, "-NOPERM no\r\n": {1, 1}, "-ERR unknown command\r\n": {1, 1}, "-BUSY a script runs\r\n": {2, 3},
	} {
		inTime(t, func(t *testing.T, b *harness, srv *timed) {
			b.srv.clock = pipe.Clock{}
			b.srv.clock.AskByScript(time.Now())
			var asked atomic.Int32
			var key atomic.Value
			b.srv.answer = func(command []string) string {
				switch {
				case command[0] == "TIME":
					return hangUp
				case command[0] != "EVAL" || command[1] != "return redis.pcall('time')":
					return srv.answer(command)
				}
				asked.Add(1)
				if key.Store(strings.Join(command[2:], " ")); refusal != "" {
					return refusal
				}
				return srv.answer([]string{"TIME"})
			}
			b.requireYes(1)
			require.Zero(t, asked.Load())
			time.Sleep(2 * time.Second)
			b.requireYes(2) // asks before it
			time.Sleep(2 * time.Second)
			b.requireYes(3)
			require.EqualValues(t, times[0], asked.Load(), refusal)
			require.Equal(t, "1 m", key.Load(), "the key of the request behind it")
			require.Zero(t, srv.seen()[1])
			require.Equal(t, refusal == "", srv.seen()[2] != 0, refusal)
			time.Sleep(time.Minute)
			b.requireYes(4)
			require.EqualValues(t, times[1], asked.Load(), refusal)
		})
	}
}

// TestALateAnswerThatTravelsForLongMakesNoLimitTooEarly: the server read its clock when the request
// arrived, at the earliest when it was sent.
func TestALateAnswerThatTravelsForLongMakesNoLimitTooEarly(t *testing.T) {
	const travels = 300 * time.Millisecond
	inTime(t, func(t *testing.T, b *harness, srv *timed) {
		srv.ahead.Add(int64(time.Minute)) // the clock was set
		b.srv.answer = func(command []string) string {
			said := srv.answer(command)
			if strings.HasPrefix(said, "-LATE") {
				time.Sleep(travels)
			}
			return said
		}
		again := srv.now().Add(travels)
		require.NoError(t, b.call(t.Context(), 1).Err)
		require.Len(t, srv.seen(), 2)
		require.GreaterOrEqual(t, srv.seen()[1], again.Add(time.Second).UnixMilli())
	})
}
