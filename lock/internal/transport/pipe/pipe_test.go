package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// TestARequestIsCompletedOnceWhereverItsConnectionIsCut: some requests are answered, the callers of
// some have left, and the server has forgotten the script.
func TestARequestIsCompletedOnceWhereverItsConnectionIsCut(t *testing.T) {
	const calls = 6
	for name, start := range carriers {
		t.Run(name, func(t *testing.T) {
			cuts := 0
			for budget := int64(0); ; budget += 17 {
				var known atomic.Bool
				answer := func(command []string) string {
					if command[0] == "EVAL" {
						known.Store(true)
					} else if command[0] == "EVALSHA" && !known.Load() {
						return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
					}
					return yes(command)
				}
				whole := false
				inBubble(t, start, budget, answer, nil, func(t *testing.T, b *harness) {
					var late, awaited [calls]atomic.Int32
					var wg sync.WaitGroup
					for i := range calls {
						r := b.acquire(i, func(a pipe.Answer) {
							late[i].Add(1)
							check(t, b, i, a)
						})
						b.Put(r)
						wg.Go(func() {
							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							if i%2 == 1 {
								cancel() // the answer may be there, and may not
							}
							a := b.requests.Await(ctx, r)
							if errors.Is(a.Err, context.Canceled) && i%2 == 1 {
								return // late gets it
							}
							awaited[i].Add(1)
							check(t, b, i, a)
						})
					}
					wg.Wait()
					time.Sleep(time.Microsecond) // cutConn.TryRead takes a nanosecond
					synctest.Wait()
					for i := range calls {
						require.Equal(t, int32(1), late[i].Load()+awaited[i].Load(), "budget %d, request %d", budget, i)
						require.LessOrEqual(t, b.srv.runs(fmt.Sprint(i)), 1, "budget %d, request %d", budget, i)
					}
					whole = !b.srv.cut.Load()
					b.srv.budget.Store(-1)
					b.requireYes(100) // on a connection of its own
				})
				if whole {
					break
				}
				cuts++
			}
			require.Greater(t, cuts, 20)
		})
	}
}

// check checks the answer to one request over a connection that is cut.
func check(t *testing.T, b *harness, id int, a pipe.Answer) {
	switch {
	case a.Err == nil:
		if fmt.Sprint(a.Reply.Any()) != fmt.Sprint([]any{1, id}) {
			t.Errorf("request %d got %v", id, a.Reply.Any())
		}
	case errors.Is(a.Err, context.Canceled): // it was not written
	default:
		if _, reply := a.Err.(redis.Error); reply && (id%2 == 0 || b.srv.runs(fmt.Sprint(id)) > 0) { // its caller may have left
			t.Errorf("request %d got %v", id, a.Err)
		}
	}
	if ran := b.srv.runs(fmt.Sprint(id)); a.Stamp.IsZero() && ran > 0 || a.Err == nil && ran != 1 {
		t.Errorf("request %d was run %d times: %v", id, ran, a)
	}
}

func TestARequestThatWasNeverWrittenSaysSo(t *testing.T) {
	down := errors.New("nobody is there")
	bubble(t, yes, func(cfg *pipe.Config) {
		cfg.Dial = func(context.Context, *dialing.Bound) (pipe.Connection, error) { return pipe.Connection{}, down }
	}, func(t *testing.T, b *harness) {
		a := b.call(t.Context(), 1)
		require.ErrorIs(t, a.Err, down)
		require.Zero(t, a.Stamp)
	})
}

func TestACallerThatLeavesBreaksNoConnection(t *testing.T) {
	hold := make(chan struct{})
	synctest.Test(t, func(t *testing.T) {
		hold = make(chan struct{})
		srv := &speaker{ran: make(map[string]int), answer: func(command []string) string {
			if id(command) == "1" {
				<-hold
			}
			return yes(command)
		}}
		srv.budget.Store(-1)
		p := pipe.New(t.Context(), srv.config())
		b := &harness{carrier: p, t: t, srv: srv}
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan pipe.Answer, 1)
		r := b.acquire(1, func(a pipe.Answer) { late <- a })
		p.Put(r)
		synctest.Wait()
		cancel()
		a := b.requests.Await(ctx, r)
		require.ErrorIs(t, a.Err, context.Canceled)
		synctest.Wait()
		require.Empty(t, late, "it is not answered yet")
		close(hold)
		a = <-late
		require.NoError(t, a.Err)
		require.Equal(t, []any{int64(1), int64(1)}, a.Reply.Any())
		b.requireYes(2)
		require.Equal(t, int32(1), srv.dials.Load())
		p.Close(errShut)
		srv.wg.Wait()
	})
}

