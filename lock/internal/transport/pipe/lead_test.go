package pipe_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// leadTime is how long a caller leads at most.
const leadTime = 5 * time.Millisecond

// withLoneCaller runs f with a speaker. Callers lead after leadAfter requests in a row that were alone.
func withLoneCaller(t *testing.T, leadAfter int, answer func(command []string) string, f func(t *testing.T, b *harness)) {
	t.Helper()
	inBubble(t, func(ctx context.Context, cfg *pipe.Config) carrier {
		cfg.LeadAfter = leadAfter
		return grouped{pipe.NewGroup(ctx, cfg, 1)}
	}, -1, answer, nil, f)
}

// isInACaller reports whether this goroutine is one that has called Send.
func isInACaller() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*Group).Send") {
			return true
		}
		if !more {
			return false
		}
	}
}

// readers returns the readers since the last call: C for a caller, r for the resident. A reader
// that continues counts once.
func (b *harness) readers() string {
	synctest.Wait()
	b.srv.reading.Lock()
	defer b.srv.reading.Unlock()
	var short []byte
	for _, r := range []byte(b.srv.readers) {
		if len(short) == 0 || short[len(short)-1] != r {
			short = append(short, r)
		}
	}
	b.srv.readers = ""
	return string(short)
}

// requireNextYes is requireYes after all goroutines have finished the request before. A caller does
// not lead while the writer has not returned from its write.
func (b *harness) requireNextYes(id int) {
	b.t.Helper()
	synctest.Wait()
	b.requireYes(id)
}

func TestALoneCallerReadsItsOwnAnswer(t *testing.T) {
	withLoneCaller(t, 3, yes, func(t *testing.T, b *harness) {
		for id := range 3 {
			b.requireNextYes(id)
		}
		require.Equal(t, "r", b.readers())
		for id := range 20 {
			b.requireNextYes(id)
		}
		require.Equal(t, "C", b.readers())

		hold := make(chan struct{})
		b.srv.answer = func(command []string) string {
			<-hold
			return yes(command)
		}
		var wg sync.WaitGroup
		for id := range 2 {
			wg.Go(func() { b.requireYes(id) })
		}
		time.Sleep(time.Millisecond)
		close(hold)
		wg.Wait()
		require.Contains(t, b.readers(), "r", "of two, the second answer is nobody's own")
		b.requireNextYes(1)
		require.NotContains(t, b.readers(), "C")
		for id := range 3 {
			b.requireNextYes(id)
		}
		b.readers()
		b.requireNextYes(1)
		require.Equal(t, "C", b.readers())
		require.EqualValues(t, 1, b.srv.dials.Load())
	})
}

// TestACallerLeadsWhateverTheTimeBetweenTwoRequests: the read deadline of a leader is set again in time.
func TestACallerLeadsWhateverTheTimeBetweenTwoRequests(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		for id := range 100 {
			b.requireNextYes(id)
			time.Sleep(time.Duration(id) * leadTime / 50)
		}
		require.Equal(t, "C", b.readers())
	})
}

// TestASlowServerIsNotWaitedForTwiceInARow: each slow answer would cost a leader all of leadTime, and
// then the resident must be woken as well.
func TestASlowServerIsNotWaitedForTwiceInARow(t *testing.T) {
	withLoneCaller(t, 3, yes, func(t *testing.T, b *harness) {
		for id := range 4 {
			b.requireNextYes(id)
		}
		require.Equal(t, "rC", b.readers())
		b.srv.answer = func(command []string) string {
			time.Sleep(2 * leadTime)
			return yes(command)
		}
		b.requireNextYes(4)
		b.srv.answer = yes
		for id := range 3 {
			b.requireNextYes(id)
		}
		require.Equal(t, "r", b.readers())
		b.requireNextYes(5)
		require.Equal(t, "C", b.readers())
	})
}

func TestWithoutLeadAfterNobodyLeads(t *testing.T) {
	withLoneCaller(t, 0, yes, func(t *testing.T, b *harness) {
		for id := range 20 {
			b.requireNextYes(id)
		}
		require.Equal(t, "r", b.readers())
	})
}

// makeCallersLead sends requests until the caller of the next one leads.
func (b *harness) makeCallersLead() {
	b.t.Helper()
	b.requireNextYes(1)
	b.requireNextYes(2)
	b.readers()
}

func TestALeaderLeavesSoonAfterItsContextHasEnded(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		b.srv.answer = func([]string) string { return mute }
		for after, most := range map[time.Duration]time.Duration{time.Millisecond: leadTime, 20 * time.Millisecond: 20 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			began := time.Now()
			require.True(t, b.call(ctx, 3).IsAbandoned)
			require.GreaterOrEqual(t, time.Since(began), after)
			require.LessOrEqual(t, time.Since(began), most)
			cancel()
		}
	})
}

