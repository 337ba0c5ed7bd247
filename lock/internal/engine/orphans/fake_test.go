package orphans_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that answers after a while. The function answer makes its answers.
type fake struct {
	began  time.Time
	takes  time.Duration
	answer func(fields string) pipe.Answer

	mu   sync.Mutex
	sent []string // for each request its fields and its time
}

func (f *fake) Send(context.Context, string, wire.Call, func(pipe.Answer)) pipe.Answer {
	panic("nobody waits for an orphan")
}

func (f *fake) Post(_ string, call wire.Call, late func(pipe.Answer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fields := strings.Join(call.Args.Strings(), " ")
	f.sent = append(f.sent, fmt.Sprint(fields, " at ", time.Since(f.began).Truncate(time.Second)))
	time.AfterFunc(f.takes, func() { late(f.answer(fields)) })
}

func (f *fake) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.sent...)
}

func yes(string) pipe.Answer  { return pipe.Answer{Reply: resp.ReplyOf(int64(1))} }
func gone(string) pipe.Answer { return pipe.Answer{Reply: resp.ReplyOf(int64(-1))} }

// play runs f with Orphans and their server.
func play(t *testing.T, answer func(string) pipe.Answer, f func(t *testing.T, s *fake, o *orphans.Orphans)) {
	synctest.Test(t, func(t *testing.T) {
		s := &fake{began: time.Now(), takes: time.Millisecond, answer: answer}
		o := orphans.New(s, wait.Random(nil), 3*time.Second)
		f(t, s, o)
		o.Close(context.Background())
	})
}

func field(text string) orphans.Field {
	return orphans.Field{Name: "m", Text: text, Lease: 30 * time.Second, Release: wire.Call{Args: resp.ArgsOf(text)}}
}

func TestAFieldIsReleasedOnceAndNamedUntilThatIsAnswered(t *testing.T) {
	play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
		s.takes = 20 * time.Second
		f := field("a")
		f.Lease = 24 * time.Hour
		o.Add(f)
		time.Sleep(19 * time.Second)
		require.Equal(t, []string{"a"}, o.FieldsToRemove(0, "m"), "Redis may still have it")
		require.Empty(t, o.FieldsToRemove(1, "m"), "another family's scripts may not remove it")
		require.Empty(t, o.FieldsToRemove(0, "n"))
		time.Sleep(2 * time.Second)
		require.Empty(t, o.FieldsToRemove(0, "m"))
		time.Sleep(25 * time.Hour)
		require.Equal(t, []string{"a at 0s"}, s.all())
	})
}

// TestAFieldWhoseReleaseIsForbiddenIsNamedUntilItsLeaseIsOver, because Redis still has the
// field.
func TestAFieldWhoseReleaseIsForbiddenIsNamedUntilItsLeaseIsOver(t *testing.T) {
	for _, open := range []time.Duration{-1, 0, 5 * time.Second} {
		play(t, func(string) pipe.Answer { return pipe.Answer{Err: redis.Error("NOPERM this user has no permissions")} }, func(t *testing.T, _ *fake, o *orphans.Orphans) {
			switch {
			case open < 0:
				o.Add(field("a"))
			case open == 0:
				o.AddUnanswered(field("a"), time.Time{})
			default:
				o.AddUnanswered(field("a"), time.Now().Add(open))
			}
			time.Sleep(29 * time.Second)
			require.Equal(t, []string{"a"}, o.FieldsToRemove(0, "m"))
			time.Sleep(7 * time.Second)
			if open == 0 { // it may have come a lease later
				time.Sleep(30 * time.Second)
			}
			require.Empty(t, o.FieldsToRemove(0, "m"))
		})
	}
}

// TestAFieldThatMayComeAtAnyTimeIsNamedUntilNoKernelSendsIt: after a connection has failed, the kernel
// sends its data for a limited time, which is shorter than a long lease. Then the last release is sent.
func TestAFieldThatMayComeAtAnyTimeIsNamedUntilNoKernelSendsIt(t *testing.T) {
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		f := field("a")
		f.Lease = 24 * time.Hour
		o.AddUnanswered(f, time.Time{})
		time.Sleep(15*time.Minute - time.Second)
		require.Equal(t, []string{"a"}, o.FieldsToRemove(0, "m"), "its acquisition may come late")
		time.Sleep(2 * time.Second)
		require.Empty(t, o.FieldsToRemove(0, "m"))
		time.Sleep(25 * time.Hour)
		require.Equal(t, "a at 15m0s", s.all()[len(s.all())-1])
	})
	var fails atomic.Bool
	play(t, func(string) pipe.Answer {
		if fails.Load() {
			return pipe.Answer{Err: errors.New("no answer")}
		}
		return gone("")
	}, func(t *testing.T, s *fake, o *orphans.Orphans) {
		f := field("a")
		f.Lease = 24 * time.Hour
		o.AddUnanswered(f, time.Time{})
		time.Sleep(15*time.Minute - time.Second)
		fails.Store(true)
		n := len(s.all())
		time.Sleep(10 * time.Second)
		require.Greater(t, len(s.all()), n+10, "the last release is sent until it is answered")
		require.Equal(t, []string{"a"}, o.FieldsToRemove(0, "m"))
		fails.Store(false)
		time.Sleep(time.Second)
		require.Empty(t, o.FieldsToRemove(0, "m"))
	})
	play(t, yes, func(t *testing.T, _ *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Time{})
		time.Sleep(time.Second)
		require.Empty(t, o.FieldsToRemove(0, "m"), "it had come")
	})
}

