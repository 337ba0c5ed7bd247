package world_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// forNow are the answers of a server that refuses all scripts for now.
var forNow = []redis.Error{
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Errors writing to the AOF file: No space left on device",
	"@user_script: 65: -MISCONF Errors writing to the AOF file: No space left on device",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"CLUSTERDOWN The cluster is down",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"ERR max number of clients reached",
	"NOAUTH Authentication required.",
	"DENIED Redis is running in protected mode because protected mode is enabled",
}

// dialledIslands counts dials.
type dialledIslands struct {
	*fixture.Islands
	dials atomic.Int64
}

func (is *dialledIslands) Dial(ctx context.Context, server string) (redis.Conn, error) {
	is.dials.Add(1)
	return is.Islands.Dial(ctx, server)
}

// perSecond returns how many scripts the server refused in each second of f, and how often it was dialled.
func (is *dialledIslands) perSecond(f func()) (scripts, dials float64) {
	began, sent, dialled := time.Now(), is.CountRefused(), is.dials.Load()
	f()
	s := time.Since(began).Seconds()
	return float64(is.CountRefused()-sent) / s, float64(is.dials.Load()-dialled) / s
}

// onAnIsland runs f in a bubble with a client of one server.
func onAnIsland(t *testing.T, f func(t *testing.T, is *dialledIslands, c *lock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		is := &dialledIslands{Islands: fixture.NewIslands(t, "a")}
		c, err := lock.NewTopology(is, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(context.Background())
		require.ErrorIs(t, err, lock.ErrNotSent, "no server is known")
		is.AssignSlots("a")
		defer fixture.CloseNow(c)
		f(t, is, c)
		require.NoError(t, c.Close(context.Background()))
		require.Empty(t, fixture.LockKeys(t, is.Server("a")))
	})
}

// TestAServerThatRefusesForNowGetsFewRequests: at most three a second of each Lock that waits, and two of
// each hold that is lost and unlocked, over few connections. Each caller is told what the server says,
// and a caller that has left leaves nothing that is sent again. bench/BENCHMARKS.md has the table that
// -v prints.
func TestAServerThatRefusesForNowGetsFewRequests(t *testing.T) {
	const period, most = 30 * time.Second, 3 // most dials a second
	for i, said := range forNow {
		code, _, _ := strings.Cut(strings.TrimPrefix(string(said), "@user_script: 65: -"), " ")
		lasts := code == "NOAUTH" || code == "DENIED" // so a caller does not wait
		crowds, lost := []int{1, 10, 100, 300}, 3000
		if i > 0 && fixture.IsBrief() {
			crowds = crowds[:2]
		} else if testing.Short() {
			crowds, lost = crowds[:3], 300 // every caller costs the race detector milliseconds
		}
		for _, callers := range crowds {
			onAnIsland(t, func(t *testing.T, is *dialledIslands, c *lock.Client) {
				is.Refuse("a", said)
				_, err := c.Mutex("tried").TryLock(t.Context())
				require.Equal(t, !lasts, errors.Is(err, lock.ErrUnknown))
				require.ErrorContains(t, err, string(said))
				ctx, cancel := context.WithTimeout(t.Context(), period)
				defer cancel()
				errs := make([]error, callers)
				waiting, dials := is.perSecond(func() {
					var wg sync.WaitGroup
					for i := range callers {
						wg.Go(func() { _, errs[i] = c.Mutex(fmt.Sprint("m", i)).Lock(ctx) })
					}
					wg.Wait()
					<-ctx.Done()
				})
				for _, err := range errs {
					require.Equal(t, !lasts, errors.Is(err, context.DeadlineExceeded))
					require.Equal(t, !lasts, errors.Is(err, lock.ErrUnknown))
					require.ErrorContains(t, err, string(said))
				}
				left, _ := is.perSecond(func() { time.Sleep(period) })
				t.Logf("%s: %d callers: %.1f scripts/s and %.1f dials/s while they wait, %.1f scripts/s afterwards", code, callers, waiting, dials, left)
				require.LessOrEqual(t, waiting, 3*float64(callers)) // after TRYAGAIN a second script asks for a lock without a token
				require.LessOrEqual(t, dials, float64(most))
				if code != "READONLY" { // it ends its connection, so other requests may be unknown and released later
					require.Zero(t, left)
				}
				require.LessOrEqual(t, left, float64(callers))
				is.Refuse("a", "")
			})
		}
		if i > 0 && fixture.IsBrief() {
			continue
		}
		onAnIsland(t, func(t *testing.T, is *dialledIslands, c *lock.Client) {
			var helds []*lock.Held
			for i := range lost {
				held, err := c.Mutex(fmt.Sprint("m", i)).Lock(t.Context())
				require.NoError(t, err)
				helds = append(helds, held)
			}
			is.Refuse("a", said)
			renewing, dials := is.perSecond(func() {
				for _, held := range helds {
					<-held.Done()
				}
			})
			t.Logf("%s: %d holds: %.1f renewals/s and %.1f dials/s until they are lost", code, lost, renewing, dials)
			require.LessOrEqual(t, renewing, float64(lost))
			require.LessOrEqual(t, dials, float64(most))
			var wg sync.WaitGroup
			errs := make([]error, lost)
			for i, held := range helds {
				wg.Go(func() { errs[i] = held.Unlock(t.Context()) })
			}
			unlocking, dials := is.perSecond(func() { time.Sleep(period) })
			wg.Wait()
			for _, err := range errs {
				require.ErrorIs(t, err, lock.ErrLost)
				var reply redis.Error
				require.True(t, errors.As(err, &reply), "%v", err)
				require.Equal(t, said, reply)
			}
			t.Logf("%s: %d lost holds: %.1f scripts/s and %.1f dials/s", code, lost, unlocking, dials)
			require.LessOrEqual(t, unlocking, 2*float64(lost))
			require.LessOrEqual(t, dials, float64(most))
			is.Refuse("a", "")
			time.Sleep(period)
		})
	}
}