func TestAScriptThatTheServerForgotIsSentAsText(t *testing.T) {
	var known atomic.Bool
	bubble(t, func(command []string) string {
		switch {
		case command[0] == "EVAL" && command[1] == script.Acquire.Text():
			known.Store(true)
		case command[0] == "EVALSHA" && !known.Load():
			return "-NOSCRIPT No matching script.\r\n"
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		known.Store(false)
		b.requireYes(1)
		b.requireYes(2)
		require.Equal(t, "EVALSHA EVAL EVALSHA", strings.ReplaceAll(b.srv.commands(), " WAIT", ""))
		require.Equal(t, 1, b.srv.runs("1"))
	})
}

func TestAServerThatForgetsTheTextToldIsNotAskedForEver(t *testing.T) {
	bubble(t, func([]string) string { return "-NOSCRIPT No matching script.\r\n" }, nil, func(t *testing.T, b *harness) {
		require.Equal(t, redis.Error("NOSCRIPT No matching script."), b.call(t.Context(), 1).Err)
		require.Equal(t, "EVALSHA EVAL", b.srv.commands())
	})
}

// TestTheConnectionToADemotedMasterIsGivenUp. One in cluster mode sends all requests away.
func TestTheConnectionToADemotedMasterIsGivenUp(t *testing.T) {
	for _, refusal := range []redis.Error{"READONLY You can't write against a read only replica.", "MOVED 3999 host:2", "MOVED 3999 :2", "MOVED 3999 :0"} {
		var demoted atomic.Bool
		bubble(t, func(command []string) string {
			if demoted.Load() {
				return "-" + string(refusal) + "\r\n"
			}
			return yes(command)
		}, func(cfg *pipe.Config) { cfg.Server = "" }, func(t *testing.T, b *harness) {
			demoted.Store(true)
			require.Equal(t, refusal, b.call(t.Context(), 1).Err)
			demoted.Store(false)
			synctest.Wait()
			require.Len(t, b.srv.failures(), 1)
			requireNoReply(t, b.srv.failures()[0])
			require.ErrorContains(t, b.srv.failures()[0], "given up: "+string(refusal))
			b.requireYes(2)
			require.Equal(t, int32(2), b.srv.dials.Load())
		})
	}
}

func TestWhatElseIsInFlightOnTheConnectionToADemotedMasterIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &speaker{ran: make(map[string]int), answer: func(command []string) string {
			if id(command) == "1" {
				time.Sleep(time.Millisecond) // the second is written
				return "-READONLY You can't write against a read only replica.\r\n"
			}
			return mute
		}}
		srv.budget.Store(-1)
		p := pipe.New(t.Context(), srv.config())
		b := &harness{carrier: p, t: t, srv: srv}
		one, two := b.acquire(1, nil), b.acquire(2, nil)
		p.Put(one)
		p.Put(two)
		requireVerdict(t, pipe.Demoted, b.requests.Await(t.Context(), one).Err)
		a := b.requests.Await(t.Context(), two)
		requireNoReply(t, a.Err)
		require.ErrorContains(t, a.Err, "given up")
		require.False(t, a.Stamp.IsZero())
		synctest.Wait()
		require.Len(t, srv.failures(), 1)
		p.Close(errShut)
		srv.wg.Wait()
	})
}