func TestAnUnansweredReleaseIsSentAgainUntilTheLeaseIsOver(t *testing.T) {
	tries := 0
	play(t, func(string) pipe.Answer {
		if tries++; tries < 4 {
			return pipe.Answer{Err: errors.New("no answer")}
		}
		return pipe.Answer{Reply: resp.ReplyOf(int64(1))}
	}, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.Add(field("a"))
		time.Sleep(5 * time.Second)
		require.Len(t, s.all(), 4)
	})
	play(t, func(string) pipe.Answer { return pipe.Answer{Err: errors.New("no answer")} }, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.Add(field("a"))
		time.Sleep(31 * time.Second)
		n := len(s.all())
		require.Greater(t, n, 100)
		time.Sleep(time.Minute)
		require.Len(t, s.all(), n, "Redis has expired it")
	})
	play(t, func(string) pipe.Answer { return pipe.Answer{Err: redis.Error("WRONGTYPE no hash")} }, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.Add(field("a"))
		time.Sleep(time.Minute)
		require.Len(t, s.all(), 1, "Redis has said no")
	})
}

// TestARefusedReleaseIsSentAgainAfterPausesThatDouble, so that a server that refuses to write gets
// less than one request a second for each field that is owed. Close tries once more.
func TestARefusedReleaseIsSentAgainAfterPausesThatDouble(t *testing.T) {
	for kind, add := range map[string]func(o *orphans.Orphans){
		"a field":                           func(o *orphans.Orphans) { o.Add(field("a")) },
		"a field that may still come":       func(o *orphans.Orphans) { o.AddUnanswered(field("a"), time.Now().Add(5*time.Second)) },
		"a field that may come at any time": func(o *orphans.Orphans) { o.AddUnanswered(field("a"), time.Time{}) },
		"a call":                            func(o *orphans.Orphans) { o.Send("m", field("a").Release, time.Now().Add(30*time.Second)) },
	} {
		t.Run(kind, func(t *testing.T) {
			var refuses atomic.Bool
			refuses.Store(true)
			play(t, func(string) pipe.Answer {
				if refuses.Load() {
					return pipe.Answer{Err: redis.Error("NOREPLICAS Not enough good replicas to write.")}
				}
				return yes("")
			}, func(t *testing.T, s *fake, o *orphans.Orphans) {
				add(o)
				time.Sleep(20 * time.Second)
				n := len(s.all())
				require.Greater(t, n, 8)
				require.Less(t, n, 14)
				refuses.Store(false)
				began := time.Now()
				o.Close(t.Context())
				require.Less(t, time.Since(began), time.Second)
				require.Len(t, s.all(), n+1)
			})
		})
	}
}

// TestAFieldThatMayStillComeIsReleasedAgain when the time limit of its acquisition has passed. If there
// is no time limit, it is released again after pauses that double.
func TestAFieldThatMayStillComeIsReleasedAgain(t *testing.T) {
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Now().Add(5*time.Second))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a at 0s", "a at 5s"}, s.all())
	})
	play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Now().Add(5*time.Second))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a at 0s"}, s.all(), "it had come")
	})
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Time{})
		time.Sleep(time.Hour)
		n := len(s.all())
		require.Greater(t, n, 8)
		require.Less(t, n, 30, "a lease of 30 s, and pauses of up to 3 s")
		require.Equal(t, "a at 30s", s.all()[n-1], "and when it can come no more")
	})
}

func TestACallIsSentUntilACopyWouldDoHarm(t *testing.T) {
	play(t, func(string) pipe.Answer { return pipe.Answer{Err: errors.New("no answer")} }, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.Send("m", wire.Call{Args: resp.ArgsOf("undo")}, time.Now().Add(2*time.Second))
		time.Sleep(2100 * time.Millisecond)
		n := len(s.all())
		require.Greater(t, n, 5)
		require.Empty(t, o.FieldsToRemove(0, "m"), "it is no field")
		time.Sleep(time.Minute)
		require.Len(t, s.all(), n)
	})
}

func TestNoMoreThanSomeFieldsAreNamed(t *testing.T) {
	play(t, yes, func(t *testing.T, _ *fake, o *orphans.Orphans) {
		for i := range 3 * orphans.MaxFieldsToRemove {
			o.Add(field(fmt.Sprint(i)))
		}
		named := o.FieldsToRemove(0, "m")
		require.Len(t, named, orphans.MaxFieldsToRemove)
		require.Equal(t, fmt.Sprint(3*orphans.MaxFieldsToRemove-1), named[0], "the last ones: those of before had more time")
	})
}

