package watch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/watch"
)

type ownerKey struct{}

// subject is a hold of an owner, which is over when it is told so.
type subject struct {
	owner string
	over  atomic.Pointer[error]
}

func (s *subject) Look() error {
	if err := s.over.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *subject) Value(key any) any {
	if key != (ownerKey{}) || s.owner == "" {
		return nil
	}
	return s.owner
}

var errLost = errors.New("lost")

func (s *subject) end() { err := errLost; s.over.Store(&err) }

func newWatch(owner string) (*subject, *watch.Watch) {
	s, w := &subject{owner: owner}, new(watch.Watch)
	w.Init(s)
	return s, w
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// parents are contexts of the kinds that Context tells apart.
func parents() map[string]context.Context {
	cancelled, cancel := context.WithCancel(context.Background())
	timed, stop := context.WithTimeout(context.WithValue(cancelled, ctxKey("k"), "v"), time.Hour)
	_, other := newWatch("other")
	_, _ = cancel, stop
	return map[string]context.Context{
		"never ends": context.Background(), "a value": context.WithValue(context.Background(), ctxKey("k"), "v"),
		"can be cancelled": cancelled, "has a deadline": timed, "of another Watch": other.Context(cancelled),
		"a context of the user's": strange{cancelled},
	}
}

type ctxKey string

// strange is a context that package context does not know.
type strange struct{ context.Context }

func (s strange) Done() <-chan struct{} { return s.Context.Done() }

// TestEverythingEndsWithTheCause: the channel, contexts, what is derived from them, and what
// OnEnd was given. What comes after the end has ended.
func TestEverythingEndsWithTheCause(t *testing.T) {
	for name, parent := range parents() {
		t.Run(name, func(t *testing.T) {
			_, w := newWatch("me")
			ctx := w.Context(parent)
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			var told []error
			w.OnEnd(context.Background(), func(err error) { told = append(told, err) })
			require.Nil(t, w.Cause())
			require.NoError(t, ctx.Err())
			require.NoError(t, child.Err())
			require.False(t, closed(w.Done()))
			w.End(errLost)
			w.End(errors.New("another"))
			for _, c := range []context.Context{ctx, child, w.Context(parent), w.Context(context.Background())} {
				require.True(t, closed(c.Done()))
				require.Equal(t, context.Canceled, c.Err())
				require.Equal(t, errLost, context.Cause(c))
			}
			require.True(t, closed(w.Done()))
			require.Equal(t, errLost, w.Cause())
			require.Equal(t, []error{errLost}, told)
			w.OnEnd(context.Background(), func(err error) { told = append(told, err) })
			require.Equal(t, []error{errLost, errLost}, told)
			require.Zero(t, w.Kept())
		})
	}
}

// TestAContextHasWhatItsParentHas: deadline, values and end.
func TestAContextHasWhatItsParentHas(t *testing.T) {
	_, w := newWatch("me")
	base, cancel := context.WithCancelCause(context.WithValue(context.Background(), ctxKey("k"), "v"))
	at := time.Now().Add(time.Hour)
	timed, stop := context.WithDeadline(base, at)
	defer stop()
	ctx := w.Context(timed)
	got, ok := ctx.Deadline()
	require.True(t, ok)
	require.True(t, at.Equal(got))
	require.Equal(t, "v", ctx.Value(ctxKey("k")))
	require.Equal(t, "me", ctx.Value(ownerKey{}))
	_, plain := newWatch("")
	require.Nil(t, plain.Context(timed).Value(ownerKey{}))
	require.Equal(t, "me", plain.Context(ctx).Value(ownerKey{}), "what the parent carries")
	_, nearer := newWatch("nearer")
	require.Equal(t, "nearer", nearer.Context(ctx).Value(ownerKey{}))
	left := errors.New("left")
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() { close(ended) })()
	cancel(left)
	<-ended
	require.Equal(t, left, context.Cause(ctx))
	w.Look()
	require.NoError(t, w.Cause(), "the subject goes on")
}

// TestWhoeverAsksAContextIsTold that the subject has ended, or that of a context that it was
// derived from, though nobody has ended the Watch.
func TestWhoeverAsksAContextIsTold(t *testing.T) {
	for name, ask := range map[string]func(context.Context) bool{
		"Err":   func(c context.Context) bool { return c.Err() != nil },
		"Done":  func(c context.Context) bool { return closed(c.Done()) },
		"Cause": func(c context.Context) bool { return context.Cause(c) != nil },
	} {
		t.Run(name, func(t *testing.T) {
			for parentName, parent := range parents() {
				outer, ow := newWatch("outer")
				within, cancel := context.WithCancel(ow.Context(parent))
				inner, iw := newWatch("inner")
				ctx := iw.Context(context.WithValue(within, ctxKey("k2"), 1))
				require.False(t, ask(ctx), parentName)
				outer.end()
				require.True(t, ask(ctx), parentName)
				require.True(t, closed(ow.Done()))
				require.Error(t, within.Err())
				require.False(t, closed(iw.Done()), "that one goes on")
				inner.end()
				require.True(t, ask(iw.Context(context.Background())))
				require.True(t, closed(iw.Done()))
				cancel()
			}
		})
	}
}

// TestAContextHasEndedWhileAnotherEndsTheWatch: that goroutine was stopped half-way.
func TestAContextHasEndedWhileAnotherEndsTheWatch(t *testing.T) {
	_, w := newWatch("me")
	ctx := w.Context(context.Background())
	watch.BeginEnd(w, errLost)
	require.Error(t, ctx.Err())
	require.Equal(t, errLost, context.Cause(ctx))
}

// TestManyGoroutinesEndAWatchOnce, and use it meanwhile.
func TestManyGoroutinesEndAWatchOnce(t *testing.T) {
	for range 200 {
		s, w := newWatch("me")
		var told atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				parent, cancel := context.WithCancel(context.Background())
				defer cancel()
				ctx := w.Context(parent)
				w.OnEnd(parent, func(error) { told.Add(1) })
				if i == 4 {
					s.end()
				}
				if i%2 == 0 {
					w.Look()
				}
				_ = ctx.Err()
				<-w.Context(context.Background()).Done()
			})
			if i == 7 {
				s.end()
				w.Look()
			}
		}
		wg.Wait()
		require.True(t, closed(w.Done()))
		require.LessOrEqual(t, told.Load(), int64(8))
	}
}

func TestWhatEndsWithAWatchEndsInTheOrderInWhichItCame(t *testing.T) {
	_, w := newWatch("")
	var ended []int
	for i := range 100 {
		ctx, cancel := context.WithCancelCause(t.Context())
		w.OnEnd(ctx, func(cause error) {
			ended = append(ended, i)
			cancel(cause)
		})
	}
	w.End(errLost)
	require.Len(t, ended, 100)
	require.IsIncreasing(t, ended)
}
