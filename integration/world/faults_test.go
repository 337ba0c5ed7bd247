package world_test

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

// faults makes a third of the calls of one script fail, at random, until stop is called.
type faults struct {
	target string // immutable: the script

	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	stopped bool
}

func newFaults(target string) *faults {
	return &faults{target: target, rng: rand.New(rand.NewPCG(1, uint64(len(target))))}
}

// decide is the Decide function of a proxy. The holders' lease is faultyLease.
func (f *faults) decide(c faultproxy.Command) faultproxy.Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || c.Script != f.target || f.rng.IntN(3) > 0 {
		return faultproxy.Pass
	}
	all := []faultproxy.Fate{
		faultproxy.LoseRequest, faultproxy.LoseReply, faultproxy.Twice, faultproxy.AfterThree,
		faultproxy.Late(faultyLease * 5 / 4), // by then the lease would have expired
	}
	return all[f.rng.IntN(len(all))]
}

// stop ends the faults.
func (f *faults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

const faultyLease = 600 * time.Millisecond

// reliance is a time in which a holder relied on its lock.
type reliance struct {
	from, to time.Time
	who      string
	token    int64
}

// ledger collects the times in which the holders of one lock relied on it.
type ledger struct {
	mu    sync.Mutex
	times []reliance
}

func (l *ledger) add(b reliance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.to.After(b.from) {
		l.times = append(l.times, b)
	}
}

// check fails the test if two holders relied on the lock at once, or if a
// later one has a lower token.
func (l *ledger) check(t *testing.T) {
	slices.SortFunc(l.times, func(a, b reliance) int { return a.from.Compare(b.from) })
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
		return // it was already lost
	default:
	}
	token := held.Token()
	work()
	to := time.Now()
	if end := held.Deadline(); end.Before(to) {
		to = end
	}
	l.add(reliance{from, to, who, token})
}

// TestExactWhenRequestsAreLostDoubledLateAndReordered runs owners of two
// clients against each other, while each script in turn meets each fault.
func TestExactWhenRequestsAreLostDoubledLateAndReordered(t *testing.T) {
	s := onRedis(t)
	for _, target := range []string{"acquire", "reenter", "renew", "handoff", "release"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaults(target)
			p := fixture.Proxy(t, s, f.decide)
			cfg := lock.Config{Lease: faultyLease, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			var l ledger
			ctx := bounded.Context(t)
			lasts := 2500 * time.Millisecond
			if testing.Short() {
				lasts = time.Second
			}
			var clients []*lock.Client
			for range 2 {
				c, err := lock.New(p.Pool(), cfg)
				require.NoError(t, err)
				clients = append(clients, c)
			}
			// A busy machine may have no fault in that time, and only the last one to unlock sends a release.
			for faults := 0; faults == 0; faults, _ = p.Faults() {
				end := time.Now().Add(lasts)
				var wg sync.WaitGroup
				for i, c := range clients {
					for j := range 3 {
						wg.Go(func() {
							rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
							for n := 0; time.Now().Before(end); n++ {
								who := fmt.Sprintf("%d.%d.%d", i, j, n)
								if err := oneRound(ctx, c, t.Name(), who, rng, &l); err != nil {
									t.Errorf("%s: %v", who, err)
								}
							}
						})
					}
				}
				bounded.Wait(t, &wg)
			}
			f.stop()
			faults, of := p.Faults()
			l.check(t)
			require.NotEmpty(t, l.times)
			for _, c := range clients {
				require.Zero(t, c.Stats().Held)
				require.NoError(t, c.Close(ctx))
			}
			// No orphan outlives its TTL. A late request may still take the lock
			// once more, for a lease.
			fixture.AwaitGone(t, s, t.Name())
			t.Logf("%d holds, %d faults: %v", len(l.times), faults, of)
			require.Positive(t, faults)
		})
	}
}

// oneRound locks, re-enters now and then, and unlocks. It returns an error that a
// user must not see.
func oneRound(ctx context.Context, c *lock.Client, name, who string, rng *rand.Rand, l *ledger) error {
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
			time.Sleep(time.Duration(rng.Int64N(int64(faultyLease))))
		}
	})
	for _, h := range []*lock.Held{inner, held} {
		if h == nil {
			continue
		}
		err := h.Unlock(ctx)
		for h == inner && errors.Is(err, lock.ErrUnknown) {
			err = h.Unlock(ctx) // otherwise it still counts, and the outer Unlock would not be the last
		}
		if err != nil && !fixture.IsAny(err, lock.ErrLost, lock.ErrUnknown) {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}