func TestARequestGoesWhereItsKeyIs(t *testing.T) {
	for answer, want := range map[string]struct {
		to    pipe.Redirection
		heard string
	}{
		"-MOVED 3999 host:2\r\n": {pipe.Redirection{Slot: 3999, Server: "host:2"}, "EVALSHA"},
		"-ASK 3999 :2\r\n":       {pipe.Redirection{Ask: true, Slot: 3999, Server: "host:2"}, "ASKING EVALSHA"},
	} {
		var to atomic.Value
		var there carrier
		bubble(t, func([]string) string { return answer }, func(cfg *pipe.Config) {
			cfg.Redirect = func(r *pipe.Request, red pipe.Redirection) {
				to.Store(red)
				sendOn(there, r)
			}
		}, func(t *testing.T, b *harness) {
			other := &speaker{ran: make(map[string]int), answer: func(command []string) string {
				if command[0] == "ASKING" {
					return "+OK\r\n"
				}
				return yes(command)
			}}
			other.budget.Store(-1)
			there = b.start(t.Context(), other.config())
			b.requireYes(1)
			require.Equal(t, want.to, to.Load())
			require.Equal(t, want.heard, strings.ReplaceAll(other.commands(), " WAIT", ""))
			require.Zero(t, b.srv.runs("1"))
			there.Close(errShut)
			other.wg.Wait()
		})
	}
}

// TestARefusedASKINGDoesNotShiftTheAnswers: each request gets the answer to its own
// script, whatever the server says of the ASKING before it.
func TestARefusedASKINGDoesNotShiftTheAnswers(t *testing.T) {
	var there carrier
	bubble(t, func([]string) string { return "-ASK 3999 host:2\r\n" }, func(cfg *pipe.Config) {
		cfg.Redirect = func(r *pipe.Request, _ pipe.Redirection) { sendOn(there, r) }
	}, func(t *testing.T, b *harness) {
		other := &speaker{ran: make(map[string]int), answer: func(command []string) string {
			if command[0] == "ASKING" {
				return "-NOPERM this user has no permissions to run the 'asking' command\r\n"
			}
			return yes(command)
		}}
		other.budget.Store(-1)
		there = b.start(t.Context(), other.config())
		for id := range 5 {
			b.requireYes(id + 1)
		}
		there.Close(errShut)
		other.wg.Wait()
	})
}

func TestARequestThatIsSentInCirclesEnds(t *testing.T) {
	var here carrier
	bubble(t, func([]string) string { return "-MOVED 3999 host:1\r\n" }, func(cfg *pipe.Config) {
		cfg.Redirect = func(r *pipe.Request, _ pipe.Redirection) { sendOn(here, r) }
	}, func(t *testing.T, b *harness) {
		here = b.carrier
		require.Equal(t, redis.Error("MOVED 3999 host:1"), b.call(t.Context(), 1).Err)
		require.Equal(t, strings.Repeat(" EVALSHA", 6)[1:], b.srv.commands())
	})
}

// TestARedirectionWhereThereAreNoSlotsIsAnError. After an ASK the connection stays, because a master that
// sends one slot away is still one.
func TestARedirectionWhereThereAreNoSlotsIsAnError(t *testing.T) {
	for refusal, dials := range map[redis.Error]int32{"MOVED 3999 host:2": 2, "ASK 3999 host:2": 1} {
		bubble(t, func([]string) string { return "-" + string(refusal) + "\r\n" }, nil, func(t *testing.T, b *harness) {
			for range 2 {
				require.Equal(t, refusal, b.call(t.Context(), 1).Err)
				synctest.Wait()
			}
			require.Equal(t, dials, b.srv.dials.Load())
		})
	}
}

// TestAScriptThatConcludesDoesNotFollowAnASK: the keys that it looks for may not
// have arrived.
func TestAScriptThatConcludesDoesNotFollowAnASK(t *testing.T) {
	for _, s := range script.All() {
		for _, carrier := range carriers {
			followed := false
			inBubble(t, carrier, -1, func([]string) string { return "-ASK 3999 host:2\r\n" }, func(cfg *pipe.Config) {
				cfg.Redirect = func(r *pipe.Request, to pipe.Redirection) {
					followed = true
					r.Fail(redis.Error("ASK 3999 " + to.Server))
				}
			}, func(t *testing.T, b *harness) {
				r := b.requests.New("m", s, 1, nil, resp.ArgsOf("m"))
				b.Put(r)
				require.Equal(t, redis.Error("ASK 3999 host:2"), b.requests.Await(t.Context(), r).Err)
			})
			require.Equal(t, !s.Concludes(), followed, s.Name())
		}
	}
}

