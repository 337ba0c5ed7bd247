package pipe_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// grouped is a Group as a carrier. All of its requests have one name.
type grouped struct{ *pipe.Group }

func (g grouped) Put(r *pipe.Request) { g.Send(r) }

// post puts a request for which no caller waits.
func (g grouped) post(r *pipe.Request) {
	r.Post()
	g.Group.Put(r)
}

// inGroup runs f with a Group of two connections. The server answers after a millisecond, so calls
// overlap.
func inGroup(t *testing.T, change func(*pipe.Config), f func(t *testing.T, b *harness)) {
	t.Helper()
	inBubble(t, func(ctx context.Context, cfg *pipe.Config) carrier {
		cfg.LeadAfter = 8
		return grouped{pipe.NewGroup(ctx, cfg, 2)}
	}, -1, func(command []string) string {
		time.Sleep(time.Millisecond)
		return yes(command)
	}, change, f)
}

// together runs goroutines. Each of them makes calls calls, one after the other.
func (b *harness) together(goroutines, calls int) {
	b.t.Helper()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for id := range calls {
				b.requireYes(id)
			}
		})
	}
	wg.Wait()
	synctest.Wait()
}

// count returns how often the act of s was done by callers, and how often by other goroutines, since
// the last call.
func count(srv *speaker, s *string) (callers, others int) {
	srv.reading.Lock()
	defer srv.reading.Unlock()
	callers = strings.Count(*s, "C")
	others = len(*s) - callers
	*s = ""
	return callers, others
}

// TestTwoCallersLeadAConnectionEach, although all of their requests have one name.
func TestTwoCallersLeadAConnectionEach(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, b *harness) {
		b.together(1, 100)
		require.EqualValues(t, 1, b.srv.dials.Load(), "a lone caller needs one connection")
		b.together(2, 50)
		require.EqualValues(t, 2, b.srv.dials.Load())
		count(b.srv, &b.srv.readers)
		count(b.srv, &b.srv.writers)
		b.together(2, 100)
		callers, others := count(b.srv, &b.srv.readers)
		require.Greater(t, callers, 5*others)
		callers, others = count(b.srv, &b.srv.writers)
		require.Greater(t, callers, 5*others)
		require.Empty(t, b.srv.failures())
	})
}

// TestASecondConnectionThatCannotBeMadeDelaysNobody: only speed depends on it.
func TestASecondConnectionThatCannotBeMadeDelaysNobody(t *testing.T) {
	dials := 0
	inGroup(t, func(cfg *pipe.Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
			if dials++; dials > 1 {
				time.Sleep(time.Hour)
				return pipe.Connection{}, errors.New("too many")
			}
			return dial(ctx, bound)
		}
	}, func(t *testing.T, b *harness) {
		b.requireYes(1)
		b.together(2, 1000)
		require.Equal(t, 2, dials)
		time.Sleep(2 * time.Hour)
		b.together(2, 1000)
		require.Equal(t, 2, dials, "that was in vain once")
		require.Empty(t, b.srv.failures())
	})
}

// TestASecondConnectionIsMadeAgain after it has failed.
func TestASecondConnectionIsMadeAgain(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, b *harness) {
		b.together(2, 50)
		b.srv.hangUp()
		time.Sleep(2 * time.Second) // both have read that
		b.together(2, 50)
		require.EqualValues(t, 4, b.srv.dials.Load())
	})
}

// TestARequestThatWasPostedIsNotOvertaken: otherwise a posted release would come after the next try
// for the lock, and that try would be refused in vain.
func TestARequestThatWasPostedIsNotOvertaken(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, b *harness) {
		b.together(2, 50)
		var mu sync.Mutex
		var order []string
		b.srv.answer = func(command []string) string {
			if id(command) == "99" {
				time.Sleep(100 * time.Millisecond)
			}
			mu.Lock()
			order = append(order, id(command))
			mu.Unlock()
			return yes(command)
		}
		b.carrier.(grouped).post(b.acquire(99, nil))
		b.together(2, 1)
		require.Equal(t, []string{"99", "0", "0"}, order)
		require.EqualValues(t, 2, b.srv.dials.Load())
		count(b.srv, &b.srv.readers)
		b.srv.answer = func(command []string) string {
			time.Sleep(time.Millisecond)
			return yes(command)
		}
		b.together(2, 50)
		callers, others := count(b.srv, &b.srv.readers)
		require.Greater(t, callers, others, "nothing is posted any more")
	})
}

// TestAPostedRequestThatIsSentElsewhereIsCountedOnce. While a Group counts a posted request, its calls
// are slower.
func TestAPostedRequestThatIsSentElsewhereIsCountedOnce(t *testing.T) {
	var g grouped
	var moved atomic.Bool
	inGroup(t, func(cfg *pipe.Config) {
		cfg.Redirect = func(r *pipe.Request, _ pipe.Redirection) { g.Group.Put(r) }
	}, func(t *testing.T, b *harness) {
		g = b.carrier.(grouped)
		b.srv.answer = func(command []string) string {
			time.Sleep(time.Millisecond)
			if id(command) == "99" && !moved.Swap(true) {
				return "-MOVED 1 host:2\r\n"
			}
			return yes(command)
		}
		g.post(b.acquire(99, nil))
		b.together(2, 50)
		count(b.srv, &b.srv.readers)
		b.together(2, 50)
		callers, others := count(b.srv, &b.srv.readers)
		require.Greater(t, callers, others)
		require.True(t, moved.Load())
	})
}

// TestSomeCallersWriteTheirOwnRequests, although another goroutine reads the answers.
func TestSomeCallersWriteTheirOwnRequests(t *testing.T) {
	for goroutines, write := range map[int]bool{8: true, 20: false} {
		inGroup(t, nil, func(t *testing.T, b *harness) {
			b.together(goroutines, 20)
			count(b.srv, &b.srv.writers)
			count(b.srv, &b.srv.readers)
			b.together(goroutines, 20)
			callers, _ := count(b.srv, &b.srv.writers)
			require.Equal(t, write, callers > 0, "%d of %d", callers, goroutines)
			_, residents := count(b.srv, &b.srv.readers)
			require.NotZero(t, residents)
		})
	}
}

// TestCallersWriteNothingMoreToASilentServer: a caller that writes more than the sockets keep would be
// kept in its write.
func TestCallersWriteNothingMoreToASilentServer(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, b *harness) {
		b.together(8, 20)
		b.srv.answer = func([]string) string { return mute }
		count(b.srv, &b.srv.writers)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					require.True(t, b.call(ctx, 1).IsAbandoned)
					cancel()
				}
			})
		}
		wg.Wait()
		callers, others := count(b.srv, &b.srv.writers)
		require.LessOrEqual(t, callers, 40)
		require.NotZero(t, others)
	})
}