// TestManyThatLeaveAQueueGoTogether: at first one by one, then all in one release.
func TestManyThatLeaveAQueueGoTogether(t *testing.T) {
	play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
		const n = 500
		f := field("")
		f.Together = func(fields []string) wire.Call { return wire.Call{Args: resp.ArgsOf(len(fields))} }
		for i := range n {
			f.Text = fmt.Sprint(i)
			o.Add(f)
		}
		time.Sleep(10 * time.Second)
		sent := s.all()
		require.LessOrEqual(t, len(sent), 10)
		sum := 0
		for _, text := range sent {
			var k int
			_, err := fmt.Sscan(text, &k)
			require.NoError(t, err)
			sum += k
		}
		require.Equal(t, n, sum)
	})
}

func TestCloseWaitsForWhatIsOwedAndNoLonger(t *testing.T) {
	play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
		s.takes = time.Second
		o.Add(field("a"))
		began := time.Now()
		o.Close(t.Context())
		require.Equal(t, time.Second, time.Since(began))
		require.False(t, o.Begin(), "a call that comes after Close")
	})
	for name, test := range map[string]struct{ ctx, waits time.Duration }{"as long as it may": {time.Hour, 3 * time.Second}, "until its context ends": {time.Second, time.Second}} {
		t.Run(name, func(t *testing.T) {
			play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
				s.takes = time.Hour
				o.Add(field("a"))
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.ctx)
				defer cancel()
				o.Close(ctx)
				require.Equal(t, test.waits, time.Since(began))
				o.Add(field("b"))
				require.Len(t, s.all(), 1, "it is closed")
				time.Sleep(2 * time.Hour) // the answer comes
			})
		})
	}
}

// TestCloseWaitsUntilAFieldCanNoLongerBeTaken: a release that did not find the field may have come before its
// acquisition. So Close waits for the release after the acquisition's time limit, if there is one.
func TestCloseWaitsUntilAFieldCanNoLongerBeTaken(t *testing.T) {
	for name, w := range map[string]struct {
		found, limited, waits bool
	}{
		"found":         {found: true, limited: true},
		"not found":     {limited: true, waits: true},
		"without limit": {}, // it would wait for 15 minutes
	} {
		t.Run(name, func(t *testing.T) {
			answer := gone
			if w.found {
				answer = yes
			}
			play(t, answer, func(t *testing.T, s *fake, o *orphans.Orphans) {
				began, until := time.Now(), time.Time{}
				if w.limited {
					until = began.Add(2 * time.Second)
				}
				o.AddUnanswered(field("a"), until)
				time.Sleep(time.Second)
				require.Zero(t, o.Close(t.Context()))
				want := time.Second
				if w.waits {
					want = 2 * time.Second
					require.Len(t, s.all(), 2)
				}
				require.InDelta(t, want, time.Since(began), float64(200*time.Millisecond))
			})
		})
	}
}

// TestCloseDoesNotWaitForWhatRedisHasRefused, though it is named to attempts for some time.
func TestCloseDoesNotWaitForWhatRedisHasRefused(t *testing.T) {
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddRefused(field("a"), time.Now().Add(30*time.Second))
		time.Sleep(time.Second)
		require.Len(t, s.all(), 1)
		require.Equal(t, []string{"a"}, o.FieldsToRemove(0, "m"))
		began := time.Now()
		require.Zero(t, o.Close(t.Context()))
		require.Zero(t, time.Since(began))
	})
}

// TestCloseSaysThatAFieldMayStillBeTaken: its context ends before.
func TestCloseSaysThatAFieldMayStillBeTaken(t *testing.T) {
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Now().Add(2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, 1, o.Close(ctx))
	})
}

// TestWhatIsNoFieldIsReleasedAgainThoughItWasFound: the release may have found the work of another request.
func TestWhatIsNoFieldIsReleasedAgainThoughItWasFound(t *testing.T) {
	play(t, yes, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field(""), time.Now().Add(5*time.Second))
		require.Empty(t, o.FieldsToRemove(0, "m"))
		time.Sleep(4 * time.Second)
		require.Len(t, s.all(), 1)
		time.Sleep(time.Minute)
		require.Len(t, s.all(), 2)
	})
}

// TestCloseWaitsForAFieldThoughAnotherWasReleasedTwice: the other field counts once.
func TestCloseWaitsForAFieldThoughAnotherWasReleasedTwice(t *testing.T) {
	play(t, gone, func(t *testing.T, s *fake, o *orphans.Orphans) {
		o.AddUnanswered(field("a"), time.Now().Add(5*time.Second))
		time.Sleep(time.Minute)
		require.Len(t, s.all(), 2)
		s.takes = time.Second
		o.Add(field("b"))
		began := time.Now()
		require.Zero(t, o.Close(t.Context()))
		require.Equal(t, time.Second, time.Since(began))
	})
}