// TestRenewalGoesOnSoonAfterAServerTookNoConnections, because the pause between dials stays short.
func TestRenewalGoesOnSoonAfterAServerTookNoConnections(t *testing.T) {
	for way, dial := range map[string]func() (redis.Conn, error){
		"refuses": func() (redis.Conn, error) { return nil, errRefused },
		"closes":  closedConn,
	} {
		for _, lease := range []time.Duration{2 * time.Second, lock.DefaultLease} {
			for _, of := range []struct{ holds, fifths int }{{1, 2}, {300, 2}, {300, 3}} {
				t.Run(fmt.Sprintf("%s/lease=%v/holds=%d/fifths=%d", way, lease, of.holds, of.fifths), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := fixture.Virtual(t)
						var down atomic.Bool
						var mu sync.Mutex
						var open []redis.Conn // guarded by mu
						c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
							if down.Load() {
								return dial()
							}
							conn, err := s.DialContext(ctx)
							mu.Lock()
							defer mu.Unlock()
							open = append(open, conn)
							return conn, err
						}}, lock.Config{Lease: lease, IOTimeout: lease / 10, Dispatchers: 2})
						tries := c.TryLockMany(t.Context(), fixture.Names("", of.holds))
						synctest.Wait()
						down.Store(true)
						for _, conn := range open {
							conn.Close()
						}
						time.Sleep(lease * time.Duration(of.fifths) / 5)
						down.Store(false)
						time.Sleep(lease / 6)
						require.GreaterOrEqual(t, int(c.Stats().Renewal.Renewed), of.holds)
						for _, try := range tries {
							require.True(t, try.Held.Valid())
						}
					})
				})
			}
		}
	}
}

// TestAServerWithoutMemoryGetsFewRequests: Redis refuses a script's first write if that needs memory. The
// second try first removes what the first one may have taken, and then Redis lets it write.
func TestAServerWithoutMemoryGetsFewRequests(t *testing.T) {
	s := fixture.Server(t)
	crowds := []int{1, 10, 100, 300}
	if fixture.IsBrief() {
		crowds = crowds[1:2]
	}
	for _, callers := range crowds {
		c := fixture.ClientOf(t, s, lock.Config{})
		require.NoError(t, fixture.Hold(t, c.Mutex("before").Lock).Unlock(bounded.Context(t))) // it dials
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
		_, err := c.Mutex("tried").TryLock(bounded.Context(t))
		require.ErrorContains(t, err, "OOM command not allowed")
		fixture.Do(t, s, "CONFIG", "RESETSTAT")
		helds := fixture.LockAll(t, c, fixture.Names("m", callers))
		stats, err := s.Info("commandstats")
		require.NoError(t, err)
		var scripts int
		_, err = fmt.Sscanf(stats["cmdstat_evalsha"], "calls=%d", &scripts)
		require.NoError(t, err)
		t.Logf("OOM: %d callers: %d scripts", callers, scripts)
		require.LessOrEqual(t, scripts, 5*callers)
		fixture.Do(t, s, "CONFIG", "RESETSTAT")
		for _, name := range fixture.Names("once", callers) {
			_, err := c.Mutex(name).TryLock(bounded.Context(t))
			require.ErrorContains(t, err, "OOM command not allowed")
		}
		time.Sleep(2 * time.Second) // releases of what may still be taken would follow each other now
		stats, err = s.Info("commandstats")
		require.NoError(t, err)
		_, err = fmt.Sscanf(stats["cmdstat_evalsha"], "calls=%d", &scripts)
		require.NoError(t, err)
		t.Logf("OOM: %d tries: %d scripts", callers, scripts)
		require.LessOrEqual(t, scripts, 3*callers+10) // with renewals
		for _, held := range helds {
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
		fixture.CloseNow(c)
		require.Empty(t, fixture.LockKeys(t, s))
	}
}
