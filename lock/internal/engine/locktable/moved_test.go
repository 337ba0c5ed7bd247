package locktable

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// scripted is a call whose tries end as they are told, and then get the lock.
type scripted struct {
	take
	outcomes []wire.Outcome
}

func (s *scripted) Try(ctx context.Context) wire.Outcome {
	if len(s.outcomes) == 0 {
		return s.take.Try(ctx)
	}
	o := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	return o
}

// TestAWaiterGoesOnWhenItsServerHasBecomeAReplica, which says MOVED in cluster mode. A call that was never
// answered by this server is told so at once, and one that waits is told after a minute.
func TestAWaiterGoesOnWhenItsServerHasBecomeAReplica(t *testing.T) {
	held := wire.Outcome{Result: wire.Refused, TTL: time.Minute, Next: -1}
	moved := wire.Outcome{Result: wire.Denied, Op: "acquire", IsMoved: true, Cause: redis.Error("MOVED 1 other:1")}
	denied := wire.Outcome{Result: wire.Denied, Op: "acquire", Cause: redis.Error("NOPERM no")}
	forLong := []wire.Outcome{held}
	for range 10_000 {
		forLong = append(forLong, moved)
	}
	for name, c := range map[string]struct {
		outcomes []wire.Outcome
		isHad    bool
		atMost   time.Duration
		final    bool
	}{
		"after it was refused":                    {[]wire.Outcome{held, moved, moved, moved}, true, 2 * time.Minute, false},
		"and refused at the new master":           {[]wire.Outcome{held, moved, held, moved}, true, 3 * time.Minute, false},
		"at the first try":                        {[]wire.Outcome{moved}, false, time.Second, false},
		"for long":                                {forLong, false, 2*time.Minute + 10*time.Second, false},
		"but not after another refusal":           {[]wire.Outcome{held, denied}, false, 2 * time.Minute, false},
		"also if an unknown outcome would end it": {[]wire.Outcome{held, moved, moved}, true, 2 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c0 *client) {
				c0.redis.losesNothing = true
				s := &scripted{take{c: c0, name: "a", as: ownerOf(1)}, c.outcomes}
				began := time.Now()
				s.w = c0.table.NewWaiter(Key{"a", waitqueue.Exclusive}, s, Request{Owner: s.as, Final: c.final})
				defer s.w.End()
				o := s.w.Run(t.Context())
				require.Equal(t, c.isHad, o.Result == wire.Granted, "%+v", o)
				require.LessOrEqual(t, time.Since(began), c.atMost)
				if c.isHad {
					c0.unlock(s.held)
				} else {
					require.Equal(t, wire.Denied, o.Result)
				}
			})
		})
	}
}

// TestTheNextWaiterGoesOnAfterMoved: only the first in line asks Redis, so the next one was never refused
// itself. A hold of the client shows as well that the server was a master.
func TestTheNextWaiterGoesOnAfterMoved(t *testing.T) {
	moved := wire.Outcome{Result: wire.Denied, Op: "acquire", IsMoved: true, Cause: redis.Error("MOVED 1 other:1")}
	for name, ofOurs := range map[string]bool{"behind one that leaves": false, "behind a hold of the client": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				c.redis.losesNothing = true
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := func(ctx context.Context, s *scripted) chan wire.Outcome {
					s.c, s.name = c, "a"
					s.w = c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, s, Request{Owner: s.as})
					done := make(chan wire.Outcome, 1)
					go func() {
						defer s.w.End()
						done <- s.w.Run(ctx)
					}()
					synctest.Wait()
					return done
				}
				first := &scripted{take{as: ownerOf(1)}, nil}
				if !ofOurs {
					first.outcomes = []wire.Outcome{{Result: wire.Refused, TTL: time.Minute, Next: -1}, moved, moved, moved, moved, moved, moved, moved, moved}
				}
				one := start(ctx, first)
				if ofOurs {
					require.Equal(t, wire.Granted, (<-one).Result)
				}
				second := &scripted{take{as: ownerOf(2)}, []wire.Outcome{moved, moved}}
				next := start(t.Context(), second)
				time.Sleep(6 * time.Second)
				if ofOurs {
					require.True(t, c.redis.swapHolder("a", first.held, nil))
					c.table.Forget(first.held) // it is not handed over
				} else {
					cancel()
					require.Equal(t, wire.ByContext, (<-one).End)
				}
				require.Equal(t, wire.Granted, (<-next).Result)
				c.unlock(second.held)
			})
		})
	}
}

// TestMovedAfterAGrantOrAtAReentryIsWaitedOut too.
func TestMovedAfterAGrantOrAtAReentryIsWaitedOut(t *testing.T) {
	moved := wire.Outcome{Result: wire.Denied, Op: "acquire", IsMoved: true, Cause: redis.Error("MOVED 1 other:1")}
	for _, do := range []waitqueue.Do{waitqueue.DoProbe, waitqueue.DoReenter} {
		play(t, func(t *testing.T, c *client) {
			asWaiter(c, func(w *Waiter[*fakeHold], _ waitqueue.Instant) {
				after := decision[*fakeHold]{Instruction: waitqueue.Instruction[*fakeHold]{Do: do}}
				require.True(t, w.failed(t.Context(), after, moved), "nobody was answered before")
				w.got(wire.Outcome{Result: wire.Granted})
				began := time.Now()
				require.False(t, w.failed(t.Context(), after, moved))
				require.Positive(t, time.Since(began), "there is a pause")
				require.Equal(t, wire.Denied, w.last.Result)
				time.Sleep(2 * movedFor)
				require.True(t, w.failed(t.Context(), after, moved))
			})
		})
	}
}
