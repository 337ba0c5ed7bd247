package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// rwHold is a hold of the model: the Helds of one owner, of one sort.
type rwHold struct {
	owner   int
	writing bool
	helds   []*lock.Held
}

func TestRWMutexAgainstAModel(t *testing.T) {
	servers := twoServers(t, lock.Config{})
	bg := bounded.Context(t)
	rapid.Check(t, func(rt *rapid.T) {
		// N is the owner, two in each client.
		calls := drawCalls(rt, []string{"lock", "rlock", "lock", "rlock", "unlock", "runlock", "force", "forget"}, 2)
		name := keyOf(t)
		for server, clients := range servers {
			var holds []*rwHold
			find := func(owner int, writing bool) *rwHold {
				for _, h := range holds {
					if h.owner == owner && h.writing == writing {
						return h
					}
				}
				return nil
			}
			others := func(owner int, writing bool) bool { // does another hold it (for writing)?
				return slices.ContainsFunc(holds, func(h *rwHold) bool { return h.owner != owner && (h.writing || !writing) })
			}
			for _, x := range calls {
				owner, what := 10*x.Client+int(x.N), fmt.Sprint(server, x)
				mu, ctx := clients[x.Client].RWMutex(name), lock.WithOwner(bg, fmt.Sprint("owner", x.N))
				take := func(writing bool, held *lock.Held) {
					h := find(owner, writing)
					if h == nil {
						h = &rwHold{owner: owner, writing: writing}
						holds = append(holds, h)
					}
					h.helds = append(h.helds, held)
				}
				writing := x.Op == "lock" || x.Op == "unlock"
				switch h := find(owner, writing); x.Op {
				case "lock":
					held, err := mu.Writer().TryLock(ctx)
					switch {
					case h != nil:
						require.NoError(rt, err, what)
						take(true, held)
					case find(owner, false) != nil:
						require.ErrorIs(rt, err, lock.ErrUpgrade, what)
					case others(owner, false):
						require.ErrorIs(rt, err, lock.ErrNotAcquired, what)
					default:
						require.NoError(rt, err, what)
						take(true, held)
					}
				case "rlock":
					held, err := mu.Reader().TryLock(ctx)
					if h == nil && others(owner, true) {
						require.ErrorIs(rt, err, lock.ErrNotAcquired, what)
					} else {
						require.NoError(rt, err, what)
						take(false, held)
					}
				case "unlock", "runlock":
					if h == nil {
						break
					}
					last := len(h.helds) - 1
					require.NoError(rt, h.helds[last].Unlock(bg), what)
					if h.helds = h.helds[:last]; last == 0 {
						holds = slices.DeleteFunc(holds, func(x *rwHold) bool { return x == h })
					}
				case "force":
					done, err := mu.Writer().ForceUnlock(ctx)
					require.NoError(rt, err, what)
					require.Equal(rt, len(holds) > 0, done, what)
					for _, h := range holds {
						for _, held := range h.helds {
							require.ErrorIs(rt, held.Unlock(bg), lock.ErrLost, what)
						}
					}
					holds = nil
				}
				info, err := mu.Writer().Inspect(bg)
				require.NoError(rt, err, what)
				require.Equal(rt, slices.ContainsFunc(holds, func(h *rwHold) bool { return h.writing }), info.Writing, what)
				var want, got []string
				for _, h := range holds {
					want = append(want, fmt.Sprint(h.writing, len(h.helds)))
				}
				for _, h := range info.Holders {
					got = append(got, fmt.Sprint(h.Writing, h.Count))
				}
				require.ElementsMatch(rt, want, got, what)
			}
			for _, h := range holds {
				for _, held := range h.helds {
					require.NoError(rt, held.Unlock(bg))
				}
			}
		}
	})
}

// rwOp is one call of a history: it takes, or gives back, for reading or for
// writing.
type rwOp struct {
	take, writing bool
}

// rwState is what holds the lock: so many readers, or -1 for a writer.
var rwModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		n, in, ok := state.(int), input.(rwOp), output.(bool)
		switch {
		case !in.take && in.writing:
			return n == -1, 0
		case !in.take:
			return n > 0, n - 1
		case in.writing && ok:
			return n == 0, -1
		case in.writing:
			return n != 0, n
		case ok:
			return n >= 0, n + 1
		}
		return n == -1, n
	},
}

