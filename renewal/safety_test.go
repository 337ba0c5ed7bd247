package renewal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// grant is a lease of a keeper, which is a watchdog or a broken twin.
type grant interface {
	Valid() bool
	Release() bool
}

// keeper holds leases. It is a watchdog, or a twin that breaks the one rule of doc.go on purpose.
type keeper interface {
	// hold takes a key that the store granted to a request begun at stamp, and
	// tells owner when the lease is lost. hold may refuse.
	hold(owner renewal.Owner, key int, stamp time.Time, ttl time.Duration) (grant, bool)
	// disturb calls a random method that does not change the trust of the grant.
	disturb(rng *rand.Rand, g grant)
	close()
}

// kept is a key that the checker watches, and the owner of its lease.
type kept struct {
	s      *store
	key    int
	g      grant
	told   atomic.Int32
	spared atomic.Int64
	reason atomic.Int32
}

func (k *kept) Lost(r renewal.Reason) {
	k.spared.Store(int64(k.s.timeLeft(k.key)))
	k.reason.Store(int32(r))
	k.told.Add(1)
}

// outcome sums up schedules.
type outcome struct {
	schedules, faults, told int
	violations              []string
}

// schedule runs one random schedule of faults against a keeper, within a
// bubble, and records every breach of the one rule: a holder believes that it
// has a lease that has expired in the store, or is told of the loss only after
// the lease has expired, or is told twice.
func (o *outcome) schedule(t *testing.T, seed uint64, newKeeper func(*testing.T, *store, time.Duration, *rand.Rand) keeper) {
	rng := rand.New(rand.NewPCG(seed, 7))
	ttl := []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second}[rng.IntN(3)]
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	s := &store{}
	network := rand.New(rand.NewPCG(seed, 8))
	outage := time.Now()
	s.fault = func() fault { // called under the store's lock
		upTo := func(d time.Duration) time.Duration { return time.Duration(network.Int64N(int64(d))) }
		switch now := time.Now(); {
		case now.Before(outage):
			o.faults++
			return fault{drop: true, dial: upTo(ttl / 20)}
		case network.IntN(60) == 0:
			outage = now.Add(upTo(2 * ttl))
			fallthrough
		case network.IntN(3) == 0:
			o.faults++
			return fault{
				dial:   upTo(ttl/2) * time.Duration(network.IntN(2)),
				before: upTo(ttl * 3 / 2), after: upTo(ttl * 3 / 2),
				drop: network.IntN(4) == 0, mute: network.IntN(4) == 0, repeat: network.IntN(4) == 0,
			}
		}
		return fault{}
	}
	keep := newKeeper(t, s, ttl, rng)
	violation := func(format string, args ...any) {
		o.violations = append(o.violations, fmt.Sprintf("seed %d: ", seed)+fmt.Sprintf(format, args...))
	}
	// take acquires a key as slowly as the network likes.
	take := func() *kept {
		for {
			stamp, late := time.Now(), time.Duration(0)
			if rng.IntN(4) == 0 {
				late = upTo(ttl / 4)
			}
			k := &kept{s: s, key: s.put(ttl)}
			time.Sleep(late)
			g, ok := keep.hold(k, k.key, stamp, ttl)
			if k.g = g; ok {
				return k
			}
		}
	}
	keys := make([]*kept, 20)
	for i := range keys {
		keys[i] = take()
	}
	for end := time.Now().Add(10 * ttl); time.Now().Before(end); time.Sleep(upTo(ttl / 25)) {
		for i, k := range keys {
			if k.g.Valid() {
				if left := s.timeLeft(k.key); left <= 0 {
					violation("valid %v after the store's expiry", -left)
				}
			}
			switch rng.IntN(400) {
			case 0, 1:
				k.g.Release()
				keys[i] = take()
			case 2:
				keep.disturb(rng, k.g)
			}
			if n := k.told.Load(); n > 0 {
				o.told++
				if n > 1 {
					violation("told %d times", n)
				}
				if spared := time.Duration(k.spared.Load()); spared <= 0 {
					violation("told %v, %v after the store's expiry", renewal.Reason(k.reason.Load()), -spared)
				}
				keys[i] = take()
			}
		}
	}
	keep.close()
	time.Sleep(10 * ttl) // the store's stragglers
	o.schedules++
}

