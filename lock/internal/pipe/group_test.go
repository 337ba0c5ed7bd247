package pipe_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// grouped is a Group as a carrier. All of its requests have one name.
type grouped struct{ *pipe.Group }

func (g grouped) Put(r *pipe.Request) { g.Send(r, 7) }

// inGroup runs f with a Group of one connection. The server answers after a millisecond, so calls
// overlap.
func inGroup(t *testing.T, change func(*pipe.Config), f func(t *testing.T, b *bench)) {
	t.Helper()
	inBubble(t, func(ctx context.Context, cfg *pipe.Config) carrier {
		cfg.LeadAfter = 8
		return grouped{pipe.NewGroup(ctx, cfg, 1)}
	}, -1, func(command []string) string {
		time.Sleep(time.Millisecond)
		return yes(command)
	}, change, f)
}

// together has so many goroutines make so many calls each, one after the other.
func (b *bench) together(goroutines, calls int) {
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

// count returns how often callers, and how often others, have done what is in s since the last call.
func count(srv *speaker, s *string) (callers, others int) {
	srv.reading.Lock()
	defer srv.reading.Unlock()
	callers = strings.Count(*s, "C")
	others = len(*s) - callers
	*s = ""
	return callers, others
}

// TestSomeCallersWriteTheirOwnRequests, although another goroutine reads the answers.
func TestSomeCallersWriteTheirOwnRequests(t *testing.T) {
	for goroutines, write := range map[int]bool{8: true, 20: false} {
		inGroup(t, nil, func(t *testing.T, b *bench) {
			b.together(goroutines, 20)
			count(b.srv, &b.srv.writers)
			count(b.srv, &b.srv.readers)
			b.together(goroutines, 20)
			callers, _ := count(b.srv, &b.srv.writers)
			require.Equal(t, write, callers > 0, "%d of %d", callers, goroutines)
			_, residents := count(b.srv, &b.srv.readers)
			require.NotZero(t, residents)
			require.EqualValues(t, 1, b.srv.dials.Load())
		})
	}
}

// TestCallersWriteNothingMoreToASilentServer: a caller that writes more than the sockets keep would be
// kept in its write.
func TestCallersWriteNothingMoreToASilentServer(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, b *bench) {
		b.together(8, 20)
		b.srv.answer = func([]string) string { return mute }
		count(b.srv, &b.srv.writers)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					require.True(t, b.call(ctx, 1).Left)
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