// TestWhatIsRefusedBeforeItRanIsNotOwed: a script that did not run has taken nothing, so nothing has to
// be released. A script that met a key that had moved before the others, or was refused for lack of
// memory, may have run in part.
func TestWhatIsRefusedBeforeItRanIsNotOwed(t *testing.T) {
	for said, ran := range map[string]bool{
		"TRYAGAIN Multiple keys request during rehashing of slot": false,
		"ASK 3999 host:2": false,
		"NOREPLICAS Not enough good replicas to write.":                    false,
		"READONLY You can't write against a read only replica.":            false,
		"OOM command not allowed when used memory > 'maxmemory'.":          true,
		"ERR Script attempted to access a non local key in a cluster node": true,
	} {
		for _, carrier := range carriers {
			inBubble(t, carrier, -1, func([]string) string { return "-" + said + "\r\n" }, nil, func(t *testing.T, b *harness) {
				a := b.call(t.Context(), 1)
				require.Equal(t, redis.Error(said), a.Err)
				require.Equal(t, ran, !a.Stamp.IsZero(), said)
				require.Equal(t, said[0] == 'T' || said[0] == 'A', pipe.SlotMoves(a.Err), said)
			})
		}
	}
}

// TestAConnectionToAReplicaIsGivenUpThoughItsCallerHasLeft: the next request dials.
func TestAConnectionToAReplicaIsGivenUpThoughItsCallerHasLeft(t *testing.T) {
	for _, refusal := range []string{"READONLY You can't write against a read only replica.", "MOVED 3999 host:2"} {
		for _, carrier := range carriers {
			leave := func() bool { return false }
			inBubble(t, carrier, -1, func([]string) string {
				leave()
				return "-" + refusal + "\r\n"
			}, nil, func(t *testing.T, b *harness) {
				r := b.acquire(1, nil)
				leave = r.Abandon
				b.Put(r)
				synctest.Wait()
				leave = func() bool { return false }
				b.call(t.Context(), 2)
				require.Equal(t, int32(2), b.srv.dials.Load())
			})
		}
	}
}

func TestASilentServerMakesRequestsUnknownInTime(t *testing.T) {
	bubble(t, func(command []string) string {
		if id(command) == "1" {
			return mute
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		begin := time.Now()
		a := b.call(t.Context(), 1)
		requireNoReply(t, a.Err)
		require.Equal(t, begin, a.Stamp)
		require.LessOrEqual(t, time.Since(begin), time.Second+time.Second/16)
		require.GreaterOrEqual(t, time.Since(begin), time.Second)
		b.requireYes(2)
	})
}

// TestAnAnswerThatIsReadLateCounts: after a standstill of this process its timers run before it reads
// what has come meanwhile. In the bubble the answer comes a little later than the first look at the age
// of its request.
func TestAnAnswerThatIsReadLateCounts(t *testing.T) {
	late := time.Second + time.Second/32
	bubble(t, func(command []string) string {
		if command[0] == "WAIT" {
			late += time.Second // ReplicaTimeout
		}
		time.Sleep(late)
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		for i := range 10 { // a Request is used again, and each one is looked at twice
			late = time.Second + time.Second/32
			b.requireYes(i)
		}
		require.Empty(t, b.srv.failures())
		require.EqualValues(t, 1, b.srv.dials.Load())
	})
}

// TestAnswersThatAreReadOneByOneCount: a connection that brings the answer to its oldest request after
// the first look is looked at twice again.
func TestAnswersThatAreReadOneByOneCount(t *testing.T) {
	bubble(t, func(command []string) string {
		switch {
		case command[0] == "WAIT":
			time.Sleep(time.Second / 4)
		case id(command) == "1":
			time.Sleep(time.Second + time.Second/32)
		case id(command) == "2":
			time.Sleep(time.Second / 16)
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		zero, one, two := b.acquire(0, nil), b.acquire(1, nil), b.acquire(2, nil)
		b.Put(zero)
		synctest.Wait() // a Replicated sends the others together when the replicas have zero
		b.Put(one)
		b.Put(two)
		for _, r := range []*pipe.Request{zero, one, two} {
			require.NoError(t, b.requests.Await(t.Context(), r).Err)
		}
		require.Empty(t, b.srv.failures())
	})
}

// TestAServerThatIsSilentAboutItsReplicasIsLeftInTime: WAIT has the time of a round trip more than the
// server may take for it.
func TestAServerThatIsSilentAboutItsReplicasIsLeftInTime(t *testing.T) {
	inBubble(t, carriers["Replicated"], -1, func(command []string) string {
		if command[0] == "WAIT" {
			return mute
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		begin := time.Now()
		a := b.call(t.Context(), 1)
		require.Equal(t, pipe.ErrUnanswered, a.Err)
		require.True(t, a.Taken)
		require.Equal(t, 2*time.Second+time.Second/16, time.Since(begin))
	})
}

func TestAnIdleConnectionLivesAndOneThatEndedIsNotUsed(t *testing.T) {
	for _, name := range []string{"Pipe", "Replicated"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, carriers[name], -1, yes, nil, func(t *testing.T, b *harness) {
				b.requireYes(1)
				time.Sleep(time.Hour)
				b.requireYes(2)
				require.Equal(t, int32(1), b.srv.dials.Load())
				require.Equal(t, 1, b.srv.haveAnswered())
				b.srv.hangUp()
				synctest.Wait()
				require.Len(t, b.srv.failures(), 1)
				require.Equal(t, 1, b.srv.haveAnswered())
				b.requireYes(3)
				require.Equal(t, int32(2), b.srv.dials.Load())
				require.Equal(t, 2, b.srv.haveAnswered())
			})
		})
	}
}