// TestACallerWithALongRequestLeavesWhenItsContextEnds: the server reads nothing, so a write of the
// request would wait for it.
func TestACallerWithALongRequestLeavesWhenItsContextEnds(t *testing.T) {
	for _, name := range []string{"it would lead", "another request is in flight"} {
		t.Run(name, func(t *testing.T) {
			withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
				b.makeCallersLead()
				hold := make(chan struct{})
				defer close(hold)
				b.srv.answer = func(command []string) string {
					if name == "it would lead" {
						b.srv.say(yes(command))
					}
					<-hold
					return mute
				}
				b.Put(b.acquire(3, nil))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				began := time.Now()
				r := b.requests.New("m", script.Acquire, 1, nil, resp.ArgsOf("m", strings.Repeat("x", 1<<20)))
				b.Put(r)
				require.True(t, b.requests.Await(ctx, r).IsAbandoned)
				require.Equal(t, 50*time.Millisecond, time.Since(began))
			})
		})
	}
}

// TestWhatALeaderDoesNotReadTheResidentDoes: an answer comes in two pieces, after some time
// each, or in more than can be read ahead.
func TestWhatALeaderDoesNotReadTheResidentDoes(t *testing.T) {
	for name, c := range map[string]struct{ delay, between time.Duration }{
		"in the slice":      {time.Millisecond, time.Millisecond},
		"half in the slice": {time.Millisecond, 50 * time.Millisecond},
		"after the slice":   {50 * time.Millisecond, 50 * time.Millisecond},
		"after half of it":  {3 * time.Millisecond, 0},
		"at its very end":   {leadTime, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
				b.makeCallersLead()
				b.srv.answer = func(command []string) string {
					time.Sleep(c.delay)
					whole := yes(command)
					b.srv.say(whole[:6])
					time.Sleep(c.between)
					b.srv.say(whole[6:])
					return mute
				}
				b.requireNextYes(3)
				b.requireNextYes(4)
				b.srv.answer = yes
				b.requireNextYes(5)
				require.EqualValues(t, 1, b.srv.dials.Load())
			})
		})
	}
	long := "-ERR " + strings.Repeat("x", 3000)
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		b.srv.answer = func([]string) string { return long + "\r\n" }
		for id := range 3 {
			require.EqualError(t, b.call(t.Context(), id).Err, long[1:])
		}
		b.srv.answer = yes
		b.requireNextYes(3)
		require.EqualValues(t, 1, b.srv.dials.Load())
	})
}

func TestHalfAnAnswerToALeaderEndsInTime(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		b.srv.answer = func(command []string) string {
			b.srv.say(yes(command)[:6])
			return mute
		}
		began := time.Now()
		a := b.call(t.Context(), 3)
		requireNoReply(t, a.Err)
		require.False(t, a.Stamp.IsZero(), "it may have run")
		require.Less(t, time.Since(began), 1200*time.Millisecond)
		b.srv.answer = yes
		b.requireNextYes(4)
		require.EqualValues(t, 2, b.srv.dials.Load())
	})
}

// TestNobodyReadsAnIdleConnection, so a writer first looks for bytes that have come without a request.
func TestNobodyReadsAnIdleConnection(t *testing.T) {
	for name, end := range map[string]func(s *speaker){
		"an answer":      func(s *speaker) { s.say("-ERR you are not wanted\r\n") },
		"half an answer": func(s *speaker) { s.say("*2\r\n:1\r\n") },
		"two answers":    func(s *speaker) { s.say(":1\r\n:2\r\n") },
		"nonsense":       func(s *speaker) { s.say("HTTP/1.1 400 Bad Request\r\n") },
		"its end":        func(s *speaker) { s.hangUp() },
	} {
		for _, by := range []string{"a leader", "the writer"} {
			t.Run(name+", "+by, func(t *testing.T) {
				withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
					b.makeCallersLead()
					go end(b.srv)
					time.Sleep(time.Millisecond)
					r := b.acquire(3, nil)
					if by == "a leader" {
						b.Put(r)
					} else {
						b.carrier.(grouped).Unled(r)
					}
					a := b.requests.Await(t.Context(), r)
					require.NoError(t, a.Err)
					require.Equal(t, []any{int64(1), int64(3)}, a.Reply.Any())
					require.EqualValues(t, 2, b.srv.dials.Load())
					require.Equal(t, 1, b.srv.runs("3"))
					require.Len(t, b.srv.failures(), 1)
					if name == "an answer" {
						require.ErrorContains(t, b.srv.failures()[0], "you are not wanted")
					}
				})
			})
		}
	}
}

// TestWhatComesWithAnAnswerIsNotTakenForTheNext: both were read together.
func TestWhatComesWithAnAnswerIsNotTakenForTheNext(t *testing.T) {
	for name, more := range map[string]string{"a whole answer": "-ERR you are not wanted\r\n", "half": "*2\r\n", "a quarter": "$"} {
		t.Run(name, func(t *testing.T) {
			withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
				b.makeCallersLead()
				b.srv.answer = func(command []string) string { return yes(command) + more }
				b.requireNextYes(3)
				require.Equal(t, "C", b.readers())
				b.srv.answer = yes
				b.requireNextYes(4)
				require.EqualValues(t, 2, b.srv.dials.Load())
			})
		})
	}
}