// run runs schedules, from seed 0 on, until enough returns true.
func (o *outcome) run(t *testing.T, enough func() bool, newKeeper func(*testing.T, *store, time.Duration, *rand.Rand) keeper) {
	for seed := uint64(0); !enough(); seed++ {
		synctest.Test(t, func(t *testing.T) { o.schedule(t, seed, newKeeper) })
	}
}

// watchdogs keeps leases with this package: two lanes to the same store.
type watchdogs struct {
	w     *renewal.Watchdog
	lanes []*renewal.Lane
	stamp func(time.Time) time.Time
}

// newWatchdogs returns how to make watchdogs whose Renewer is wrapped.
func newWatchdogs(cfg renewal.Config, wrap func(*store) renewal.Renewer) func(*testing.T, *store, time.Duration, *rand.Rand) keeper {
	return func(t *testing.T, s *store, ttl time.Duration, rng *rand.Rand) keeper {
		cfg.TTL = ttl
		w, err := renewal.New(cfg)
		require.NoError(t, err)
		k := &watchdogs{w: w, stamp: func(t time.Time) time.Time { return t }}
		for range 2 {
			ln, err := w.Lane("", &boundedRenewer{Renewer: wrap(s), after: ttl / time.Duration(1+rng.IntN(10))})
			require.NoError(t, err)
			k.lanes = append(k.lanes, ln)
		}
		return k
	}
}

func (k *watchdogs) hold(owner renewal.Owner, key int, stamp time.Time, ttl time.Duration) (grant, bool) {
	h := &leaseOf{Owner: owner}
	h.key = key
	err := k.lanes[key%2].Hold(&h.lease, h, renewal.Terms{Stamp: k.stamp(stamp), TTL: ttl, Fixed: key%8 == 0})
	return &h.lease, err == nil
}

func (k *watchdogs) disturb(rng *rand.Rand, g grant) {
	l := g.(*renewal.Lease)
	switch rng.IntN(3) {
	case 0:
		l.Move(k.lanes[rng.IntN(2)])
	case 1:
		l.SetFixed(true)
	case 2:
		l.SetFixed(false)
	}
}

func (k *watchdogs) close() { k.w.Close() }

// leaseOf is an owner whose loss is told to the checker.
type leaseOf struct {
	holder
	renewal.Owner
}

func (l *leaseOf) Lost(r renewal.Reason) { l.Owner.Lost(r) }

func TestHolderIsToldBeforeTheStoresExpiry(t *testing.T) {
	t.Parallel()
	schedules := 150
	switch {
	case testing.Short():
		schedules = 60
	case os.Getenv("WHEELLOCK_STATES") != "":
		schedules = 400
	}
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			var o outcome
			o.run(t, func() bool { return o.schedules == schedules || len(o.violations) > 0 },
				newWatchdogs(c.cfg, func(s *store) renewal.Renewer { return keyed{s} }))
			t.Logf("%d schedules, %d faults injected, %d losses told", o.schedules, o.faults, o.told)
			require.Empty(t, o.violations)
			require.Greater(t, o.faults, 10*schedules)
			require.Greater(t, o.told, schedules)
		})
	}
}

// keyed is a Renewer over the store, for owners that are not of the type holder.
type keyed struct{ *store }

func (k keyed) Renew(ctx context.Context, b *renewal.Batch) { k.renew(ctx, b, keyOfLease) }

func keyOfLease(o renewal.Owner) int { return o.(*leaseOf).key }

// TestBrokenTwinsAreRefuted gives the checker broken twins, which it must refuse.
func TestBrokenTwinsAreRefuted(t *testing.T) {
	twins := map[string]func(*testing.T, *store, time.Duration, *rand.Rand) keeper{
		"trust counts from the reply of a renewal": newWatchdogs(renewal.Config{}, func(s *store) renewal.Renewer { return replyStamped{s} }),
		"trust counts from the reply of the acquisition": func(t *testing.T, s *store, ttl time.Duration, rng *rand.Rand) keeper {
			k := newWatchdogs(renewal.Config{}, func(s *store) renewal.Renewer { return keyed{s} })(t, s, ttl, rng)
			k.(*watchdogs).stamp = func(time.Time) time.Time { return time.Now() }
			return k
		},
		"loss is told by I/O only": newNaive,
	}
	for name, twin := range twins {
		t.Run(name, func(t *testing.T) {
			var o outcome
			o.run(t, func() bool { return o.schedules == 300 || len(o.violations) > 0 }, twin)
			t.Logf("refuted after %d schedules and %d faults", o.schedules, o.faults)
			require.NotEmpty(t, o.violations)
			t.Log(o.violations[0])
		})
	}
}

