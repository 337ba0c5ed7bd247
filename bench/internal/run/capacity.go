package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/script"
)

const (
	probeTime  = time.Second
	probeLocks = 1000
)

// MeasureCapacity is how many renewals a second srv does, one script call each
// on as many connections as there are RoundTrips: what the slowest driver asks
// for. It takes about a second and leaves no key.
func MeasureCapacity(ctx context.Context, srv *redistest.Server) (float64, error) {
	pool := srv.Pool(holders.RoundTrips)
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
	defer func() { _, _ = deleteKeys(holders.OneServer(srv), probeLocks, name, func(int) {}) }()
	var next, done atomic.Int64
	errs := make([]error, holders.RoundTrips)
	var wg sync.WaitGroup
	begun := time.Now()
	for w := range errs {
		wg.Go(func() {
			conn := pool.Get()
			defer conn.Close()
			for time.Since(begun) < probeTime && ctx.Err() == nil && errs[w] == nil {
				i := int(next.Add(1)) % probeLocks
				var gone []int
				gone, errs[w] = redis.Ints(holders.Eval(conn, holders.IOTimeout, script.Renew, []any{nil, 1, name(i), 60_000, "", field}))
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