func TestRWMutexHistoriesAreLinearizable(t *testing.T) {
	s := onRedis(t)
	bg := bounded.Context(t)
	key := keyOf(t)
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	note := func(client int, began time.Duration, in rwOp, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: client, Input: in, Call: int64(began), Output: ok, Return: int64(time.Since(start)),
		})
	}
	var wg sync.WaitGroup
	for g := range 8 {
		c := fixture.ClientOf(t, s, lock.Config{ReadersFirst: g%2 == 0})
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(g)))
			for range 60 {
				in := rwOp{take: true, writing: rng.IntN(3) == 0}
				try := c.RWMutex(key).Reader().TryLock
				if in.writing {
					try = c.RWMutex(key).Writer().TryLock
				}
				began := time.Since(start)
				held, err := try(bg)
				if err != nil && !errors.Is(err, lock.ErrNotAcquired) {
					t.Error(err)
				}
				note(g, began, in, err == nil)
				if err == nil {
					in.take = false
					began = time.Since(start)
					if err := held.Unlock(bg); err != nil {
						t.Error(err)
					}
					note(g, began, in, true)
				}
			}
		})
	}
	bounded.Wait(t, &wg)
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(rwModel, history, 30*time.Second), "%d operations", len(history))
	end := int64(time.Since(start))
	forged := append(slices.Clone(history), // a reader and a writer at once
		porcupine.Operation{ClientId: 98, Input: rwOp{take: true}, Output: true, Call: end, Return: end + 1},
		porcupine.Operation{ClientId: 99, Input: rwOp{take: true, writing: true}, Output: true, Call: end + 2, Return: end + 3})
	require.Equal(t, porcupine.Illegal, porcupine.CheckOperationsTimeout(rwModel, forged, 30*time.Second))
}

// rwBelieved is a time in which an owner relied on its lock.
type rwBelieved struct {
	from, to time.Time
	writing  bool
}

func TestRWMutexExcludesWhenRequestsAreLostDoubledAndLate(t *testing.T) {
	s := onRedis(t)
	const lease = 500 * time.Millisecond
	for _, target := range []string{"rw_read", "rw_write", "rw_read_release", "rw_write_release", "*"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 13, lease)
			cfg := lock.Config{Lease: lease, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			ctx, key := bounded.Context(t), keyOf(t)
			var mu sync.Mutex
			var times []rwBelieved
			rely := func(held *lock.Held, writing bool, work func()) {
				from := time.Now()
				if held.Err() != nil {
					work()
					return
				}
				work()
				to := time.Now()
				if end := held.Deadline(); end.Before(to) {
					to = end
				}
				mu.Lock()
				defer mu.Unlock()
				if to.After(from) {
					times = append(times, rwBelieved{from, to, writing})
				}
			}
			end := time.Now().Add(faultTime())
			var wg sync.WaitGroup
			var clients []*lock.Client
			for i := range 2 {
				c, err := lock.New(f.Pool(), cfg)
				require.NoError(t, err)
				clients = append(clients, c)
				for j := range 4 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						for time.Now().Before(end) {
							writing := rng.IntN(3) == 0
							take := c.RWMutex(key).Reader().Lock
							if writing {
								take = c.RWMutex(key).Writer().Lock
							}
							wait, cancel := context.WithTimeout(ctx, time.Minute)
							held, err := take(wait)
							cancel()
							if err != nil {
								t.Error(err)
								continue
							}
							var inner *lock.Held
							rely(held, writing, func() {
								if rng.IntN(3) == 0 {
									wait, cancel := context.WithTimeout(ctx, lease)
									inner, _ = c.RWMutex(key).Reader().Lock(held.Context(wait))
									cancel()
								}
								if rng.IntN(8) == 0 {
									time.Sleep(time.Duration(rng.Int64N(int64(lease / 2))))
								}
							})
							unlock := func(x *lock.Held) {
								err := x.Unlock(ctx)
								for errors.Is(err, lock.ErrUnknown) { // it still counts
									err = x.Unlock(ctx)
								}
								if err != nil && !isAny(err, lock.ErrLost) {
									t.Error(err)
								}
							}
							if inner != nil && rng.IntN(2) == 0 {
								unlock(inner)
								inner = nil
							}
							unlock(held)
							if inner != nil { // a downgrade, or one more count
								rely(inner, false, func() {})
								unlock(inner)
							}
						}
					})
				}
			}
			bounded.Wait(t, &wg)
			faults := f.rest()
			slices.SortFunc(times, func(a, b rwBelieved) int { return a.from.Compare(b.from) })
			for i, a := range times {
				for _, b := range times[i+1:] {
					if !b.from.Before(a.to) {
						break
					}
					if a.writing || b.writing {
						t.Errorf("a writer and another relied on the lock for %v", a.to.Sub(b.from))
					}
				}
			}
			require.NotEmpty(t, times)
			for _, c := range clients {
				require.Zero(t, c.Stats().Held)
				require.NoError(t, c.Close(ctx))
			}
			f.stopLate(t)
			require.Eventually(t, func() bool { return len(fixture.Do(t, s, "KEYS", "*"+key+"*").([]any)) == 0 }, time.Minute, 10*time.Millisecond)
			t.Logf("%d holds, %d faults: %v", len(times), faults, f)
			require.Positive(t, faults)
		})
	}
}
