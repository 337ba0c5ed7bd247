package hold_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/wheel"
)

// TestTheSizeOfAHold: with a million locks each byte counts.
func TestTheSizeOfAHold(t *testing.T) {
	alone, inRun := hold.Sizes()
	require.EqualValues(t, 200, alone)
	require.EqualValues(t, 208, inRun)
}

// TestAHoldThatWasHandedOverKeepsNoQueue, no waiter, and no subscription.
func TestAHoldThatWasHandedOverKeepsNoQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, other *lock.Client) {
		const locks = 2000
		ctx := context.Background()
		var helds []*lock.Held
		got := make(chan *lock.Held)
		for i := range locks {
			name := fmt.Sprint("lock:", i)
			first, err := other.Mutex(name).Lock(ctx)
			require.NoError(t, err)
			for range 2 {
				go func() {
					held, err := c.Mutex(name).Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
				synctest.Wait()
			}
			require.NoError(t, first.Unlock(ctx))
			require.NoError(t, (<-got).Unlock(ctx))
			helds = append(helds, <-got)
		}
		require.Zero(t, hold.Callers(in(helds[0])))
		time.Sleep(time.Minute)
		require.Equal(t, locks, c.Stats().Held)
		require.Empty(t, fixture.Strings(t, s, "PUBSUB", "CHANNELS", "*lock:*"))
		for _, held := range helds {
			require.NoError(t, held.Unlock(ctx))
		}
	})
}

// TestWhatAHoldThatWasHandedOverPointsTo: only its run and the engine.
func TestWhatAHoldThatWasHandedOverPointsTo(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		held := b.startRun(3)
		for _, pending := range []bool{false, true} { // a hand-over in memory, and one by a script
			if pending {
				time.Sleep(101 * time.Millisecond)
			}
			asked, next := b.handOverInPause(held)
			require.Equal(t, pending, asked)
			held = next
			require.Equal(t, []string{"*hold.Engine", "*hold.Hold", "*hold.run", "*hold.runHold"}, listPointers(in(held).Hold()))
		}
		require.NoError(t, b.handOver(held).Unlock(context.Background()))
		held, err := b.m.Lock(context.Background())
		require.NoError(t, err)
		require.Equal(t, []string{"*hold.Engine", "*hold.Hold"}, listPointers(in(held).Hold()))
		require.NoError(t, held.Unlock(context.Background()))
	})
}

// listPointers returns the types of all pointers, channels, maps and functions that a hold refers to.
// It does not follow pointers into the engine, which all holds share, or into package renewal.
func listPointers(h *hold.Hold) []string {
	type pointer struct {
		to uintptr
		as string
	}
	types, seen := map[string]bool{}, map[pointer]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Struct:
			if strings.HasPrefix(v.Type().String(), "atomic.Pointer[github.com/wheellock/wheellock/renewal.") || v.Type() == reflect.TypeFor[wheel.Timer]() {
				return
			}
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Array, reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
			if !v.IsNil() {
				types[v.Type().String()] = true
			}
		case reflect.Pointer:
			name := v.Type().String()
			if strings.HasPrefix(name, "*renewal.") || v.IsNil() { // the watchdog may be writing to it
				return
			}
			p := pointer{v.Pointer(), name}
			if seen[p] {
				return
			}
			types[name], seen[p] = true, true
			if name != "*hold.Engine" {
				walk(v.Elem())
			}
		}
	}
	walk(reflect.ValueOf(h))
	return slices.Sorted(maps.Keys(types))
}

// TestARunGoesOnThoughNobodyIsInLineForAMoment, so another client does not wait longer for its turn.
func TestARunGoesOnThoughNobodyIsInLineForAMoment(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		other, err := lock.New(b.s.Pool(0), lock.Config{})
		require.NoError(b, err)
		theirs := make(chan *lock.Held, 1)
		held, err := b.m.Lock(ctx)
		require.NoError(b, err)
		go func() {
			held, err := other.Mutex("m").Lock(ctx)
			if err != nil {
				b.Error(err)
			}
			theirs <- held
		}()
		synctest.Wait()
		turns := 0
		for ; len(theirs) == 0; turns++ {
			require.Less(b, turns, 100)
			b.addWaiters(1, b.m.Lock)
			time.Sleep(100 * time.Microsecond)
			require.NoError(b, held.Unlock(ctx))
			synctest.Wait()
			if len(b.held) == 0 {
				time.Sleep(3 * time.Millisecond)
				require.NotEmpty(b, theirs)
				continue
			}
			held = <-b.held
			require.Zero(b, hold.Callers(in(held)))
		}
		require.InDelta(b, 17, turns, 1)
		require.NoError(b, (<-theirs).Unlock(ctx))
		require.NoError(b, (<-b.held).Unlock(ctx))
		require.NoError(b, other.Close(ctx))
	})
}
