package watch_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/watch"
)

type ownerKey struct{}

// subject is a hold of an owner. The method end ends it.
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

// TestEverythingEndsWithTheCause: the channel, contexts, contexts that are derived from them, and
// the contexts of OnEnd. A context that is made after the end has ended.
func TestEverythingEndsWithTheCause(t *testing.T) {
	for name, parent := range parents() {
		t.Run(name, func(t *testing.T) {
			_, w := newWatch("me")
			ctx := w.Context(parent)
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			var told []error
			w.OnEnd(func(err error) { told = append(told, err) })
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
			w.OnEnd(func(err error) { told = append(told, err) })
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
	late := errors.New("late")
	timed, stop = context.WithTimeoutCause(context.Background(), 0, late)
	defer stop()
	child, stop := context.WithCancel(w.Context(timed))
	defer stop()
	require.Equal(t, context.DeadlineExceeded, child.Err())
	require.Equal(t, late, context.Cause(child))
}

// TestAContextEndsBeforeTheCancellationOfItsParentReturns, with the cause. The contexts that are
// derived from it end too.
func TestAContextEndsBeforeTheCancellationOfItsParentReturns(t *testing.T) {
	for name, in := range map[string]func(context.Context) context.Context{
		"a value":                 func(c context.Context) context.Context { return context.WithValue(c, ctxKey("k"), "v") },
		"a context of the user's": func(c context.Context) context.Context { return strange{c} },
		"of another Watch":        func(c context.Context) context.Context { _, w := newWatch("other"); return w.Context(c) },
	} {
		_, w := newWatch("me")
		parent, cancel := context.WithCancelCause(context.Background())
		ctx := w.Context(in(parent))
		child, stop := context.WithTimeout(ctx, time.Hour)
		cancel(errLost)
		require.True(t, closed(child.Done()), name)
		require.True(t, closed(ctx.Done()), name)
		require.Equal(t, errLost, context.Cause(ctx), name)
		require.Equal(t, errLost, context.Cause(child), name)
		stop()
	}
}

// TestContextsThatEndTogetherHaveTheirOwnValues, even one that is itself a context.
func TestContextsThatEndTogetherHaveTheirOwnValues(t *testing.T) {
	_, w := newWatch("me")
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, v := range []any{1, parent, context.Background(), nil} {
		ctx := w.Context(context.WithValue(parent, ctxKey("k"), v))
		require.Equal(t, v, ctx.Value(ctxKey("k")))
		require.Nil(t, ctx.Value(ctxKey("other")))
		require.Nil(t, ctx.Value(nil))
	}
	require.Equal(t, 1, w.Kept())
}

// TestAParentThatHasEndedLeavesNoRecord, whether it ended before the call of Context or after it.
func TestAParentThatHasEndedLeavesNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := newWatch("me")
		for i := range 200 {
			parent, cancel := context.WithCancel(t.Context())
			if i%2 == 0 {
				cancel()
			}
			ctx := w.Context(parent)
			cancel()
			require.Equal(t, context.Canceled, ctx.Err())
		}
		synctest.Wait()
		require.Zero(t, w.Kept())
	})
}

// apart is a context that has the values of another context, but ends by itself.
type apart struct {
	context.Context
	done chan struct{}
}

func (a apart) Done() <-chan struct{} { return a.done }

func (a apart) Err() error {
	if closed(a.done) {
		return context.DeadlineExceeded
	}
	return nil
}

// TestAContextEndsWithItsParentAndNothingAroundIt: the end of the parent counts, and not the end of
// the context that the parent has its values from.
func TestAContextEndsWithItsParentAndNothingAroundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		around, cancel := context.WithCancel(t.Context())
		_, w := newWatch("me")
		parent := apart{around, make(chan struct{})}
		ctx := w.Context(parent)
		cancel()
		synctest.Wait()
		require.NoError(t, ctx.Err())
		require.Equal(t, 1, w.Kept())
		close(parent.done)
		synctest.Wait()
		require.Equal(t, context.DeadlineExceeded, ctx.Err())
		require.True(t, closed(ctx.Done()))
		require.Zero(t, w.Kept())

		_ = w.Context(apart{around, make(chan struct{})}) // the Watch starts a goroutine that waits for the parent
		w.End(errLost)
		require.Equal(t, errLost, context.Cause(w.Context(apart{around, make(chan struct{})})))
		synctest.Wait() // the goroutine must have ended, or synctest would fail the test
	})
}