func TestTheEndOfAnIdleConnectionIsSeenInTime(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		b.srv.hangUp()
		time.Sleep(time.Second + time.Millisecond) // Config.Timeout
		synctest.Wait()
		require.Len(t, b.srv.failures(), 1)
		b.requireNextYes(3)
		b.requireNextYes(4)
		b.readers()
		b.requireNextYes(5)
		require.Equal(t, "C", b.readers())
	})
}

// TestAnIdleConnectionIsLedAgainAtOnce, although the resident had the turn meanwhile.
func TestAnIdleConnectionIsLedAgainAtOnce(t *testing.T) {
	withLoneCaller(t, 5, yes, func(t *testing.T, b *harness) {
		for id := range 6 {
			b.requireNextYes(id)
		}
		time.Sleep(10 * time.Second)
		b.requireNextYes(7)
		b.readers()
		b.requireNextYes(8)
		require.Equal(t, "C", b.readers())
		require.EqualValues(t, 1, b.srv.dials.Load())
	})
}

func TestCloseEndsALeader(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		b.srv.answer = func([]string) string { return mute }
		done := make(chan pipe.Answer)
		go func() { done <- b.call(t.Context(), 3) }()
		time.Sleep(time.Millisecond)
		began := time.Now()
		b.Close(errShut)
		require.ErrorIs(t, (<-done).Err, errShut)
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, b.call(t.Context(), 4).Err, errShut)
	})
}

// TestWhatHasALimitIsNotLedAfterIt, so a caller need not check the limit of Within itself.
func TestWhatHasALimitIsNotLedAfterIt(t *testing.T) {
	withLoneCaller(t, 1, yes, func(t *testing.T, b *harness) {
		b.makeCallersLead()
		r := b.acquire(3, nil)
		r.Within(time.Now())
		b.Put(r)
		require.ErrorIs(t, b.requests.Await(t.Context(), r).Err, pipe.ErrExpired)
		require.Zero(t, b.srv.runs("3"))
	})
}

// TestRequestsInFlightAlwaysHaveAReader: callers come and leave at any time, and the server
// answers, is slow, sends answers without a request, and hangs up. A request without a reader would
// make the bubble stand still, and a request that gets the answer of another one reports that.
func TestRequestsInFlightAlwaysHaveAReader(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 200
	}
	var reads, failed int
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(uint64(seed), 1))
			var mu sync.Mutex
			pick := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return draw.IntN(n)
			}
			trouble, single := pick(2) == 0, pick(3) == 0
			var hasSaidMore atomic.Bool // the server has sent an answer without a request
			answer := func(command []string) string {
				if pick(3) == 0 {
					time.Sleep(time.Duration(pick(8)) * time.Millisecond)
				}
				if !trouble || pick(20) > 0 {
					return yes(command)
				}
				switch pick(4) {
				case 0:
					return hangUp
				case 1:
					return "-NOSCRIPT no\r\n"
				case 2: // and says no more
					time.Sleep(3 * time.Second)
					return hangUp
				}
				if !single { // it would be the answer to what is in flight
					return yes(command)
				}
				hasSaidMore.Store(true)
				return yes(command) + "-ERR and more\r\n"
			}
			withLoneCaller(t, 1+pick(2), answer, func(t *testing.T, b *harness) {
				var wg sync.WaitGroup
				callers := 1
				if !single {
					callers = 2 + pick(2)
				}
				for who := range callers {
					wg.Go(func() {
						for i := range 15 {
							id := who*100 + i
							ctx, cancel := t.Context(), func() {}
							if !single && pick(4) == 0 {
								ctx, cancel = context.WithTimeout(ctx, time.Duration(pick(10))*time.Millisecond)
							}
							r := b.acquire(id, nil)
							if pick(5) == 0 {
								b.carrier.(grouped).Unled(r)
							} else {
								b.Put(r)
							}
							a := b.requests.Await(ctx, r)
							cancel()
							if single && hasSaidMore.Swap(false) {
								synctest.Wait() // it is read before the next request is sent
							}
							if a.Err == nil {
								require.Equal(t, []any{int64(1), int64(id)}, a.Reply.Any())
							} else if !a.IsAbandoned && trouble {
								mu.Lock()
								failed++
								mu.Unlock()
							} else if !a.IsAbandoned {
								require.NoError(t, a.Err)
							}
							if pick(2) == 0 {
								time.Sleep(time.Duration(pick(12)) * time.Millisecond)
							}
						}
					})
				}
				wg.Wait()
				reads += strings.Count(b.readers(), "C")
			})
		})
	}
	require.Greater(t, reads, seeds, "callers lead")
	require.Greater(t, failed, seeds/10, "there is trouble")
}

// sendOn puts a request that another server has redirected. The goroutine that does so is not the
// caller of the request, so it does not lead.
func sendOn(there carrier, r *pipe.Request) {
	if g, ok := there.(grouped); ok {
		g.Unled(r)
	} else {
		there.Put(r)
	}
}

// Unled is Put of a Group.
func (g grouped) Unled(r *pipe.Request) { g.Group.Put(r) }
