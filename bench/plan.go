package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/script"
)

const (
	defaultLease = 3 * time.Second
	// usualCapacity is how many renewals a second, one round trip each, a
	// server and its client reach on two cores of a usual machine.
	usualCapacity = 90_000
	share         = 3 // the part of the capacity, one in so many, that a default load may need
)

// plan is what will be measured.
type plan struct {
	drivers  []driver
	locks    []int
	lease    time.Duration
	duration time.Duration
	watch    time.Duration // how long the server's CPU is sampled after the hold; 0: not at all
	notes    []string      // lines for the header
}

// watchOf is how long the server's CPU is sampled in a row with so many locks:
// only those of the largest number are drawn.
func (p plan) watchOf(locks int) time.Duration {
	if locks < maxOf(p.locks) {
		return 0
	}
	return p.watch
}

// choose fills in what the options leave open, so that a round trip for each
// renewal needs at most a share of the capacity, which is renewals a second.
// measured says that it was measured, and that default counts are cut by it.
func choose(o options, capacity float64, measured bool) (plan, error) {
	p := plan{drivers: o.drivers, locks: o.locks, lease: o.lease, duration: o.duration}
	budget := capacity / share
	if p.lease == 0 {
		p.lease = defaultLease
		if most := float64(maxOf(p.locks)); most > 0 {
			needed := time.Duration(3 * most / budget * float64(time.Second))
			p.lease = max(p.lease, (needed + time.Second - 1).Truncate(time.Second))
		}
		if p.duration != 0 {
			p.lease = min(p.lease, p.duration.Truncate(time.Millisecond))
		}
	}
	if p.duration == 0 {
		p.duration = p.lease / 3 * 5
	}
	if p.duration < p.lease {
		return p, usagef("-duration is %v: it must be at least the lease, %v, or locks that nobody renews would look held", p.duration, p.lease)
	}
	if p.locks == nil {
		p.locks = []int{1000, 10_000}
		fits := roundDown(budget * p.lease.Seconds() / 3)
		if measured && fits < p.locks[1] {
			p.locks = []int{max(fits/10, 1), max(fits, 2)}
		}
	}
	if needed := float64(maxOf(p.locks)) * 3 / p.lease.Seconds(); needed > budget*1.01 {
		what := fmt.Sprintf("about %.0f that Redis usually does", capacity)
		if measured {
			what = fmt.Sprintf("%.0f that this Redis does", capacity)
		}
		p.notes = append(p.notes, fmt.Sprintf("note: %d locks need %.0f renewals/s; one by one that is more than a third of the %s, so rows can be those of an overload",
			maxOf(p.locks), needed, what))
	}
	return p, nil
}

func maxOf(counts []int) int {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}

// roundDown is the largest 1, 2 or 5 with zeros that is at most x; 1 at least.
func roundDown(x float64) int {
	for n := maxLocks; n > 1; n /= 10 {
		for _, d := range []int{1, 2, 5} {
			if c := n / d; float64(c) <= x && c > 0 {
				return c
			}
		}
	}
	return 1
}

const (
	probeTime  = time.Second
	probeLocks = 1000
)

// measureCapacity is how many renewals a second srv does, one script call each
// on 64 connections: what the slowest driver asks for.
func measureCapacity(ctx context.Context, srv *redistest.Server) (float64, error) {
	pool := srv.Pool(oneByOne)
	defer pool.Close()
	name := func(i int) string { return fmt.Sprintf("wheellock:bench:probe:%d", i) }
	const field = "probe"
	setup := pool.Get()
	defer setup.Close()
	for i := range probeLocks {
		if _, err := setup.Do("HSET", name(i), field, 1); err != nil {
			return 0, fmt.Errorf("bench: measuring the capacity: %w", err)
		}
	}
	defer func() { _, _ = deleteKeys(srv, probeLocks, name, func(int) {}) }()
	var next, done atomic.Int64
	errs := make([]error, oneByOne)
	var wg sync.WaitGroup
	begun := time.Now()
	for w := range errs {
		wg.Go(func() {
			conn := pool.Get()
			defer conn.Close()
			for time.Since(begun) < probeTime && ctx.Err() == nil && errs[w] == nil {
				i := int(next.Add(1)) % probeLocks
				var gone []int
				gone, errs[w] = redis.Ints(eval(conn, ioTimeout, script.Renew, []any{nil, 1, name(i), 60_000, "", field}))
				if errs[w] == nil && len(gone) == 0 {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("bench: measuring the capacity: %w", err)
	}
	if done.Load() == 0 {
		return 0, errors.New("bench: measuring the capacity: nothing was renewed")
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), nil
}