// replyStamped makes the round trip before it calls Send, so stamps are too late.
type replyStamped struct{ *store }

func (r replyStamped) Renew(ctx context.Context, b *renewal.Batch) {
	keys := make([]int, b.Len())
	for i := range keys {
		keys[i] = keyOfLease(b.Owner(i))
	}
	r.mu.Lock()
	f := r.fault()
	r.mu.Unlock()
	time.Sleep(f.dial)
	gone, err := r.roundTrip(ctx, f, keys, b.TTL())
	if err != nil {
		b.Fail(err)
		return
	}
	live, _ := b.Send(func([]int, time.Time) error { return nil })
	for _, i := range live {
		b.Renewed(i)
	}
	for _, i := range gone {
		b.Lost(i)
	}
}

// naive is a goroutine per lease that renews and waits for the answer, as most
// lock libraries do. Its trust is right, but nothing enforces it while it waits.
type naive struct {
	s       *store
	timeout time.Duration
	stop    context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

type naiveLease struct {
	mu    sync.Mutex
	ended bool
}

func newNaive(_ *testing.T, s *store, ttl time.Duration, _ *rand.Rand) keeper {
	n := &naive{s: s, timeout: ttl / 2}
	n.stop, n.cancel = context.WithCancel(context.Background())
	return n
}

func (n *naive) hold(owner renewal.Owner, key int, stamp time.Time, ttl time.Duration) (grant, bool) {
	l := &naiveLease{}
	trust := stamp.Add(ttl - ttl/10)
	n.wg.Go(func() {
		for l.Valid() && n.stop.Err() == nil {
			select {
			case <-time.After(ttl / 3):
			case <-n.stop.Done():
				return
			}
			sent := time.Now()
			ctx, cancel := context.WithTimeout(n.stop, n.timeout)
			n.s.mu.Lock()
			f := n.s.fault()
			n.s.mu.Unlock()
			gone, err := n.s.roundTrip(ctx, f, []int{key}, ttl)
			cancel()
			if err == nil && len(gone) == 0 {
				trust = sent.Add(ttl - ttl/10)
			}
			if (len(gone) > 0 || !time.Now().Before(trust)) && l.Release() {
				owner.Lost(renewal.TrustEnded)
			}
		}
	})
	return l, true
}

func (n *naive) disturb(*rand.Rand, grant) {}

func (n *naive) close() {
	n.cancel()
	n.wg.Wait()
}

func (l *naiveLease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended
}

func (l *naiveLease) Release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := !l.ended
	l.ended = true
	return was
}

// TestWhoeverAsksALeaseIsToldByTheClock: Expire tells the caller and the owner, once, with the
// reason that the watchdog would give at its next tick.
func TestWhoeverAsksALeaseIsToldByTheClock(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = 45 * time.Second
		s := &store{}
		w, ln := newLane(t, s, cfg)
		time.Sleep(1_237 * time.Microsecond) // off the ticks
		for _, tc := range []struct {
			opts   renewal.Terms
			reason renewal.Reason
		}{{fixedFor(10 * time.Second), renewal.Expired}, {renewedFor(30 * time.Second), renewal.MaxHold}} {
			h := s.hold(t, ln, tc.opts)
			_, lost := h.lease.Expire()
			require.False(t, lost)
			require.True(t, h.lease.Valid())
			for h.lease.Valid() {
				time.Sleep(time.Until(h.lease.Deadline()))
			}
			require.Empty(t, h.reasons(), "the watchdog was first: the test shows nothing")
			for range 2 {
				reason, lost := h.lease.Expire()
				require.True(t, lost)
				require.Equal(t, tc.reason, reason)
				require.Equal(t, []renewal.Reason{tc.reason}, h.reasons())
			}
			time.Sleep(time.Minute)
			require.Equal(t, []renewal.Reason{tc.reason}, h.reasons())
			require.Equal(t, 1, w.Stats().Lost[tc.reason])
		}
		released := s.hold(t, ln, fixedFor(10*time.Second))
		require.True(t, released.lease.Release())
		_, lost := released.lease.Expire()
		require.False(t, lost)
		_, lost = new(renewal.Lease).Expire()
		require.False(t, lost)
	})
}