// TestAWatchKeepsNoValueOfAParent: a value may refer to the Held, and then the garbage collector could
// never find that the Held was forgotten.
func TestAWatchKeepsNoValueOfAParent(t *testing.T) {
	_, w := newWatch("me")
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	value := new([64]byte)
	gone := weak.Make(value)
	require.NoError(t, w.Context(context.WithValue(parent, ctxKey("k"), value)).Err())
	runtime.GC()
	require.Nil(t, gone.Value())
	require.Equal(t, 1, w.Kept())
	runtime.KeepAlive(w)
}

// TestAParentKeepsNoWatchThatHasEnded: a server's context outlives many holds.
func TestAParentKeepsNoWatchThatHasEnded(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, w := newWatch("me")
	require.NoError(t, w.Context(parent).Err())
	gone := weak.Make(w)
	w.End(errLost)
	runtime.GC()
	require.Nil(t, gone.Value())
	runtime.KeepAlive(parent)
}

// BenchmarkContext makes a second context of a Watch.
func BenchmarkContext(b *testing.B) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, newParent := range map[string]func() (context.Context, context.CancelFunc){
		"background": func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
		"value": func() (context.Context, context.CancelFunc) {
			return context.WithValue(parent, ctxKey("k"), "v"), func() {}
		},
		"cancelled": func() (context.Context, context.CancelFunc) { return context.WithCancel(parent) },
	} {
		b.Run("parent="+name, func(b *testing.B) {
			_, w := newWatch("me")
			b.ReportAllocs()
			for b.Loop() {
				p, end := newParent()
				_ = w.Context(p).Err()
				end()
			}
		})
	}
	b.Run("value of a context", func(b *testing.B) {
		_, w := newWatch("me")
		ctx := w.Context(context.WithValue(parent, ctxKey("k"), "v"))
		for b.Loop() {
			_ = ctx.Value(ctxKey("other"))
		}
	})
	b.Run("watches=100000", func(b *testing.B) {
		const watches = 100_000
		for b.Loop() {
			kept, before := make([]context.Context, watches), liveHeap()
			for i := range kept {
				_, w := newWatch("me")
				kept[i] = w.Context(parent)
			}
			b.ReportMetric(float64(liveHeap()-before)/watches, "B/watch")
			runtime.KeepAlive(kept)
		}
	})
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestWhoeverAsksAContextIsTold that its subject, or the subject of one of its ancestors, has ended,
// although no goroutine has ended the Watch yet.
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

// TestAContextHasEndedWhileAnotherEndsTheWatch: the goroutine that ends the Watch is stopped half-way.
func TestAContextHasEndedWhileAnotherEndsTheWatch(t *testing.T) {
	_, w := newWatch("me")
	ctx := w.Context(context.Background())
	watch.BeginEnd(w, errLost)
	require.Error(t, ctx.Err())
	require.Equal(t, errLost, context.Cause(ctx))
}

// TestEndAllWaitsForTheGoroutineThatCancels: an Unlock must not give the lock to another while contexts
// of its holder live.
func TestEndAllWaitsForTheGoroutineThatCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := newWatch("")
		began, goOn := make(chan struct{}), make(chan struct{})
		last, cancel := context.WithCancelCause(t.Context())
		w.OnEnd(func(error) { close(began); <-goOn })
		w.OnEnd(cancel)
		go w.End(errLost)
		<-began
		var returned atomic.Bool
		go func() { w.EndAll(errors.New("unlocked")); returned.Store(true) }()
		synctest.Wait()
		require.False(t, returned.Load())
		require.NoError(t, last.Err())
		close(goOn)
		synctest.Wait()
		require.True(t, returned.Load())
		require.ErrorIs(t, context.Cause(last), errLost)
		w.EndAll(nil) // nothing is left to wait for
	})
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
				w.OnEnd(func(error) { told.Add(1) })
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
		w.OnEnd(func(error) { ended = append(ended, i) })
	}
	w.End(errLost)
	require.Len(t, ended, 100)
	require.IsIncreasing(t, ended)
}
