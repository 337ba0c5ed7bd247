package lock_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestACopyOfAHeldPanics: its Unlock would give back what another Held has.
func TestACopyOfAHeldPanics(t *testing.T) {
	c := fixture.ClientOf(t, fixture.Server(t), lock.Config{})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.Mutex("m").Lock)
	again, err := c.Mutex("m").Lock(first.Context(ctx))
	require.NoError(t, err)
	for _, held := range []*lock.Held{first, again} {
		copied := reflect.New(reflect.TypeOf(held).Elem())
		copied.Elem().Set(reflect.ValueOf(held).Elem())
		x := copied.Interface().(*lock.Held)
		const says = "lock: this Held is a copy: use the pointer that Lock returned"
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { x.Valid() })
	}
	require.Equal(t, 2, first.Count())
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, first.Unlock(ctx))
}

// TestAHeldThatNobodyTookPanics, instead of saying that it is valid.
func TestAHeldThatNobodyTookPanics(t *testing.T) {
	ctx := bounded.Context(t)
	for _, x := range []*lock.Held{nil, new(lock.Held)} {
		const says = "lock: this Held is nil or zero: check the error of Lock, and use the Held that it returned"
		require.PanicsWithValue(t, says, func() { x.Valid() })
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { _ = x.Err() })
		require.PanicsWithValue(t, says, func() { x.Done() })
	}
	for _, x := range []*lock.MultiHeld{nil, new(lock.MultiHeld)} {
		const says = "lock: this MultiHeld is nil or zero: check the error of Lock, and use the MultiHeld that it returned"
		require.PanicsWithValue(t, says, func() { x.Valid() })
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { _ = x.Err() })
		require.PanicsWithValue(t, says, func() { x.Done() })
		require.PanicsWithValue(t, says, func() { x.Context(ctx) })
		require.PanicsWithValue(t, says, func() { x.Deadline() })
		require.PanicsWithValue(t, says, func() { x.Members() })
	}
}