func TestAnAnswerThatNobodyAskedForEndsTheConnection(t *testing.T) {
	for name, last := range map[string]string{"Pipe": "EVALSHA", "Replicated": "WAIT"} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			inBubble(t, carriers[name], -1, func(command []string) string {
				if command[0] == last {
					if asked++; asked == 1 {
						return yes(command) + "+what\r\n"
					}
				}
				return yes(command)
			}, nil, func(t *testing.T, b *harness) {
				b.requireYes(1)
				synctest.Wait()
				require.Len(t, b.srv.failures(), 1)
				require.ErrorContains(t, b.srv.failures()[0], "unexpected answer")
				b.requireYes(2)
				require.Equal(t, int32(2), b.srv.dials.Load())
			})
		})
	}
}

func TestAConnectionOfAnEarlierEpochIsNotUsed(t *testing.T) {
	var turn func()
	bubble(t, yes, func(cfg *pipe.Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
			dialed, err := dial(ctx, bound)
			turn() // the server is replaced right after the dial
			return dialed, err
		}
	}, func(t *testing.T, b *harness) {
		turn = func() { b.srv.epoch.Add(1) }
		a := b.call(t.Context(), 1)
		require.ErrorIs(t, a.Err, pipe.ErrReplaced)
		require.Zero(t, a.Stamp)
		require.Zero(t, b.srv.runs("1"))
		turn = func() {}
		b.requireYes(2)
		b.srv.epoch.Add(1)
		a = b.call(t.Context(), 5) // before Drop: the old server still answers
		require.ErrorIs(t, a.Err, pipe.ErrReplaced)
		require.Zero(t, a.Stamp)
		require.Zero(t, b.srv.runs("5"))
		b.Drop()
		synctest.Wait()
		b.requireYes(3)
		require.Equal(t, int32(3), b.srv.dials.Load())
	})
}

func TestCloseCompletesEverythingAndWhatComesLater(t *testing.T) {
	bubble(t, func([]string) string { return mute }, nil, func(t *testing.T, b *harness) {
		why := errors.New("it is closed")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := b.call(t.Context(), i).Err; !errors.Is(err, why) {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		b.Close(why)
		wg.Wait()
		a := b.call(t.Context(), 9)
		require.ErrorIs(t, a.Err, why)
		require.Zero(t, a.Stamp)
	})
}

// TestWhatWaitsForADialIsToldWhyItEnds: the context of New ends before Close is called.
func TestWhatWaitsForADialIsToldWhyItEnds(t *testing.T) {
	for name, start := range carriers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &speaker{}
				cfg := srv.config()
				cfg.Dial = func(ctx context.Context, _ *dialing.Bound) (pipe.Connection, error) {
					<-ctx.Done()
					return pipe.Connection{}, fmt.Errorf("dial: %w", ctx.Err())
				}
				ctx, end := context.WithCancelCause(t.Context())
				b := &harness{carrier: start(ctx, cfg), t: t, srv: srv}
				r := b.acquire(1, nil)
				b.Put(r)
				synctest.Wait()
				end(errShut)
				synctest.Wait()
				b.Close(errors.New("too late"))
				a := b.requests.Await(t.Context(), r)
				require.ErrorIs(t, a.Err, errShut)
				require.NotErrorIs(t, a.Err, context.Canceled)
				require.Zero(t, a.Stamp)
			})
		})
	}
}

