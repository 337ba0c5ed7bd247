package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// multiModel is what should be: who holds each key, how often, and which of
// the MultiHelds that are out are lost.
type multiModel struct {
	owner []int // of each key; -1 is nobody
	count []int
	holds []int  // how many holds there were before
	gone  []bool // the key was deleted under its owner: not noticed yet
	out   []*modelHeld
}

type modelHeld struct {
	held  *lock.MultiHeld
	keys  []int
	holds []int // of each of them, when it was taken
	lost  bool  // a key of it was deleted while it was out
}

// canTake reports whether owner gets all of keys.
func (m *multiModel) canTake(owner int, keys []int) bool {
	for _, k := range keys {
		if m.owner[k] != -1 && m.owner[k] != owner {
			return false
		}
	}
	return true
}

// TestMultiLockAgainstAModel tries, re-enters, unlocks and deletes at random,
// and compares each answer and the whole state of Redis with the model's.
func TestMultiLockAgainstAModel(t *testing.T) {
	s := onRedis(t)
	clients := []*lock.Client{fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})}
	conn := fixture.Dial(t, s)
	const keys, owners = 4, 3
	var run atomic.Int64
	ctx := bounded.Context(t)
	rapid.Check(t, func(t *rapid.T) {
		prefix := fmt.Sprintf("multimodel:%d:", run.Add(1))
		name := func(k int) string { return fmt.Sprint(prefix, k) }
		model := multiModel{owner: []int{-1, -1, -1, -1}, count: make([]int, keys), holds: make([]int, keys), gone: make([]bool, keys)}
		ownerCtx := func(o int) context.Context { return lock.WithOwner(ctx, fmt.Sprint("owner ", o)) }
		unlock := func(x *modelHeld) {
			err := x.held.Unlock(ctx)
			if x.lost {
				require.ErrorIs(t, err, lock.ErrLost)
			} else {
				require.NoError(t, err)
			}
			require.ErrorIs(t, x.held.Unlock(ctx), lock.ErrNotHeld)
			for i, k := range x.keys {
				if model.holds[k] != x.holds[i] {
					continue // its hold is over
				}
				if model.count[k]--; model.count[k] == 0 || model.gone[k] {
					model.owner[k], model.count[k], model.gone[k] = -1, 0, false
					model.holds[k]++
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) {
				o := rapid.IntRange(0, owners-1).Draw(t, "owner")
				want := rapid.SliceOfNDistinct(rapid.IntRange(0, keys-1), 1, keys, rapid.ID[int]).Draw(t, "keys")
				if slices.ContainsFunc(want, func(k int) bool { return model.gone[k] }) {
					t.Skip("whether a deleted key is noticed is another test")
				}
				var ms []*lock.Mutex
				for _, k := range want {
					ms = append(ms, clients[k%2].Mutex(name(k)))
				}
				multi, err := lock.NewMultiLock(ms...)
				require.NoError(t, err)
				held, err := multi.TryLock(ownerCtx(o))
				if !model.canTake(o, want) {
					require.ErrorIs(t, err, lock.ErrNotAcquired)
					return
				}
				require.NoError(t, err)
				x := &modelHeld{held: held, keys: want}
				for _, k := range want {
					model.owner[k] = o
					model.count[k]++
					x.holds = append(x.holds, model.holds[k])
				}
				model.out = append(model.out, x)
			},
			"unlock": func(t *rapid.T) {
				if len(model.out) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(model.out)-1).Draw(t, "which")
				unlock(model.out[i])
				model.out = slices.Delete(model.out, i, i+1)
			},
			"delete": func(t *rapid.T) {
				k := rapid.IntRange(0, keys-1).Draw(t, "key")
				n, err := redis.Int(conn.Do("DEL", name(k)))
				require.NoError(t, err)
				if n == 0 {
					return
				}
				model.gone[k] = true
				for _, x := range model.out {
					x.lost = x.lost || slices.Contains(x.keys, k)
				}
			},
			"": func(t *rapid.T) {
				for k := range keys {
					count, err := redis.Ints(conn.Do("HVALS", name(k)))
					require.NoError(t, err)
					switch {
					case model.owner[k] == -1 || model.gone[k]:
						require.Empty(t, count, "key %d", k)
					default:
						require.Equal(t, []int{model.count[k]}, count, "key %d", k)
					}
				}
				for _, x := range model.out {
					if !x.lost { // else it is noticed at a renewal or an Unlock
						require.True(t, x.held.Valid())
						require.NoError(t, x.held.Err())
					}
				}
			},
		})
		for _, x := range model.out {
			unlock(x)
		}
		for k := range keys {
			n, err := redis.Int(conn.Do("EXISTS", name(k)))
			require.NoError(t, err)
			require.Zero(t, n)
		}
	})
}
