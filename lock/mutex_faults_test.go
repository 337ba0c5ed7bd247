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

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// faults are what befalls scripts in tests that choose at random.
type faults struct {
	// immutable
	target string // the script; "*" is any but uptime
	oneIn  int    // so many of its calls
	all    []faultproxy.Fate

	mu   sync.Mutex // guards what follows
	rng  *rand.Rand
	calm bool
}

func newFaults(target string, oneIn int, seed uint64, lease time.Duration) *faults {
	return &faults{
		target: target, oneIn: oneIn, rng: rand.New(rand.NewPCG(seed, uint64(len(target)))),
		all: []faultproxy.Fate{
			faultproxy.LoseRequest, faultproxy.LoseReply, faultproxy.Twice, faultproxy.AfterThree,
			faultproxy.Late(lease * 5 / 4), // its lease would have expired
		},
	}
}

func (f *faults) decide(c faultproxy.Command) faultproxy.Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	hit := c.Script == f.target || f.target == "*" && c.Script != "" && c.Script != "uptime"
	if f.calm || !hit || f.rng.IntN(f.oneIn) > 0 {
		return faultproxy.Pass
	}
	return f.all[f.rng.IntN(len(f.all))]
}

// end ends them.
func (f *faults) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calm = true
}

// faulty is a proxy that does something else to a third of the calls of one
// script, or of all ("*"), until it rests.
type faulty struct {
	*faultproxy.Proxy
	faults *faults
}

func newFaulty(t *testing.T, target string, seed uint64, lease time.Duration) *faulty {
	f := newFaults(target, 3, seed, lease)
	return &faulty{fixture.Proxy(t, onRedis(t), f.decide), f}
}

// rest ends the faults, and returns how many there were.
func (f *faulty) rest() int {
	f.faults.end()
	n, _ := f.Faults()
	return n
}

// stopLate sends what is still to be sent late. No client may use f any more.
func (f *faulty) stopLate(t *testing.T) {
	t.Helper()
	bounded.Until(t, f.SendLate)
}

// String is what befell the scripts.
func (f *faulty) String() string {
	_, of := f.Faults()
	return fmt.Sprint(of)
}

// faultTime is how long a fault schedule runs.
func faultTime() time.Duration {
	if testing.Short() {
		return 700 * time.Millisecond
	}
	return 1200 * time.Millisecond
}

// believed is a time in which a holder relied on its lock.
type believed struct {
	from, to time.Time
	who      string
	token    int64
}

// ledger collects the times of one lock.
type ledger struct {
	mu    sync.Mutex
	times []believed
}

func (l *ledger) add(b believed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.to.After(b.from) {
		l.times = append(l.times, b)
	}
}

// check fails the test if two holders relied on the lock at once, or if a
// later one has a lower token.
func (l *ledger) check(t *testing.T) {
	slices.SortFunc(l.times, func(a, b believed) int { return a.from.Compare(b.from) })
	for i := 1; i < len(l.times); i++ {
		a, b := l.times[i-1], l.times[i]
		if b.from.Before(a.to) {
			t.Errorf("%s and %s both relied on the lock for %v", a.who, b.who, a.to.Sub(b.from))
		}
		if b.token <= a.token {
			t.Errorf("token %d after %d", b.token, a.token)
		}
	}
}

// rely notes the time in which held is relied on, around work.
func (l *ledger) rely(held *lock.Held, who string, work func()) {
	from := time.Now()
	select {
	case <-held.Done():
		return // it was lost on its way here
	default:
	}
	token := held.Token()
	work()
	to := time.Now()
	if end := held.Deadline(); end.Before(to) {
		to = end
	}
	l.add(believed{from, to, who, token})
}

// TestExactWhenRequestsAreLostDoubledLateAndReordered runs owners of two
// clients against each other, while each script in turn meets each fault.
func TestExactWhenRequestsAreLostDoubledLateAndReordered(t *testing.T) {
	s := onRedis(t)
	const lease = 600 * time.Millisecond
	for _, target := range []string{"acquire", "reenter", "renew", "handoff", "release"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 1, lease)
			cfg := lock.Config{Lease: lease, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			var l ledger
			ctx := bounded.Context(t)
			end := time.Now().Add(2500 * time.Millisecond)
			if testing.Short() {
				end = time.Now().Add(time.Second)
			}
			var wg sync.WaitGroup
			var clients []*lock.Client
			for i := range 2 {
				c, err := lock.New(f.Pool(), cfg)
				require.NoError(t, err)
				clients = append(clients, c)
				for j := range 3 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						for n := 0; time.Now().Before(end); n++ {
							who := fmt.Sprintf("%d.%d.%d", i, j, n)
							if err := oneRound(ctx, c, t.Name(), who, rng, lease, &l); err != nil {
								t.Errorf("%s: %v", who, err)
							}
						}
					})
				}
			}
			bounded.Wait(t, &wg)
			faults := f.rest()
			l.check(t)
			require.NotEmpty(t, l.times)
			for _, c := range clients {
				require.Zero(t, c.Stats().Held)
				require.NoError(t, c.Close(ctx))
			}
			// No orphan outlives its TTL: what is still to arrive may take the
			// lock once more, for a lease.
			fixture.AwaitGone(t, s, t.Name())
			t.Logf("%d holds, %d faults: %v", len(l.times), faults, f)
			require.Positive(t, faults)
		})
	}
}

// oneRound locks, re-enters now and then, and unlocks; it returns what a user
// must not see.
func oneRound(ctx context.Context, c *lock.Client, name, who string, rng *rand.Rand, lease time.Duration, l *ledger) error {
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	held, err := c.Mutex(name).Lock(wait)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	var inner *lock.Held
	l.rely(held, who, func() {
		if rng.IntN(3) == 0 {
			inner, _ = c.Mutex(name).Lock(held.Context(wait))
		}
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.Int64N(int64(lease))))
		}
	})
	for _, h := range []*lock.Held{inner, held} {
		if h == nil {
			continue
		}
		err := h.Unlock(ctx)
		for h == inner && errors.Is(err, lock.ErrUnknown) {
			err = h.Unlock(ctx) // else it counts, and the outer one is not the last
		}
		if err != nil && !isAny(err, lock.ErrLost, lock.ErrUnknown) {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}