// TestFunctionsOfTheConfigMayPutRequests: no lock is held while one runs, nor while
// late does.
func TestFunctionsOfTheConfigMayPutRequests(t *testing.T) {
	var again func()
	inBubble(t, carriers["Pipe"], -1, func(command []string) string {
		switch id(command) {
		case "1":
			return hangUp
		case "2":
			return "-MOVED 3999 host:2\r\n"
		case "3":
			return "*2\r\n:1\r\n$6\r\nNOPERM\r\n"
		}
		return yes(command)
	}, func(cfg *pipe.Config) {
		epoch, first := cfg.Epoch, new(atomic.Bool)
		cfg.Epoch = func() uint32 {
			if !first.Swap(true) { // it is called for every write, so for what again puts, too
				again()
			}
			return epoch()
		}
		cfg.Failed = func(error) { again() }
		cfg.Redirect = func(r *pipe.Request, _ pipe.Redirection) { again(); r.Fail(errShut) }
		cfg.Unpublished = func(string) { again() }
	}, func(t *testing.T, b *harness) {
		var called, answered atomic.Int32
		again = func() {
			called.Add(1)
			r := b.acquire(100, func(a pipe.Answer) { answered.Add(1) })
			r.Post()
			b.Put(r)
		}
		require.Error(t, b.call(t.Context(), 1).Err)
		require.ErrorIs(t, b.call(t.Context(), 2).Err, errShut)
		r := b.requests.New("m", script.Release, 1, nil, resp.ArgsOf("m", "3"))
		b.Put(r)
		require.NoError(t, b.requests.Await(t.Context(), r).Err)
		synctest.Wait()
		require.GreaterOrEqual(t, called.Load(), int32(4))
		require.Equal(t, called.Load(), answered.Load())
		again = func() {}
	})
}

func TestARefusedMessageIsTakenOffItsAnswer(t *testing.T) {
	var refusal atomic.Value
	inBubble(t, carriers["Pipe"], -1, func([]string) string { return "*2\r\n:7\r\n$6\r\nNOPERM\r\n" }, func(cfg *pipe.Config) {
		cfg.Unpublished = func(text string) { refusal.Store(text) }
	}, func(t *testing.T, b *harness) {
		for s, want := range map[*script.Script]any{
			script.Release: int64(7), script.Inspect: []any{int64(7), []byte("NOPERM")},
		} {
			r := b.requests.New("m", s, 1, nil, resp.ArgsOf("m"))
			b.Put(r)
			a := b.requests.Await(t.Context(), r)
			require.NoError(t, a.Err)
			require.Equal(t, want, a.Reply.Any())
		}
		require.Equal(t, "NOPERM", refusal.Load())
	})
}

func TestAnAcquisitionIsToldWhenReplicasHaveItAndARefusalAtOnce(t *testing.T) {
	inBubble(t, func(ctx context.Context, cfg *pipe.Config) carrier { return pipe.NewReplicated(ctx, cfg, 2) }, -1, func(command []string) string {
		switch {
		case command[0] == "WAIT":
			time.Sleep(500 * time.Millisecond)
			return ":2\r\n"
		case id(command) == "2":
			return "*2\r\n:0\r\n:5000\r\n"
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		begin := time.Now()
		one, two := b.acquire(1, nil), b.acquire(2, nil)
		b.Put(one)
		b.Put(two)
		a := b.requests.Await(t.Context(), two)
		require.NoError(t, a.Err)
		require.Equal(t, []any{int64(0), int64(5000)}, a.Reply.Any())
		require.Equal(t, begin, time.Now(), "it waits for nobody")
		a = b.requests.Await(t.Context(), one)
		require.NoError(t, a.Err)
		require.True(t, a.Taken)
		require.Equal(t, 2, a.Acks)
		require.Equal(t, begin, a.Stamp, "the wait comes off the trust")
		require.Equal(t, begin.Add(500*time.Millisecond), time.Now())
	})
}

func TestAnAcquisitionWhoseWaitFailsSaysThatItWasTaken(t *testing.T) {
	for _, how := range []string{"-NOPERM no WAIT for you\r\n", hangUp, mute} {
		inBubble(t, carriers["Replicated"], -1, func(command []string) string {
			if command[0] == "WAIT" {
				return how
			}
			return yes(command)
		}, nil, func(t *testing.T, b *harness) {
			a := b.call(t.Context(), 1)
			require.Error(t, a.Err)
			require.True(t, a.Taken)
			require.Zero(t, a.Acks)
		})
	}
}

// TestWhatWasTakenBeforeItsConnectionFailedIsCompleted: two acquisitions are sent together, and the
// connection ends between their answers.
func TestWhatWasTakenBeforeItsConnectionFailedIsCompleted(t *testing.T) {
	inBubble(t, carriers["Replicated"], -1, func(command []string) string {
		switch {
		case command[0] == "WAIT":
			time.Sleep(100 * time.Millisecond)
			return ":1\r\n"
		case id(command) == "3":
			return hangUp
		}
		return yes(command)
	}, nil, func(t *testing.T, b *harness) {
		first, taken, failed := b.acquire(1, nil), b.acquire(2, nil), b.acquire(3, nil)
		b.Put(first)
		synctest.Wait() // the others wait until it has its replicas
		b.Put(taken)
		b.Put(failed)
		require.NoError(t, b.requests.Await(t.Context(), first).Err)
		a := b.requests.Await(t.Context(), taken)
		requireNoReply(t, a.Err)
		require.True(t, a.Taken)
		a = b.requests.Await(t.Context(), failed)
		requireNoReply(t, a.Err)
		require.False(t, a.Taken)
	})
}

// TestAWriteThatBlocksEndsInTime: the server reads nothing, and the sockets are full.
func TestAWriteThatBlocksEndsInTime(t *testing.T) {
	bubble(t, yes, func(cfg *pipe.Config) {
		cfg.Dial = func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			client, _ := net.Pipe()
			return pipe.Connection{Conn: resp.Over(resp.New(client))}, nil
		}
	}, func(t *testing.T, b *harness) {
		begin := time.Now()
		a := b.call(t.Context(), 1)
		requireNoReply(t, a.Err)
		require.NotZero(t, a.Stamp, "a part of it may have been written")
		require.LessOrEqual(t, time.Since(begin), b.srv.cfg.Timeout*17/16)
	})
}

func TestTheVerdictOnAnAnswer(t *testing.T) {
	moved := pipe.Redirection{Slot: 3999, Server: "host:2"}
	for _, c := range []struct {
		err      error
		sentText bool
		want     pipe.Verdict
		to       pipe.Redirection
	}{
		{nil, false, pipe.Final, pipe.Redirection{}},
		{redis.Error("NOPERM"), false, pipe.Final, pipe.Redirection{}},
		{redis.Error("TRYAGAIN Multiple keys"), false, pipe.Parted, pipe.Redirection{}},
		{redis.Error("NOSCRIPT No matching script."), false, pipe.AsText, pipe.Redirection{}},
		{redis.Error("NOSCRIPT No matching script."), true, pipe.Final, pipe.Redirection{}},
		{redis.Error("MOVED 3999 host:2"), false, pipe.Elsewhere, moved},
		{redis.Error("MOVED 3999 :2"), true, pipe.Elsewhere, moved},
		{redis.Error("MOVED"), false, pipe.Final, pipe.Redirection{}},
		{redis.Error("READONLY You can't write"), false, pipe.Demoted, pipe.Redirection{}},
		{io.EOF, false, pipe.Broken, pipe.Redirection{}},
		{fmt.Errorf("wrapped: %w", redis.Error("READONLY")), false, pipe.Broken, pipe.Redirection{}},
	} {
		v, to := pipe.VerdictOf(c.err, c.sentText, "host:1")
		require.Equal(t, c.want, v, "%v", c.err)
		require.Equal(t, c.to, to, "%v", c.err)
	}
}
