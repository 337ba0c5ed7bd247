package world_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// blackHole is a network that can drop data silently, as a firewall does. A connection that has
// lost bytes gives no more answers.
type blackHole struct {
	mu    sync.Mutex    // guards what follows
	delay time.Duration // of each answer
	until time.Time     // nothing passes before this time
	since time.Time     // connections made before this are dead for good
	dials []time.Time   // when each began
}

// openFor makes a black hole of the network for d.
func (h *blackHole) openFor(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Now().Add(d)
}

// killConnections makes a black hole of every open connection, for good. New ones work.
func (h *blackHole) killConnections() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.dials = time.Now(), nil
}

func (h *blackHole) isDead(made time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.until) || made.Before(h.since)
}

// delayAnswers makes every answer take d. It also forgets the dials so far.
func (h *blackHole) delayAnswers(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delay, h.dials = d, nil
}

func (h *blackHole) answerDelay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.delay
}

func (h *blackHole) dialTimes() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.dials)
}

// pool returns a pool that dials s across h.
func (h *blackHole) pool(s *redistest.Server) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		h.mu.Lock()
		h.dials = append(h.dials, time.Now())
		h.mu.Unlock()
		if h.isDead(time.Now()) {
			<-ctx.Done() // the dial gets no answer
			return nil, ctx.Err()
		}
		conn, err := s.DialContext(ctx, redis.DialReadTimeout(0), redis.DialWriteTimeout(0))
		if err != nil {
			return nil, err
		}
		return &holeConn{Conn: conn, h: h, made: time.Now(), closed: make(chan struct{})}, nil
	}}
}

// holeConn is a connection across a hole, cut between requests.
type holeConn struct {
	redis.Conn
	h    *blackHole
	made time.Time

	mu      sync.Mutex // guards what follows
	pending [][]any    // sent but not flushed
	flushed time.Time
	lost    bool
	shut    bool
	closed  chan struct{}
}

func (c *holeConn) Close() error {
	c.mu.Lock()
	if !c.shut {
		c.shut = true
		close(c.closed)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *holeConn) Send(cmd string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := append([]any{cmd}, args...)
	for i, arg := range p { // the caller may reuse its buffers after Send
		if b, ok := arg.([]byte); ok {
			p[i] = bytes.Clone(b)
		}
	}
	c.pending = append(c.pending, p)
	return nil
}

func (c *holeConn) Flush() error {
	c.mu.Lock()
	pending := c.pending
	c.pending, c.flushed = nil, time.Now()
	c.lost = c.lost || c.h.isDead(c.made)
	lost := c.lost
	c.mu.Unlock()
	if lost {
		return nil
	}
	for _, p := range pending {
		if err := c.Conn.Send(p[0].(string), p[1:]...); err != nil {
			return err
		}
	}
	return c.Conn.Flush()
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

func (c *holeConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	c.mu.Lock()
	lost, flushed := c.lost, c.flushed
	c.mu.Unlock()
	if lost {
		var expired <-chan time.Time
		if d > 0 {
			expired = time.After(d)
		}
		select {
		case <-expired:
			return nil, timeoutError{}
		case <-c.closed:
			return nil, errors.New("use of closed connection")
		}
	}
	reply, err := redis.ReceiveWithTimeout(c.Conn, d)
	time.Sleep(time.Until(flushed.Add(c.h.answerDelay())))
	return reply, err
}

func (c *holeConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	if err := c.Send(cmd, args...); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return c.ReceiveWithTimeout(d)
}

// inVirtual runs f in virtual time, with n held locks of a client behind a blackHole.
func inVirtual(t *testing.T, n int, cfg lock.Config, f func(*testing.T, *blackHole, *redistest.Server, *lock.Client, []*lock.Held)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := redistest.StartVirtual(redistest.MiniOptions{Resolution: 10 * time.Millisecond})
		require.NoError(t, err)
		h := &blackHole{}
		c, err := lock.New(h.pool(s), cfg)
		require.NoError(t, err)
		defer func() {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = c.Close(over)
			require.NoError(t, s.Stop())
		}()
		ctx := context.Background()
		helds := make([]*lock.Held, n)
		for i := range helds {
			helds[i], err = c.Mutex(fmt.Sprint("lock ", i)).Lock(ctx)
			require.NoError(t, err)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 3*time.Millisecond)))
		f(t, h, s, c, helds)
	})
}

func TestABlackHoleOfHalfTheLeaseAndMoreLosesNoLock(t *testing.T) {
	rounds := 15 // in each round the hole begins at another point of the renewals
	if fixture.IsBrief() {
		rounds = 3
	}
	for _, cfg := range []lock.Config{
		{},
		{IOTimeout: 3 * time.Second}, // a tenth of the lease: the longest
		{Lease: time.Second},         // the default IOTimeout is also a tenth of the lease
	} {
		t.Run(fmt.Sprintf("lease=%v timeout=%v", cfg.Lease, cfg.IOTimeout), func(t *testing.T) {
			cfg.MaxBatch = 50
			inVirtual(t, 300, cfg, func(t *testing.T, h *blackHole, s *redistest.Server, c *lock.Client, helds []*lock.Held) {
				lease := cfg.Lease
				if cfg.Lease == 0 {
					lease = lock.DefaultLease
				}
				for i := range rounds {
					time.Sleep(lease + lease*time.Duration(i)/150)
					h.openFor(lease * 55 / 100)
					time.Sleep(lease)
				}
				require.Empty(t, c.Stats().Renewal.Lost)
				conn, err := s.Dial()
				require.NoError(t, err)
				defer conn.Close()
				for _, held := range helds {
					require.True(t, held.Valid())
					ttl, err := redis.Int64(conn.Do("PTTL", held.Name()))
					require.NoError(t, err)
					require.Greater(t, ttl, time.Until(held.Deadline()).Milliseconds())
				}
			})
		})
	}
}

// TestInABlackHoleTheNextDialIsNeverFar: a dial that begins in the hole fails, even if the hole ends soon
// after, so the next dial must come soon. While an answer is late, a hedge dials another connection. The
// next hedge begins a thirtieth of the lease later.
func TestInABlackHoleTheNextDialIsNeverFar(t *testing.T) {
	inVirtual(t, 300, lock.Config{MaxBatch: 50}, func(t *testing.T, h *blackHole, _ *redistest.Server, _ *lock.Client, _ []*lock.Held) {
		time.Sleep(time.Minute)
		h.openFor(18 * time.Second)
		time.Sleep(18 * time.Second)
		dials := h.dialTimes()
		dials = dials[slices.IndexFunc(dials, func(at time.Time) bool { return time.Since(at) < 18*time.Second }):]
		require.Greater(t, len(dials), 10)
		for i := range dials[1:] {
			require.LessOrEqual(t, dials[i+1].Sub(dials[i]), lock.DefaultLease/30+20*time.Millisecond, "dials: %v", dials)
		}
		require.LessOrEqual(t, len(dials), 40, "and each is one more connection for the server")
	})
}

// TestRenewalDoesNotWaitForADeadConnection: all connections die silently, but new ones work. The next
// renewal is late by the wait before a hedge, a thirtieth of the lease, and not by IOTimeout.
func TestRenewalDoesNotWaitForADeadConnection(t *testing.T) {
	inVirtual(t, 1000, lock.Config{IOTimeout: 3 * time.Second}, func(t *testing.T, h *blackHole, _ *redistest.Server, c *lock.Client, helds []*lock.Held) {
		time.Sleep(time.Minute)
		before := c.Stats().Renewal
		h.killConnections()
		time.Sleep(time.Minute)
		st := c.Stats().Renewal.Since(before)
		require.Empty(t, st.Lost)
		require.Zero(t, st.Retried, "the batches that waited went on over the new connection")
		require.Greater(t, st.Late.Max, 890*time.Millisecond)
		require.Less(t, st.Late.Max, 1200*time.Millisecond)
		require.LessOrEqual(t, len(h.dialTimes()), 5, "a probe, and connections as before")
		require.Len(t, helds, 1000)
	})
}

// TestASlowLinkIsNotProbed: if all answers take longer than a thirtieth of the lease, the client learns
// that, and dials no hedges.
func TestASlowLinkIsNotProbed(t *testing.T) {
	fixture.SkipSlow(t)
	inVirtual(t, 100, lock.Config{Lease: 3 * time.Second}, func(t *testing.T, h *blackHole, _ *redistest.Server, c *lock.Client, _ []*lock.Held) {
		h.delayAnswers(150 * time.Millisecond)
		time.Sleep(10 * time.Second) // the client learns how slow answers are
		h.delayAnswers(150 * time.Millisecond)
		time.Sleep(10 * time.Minute)
		require.Empty(t, h.dialTimes())
		require.Empty(t, c.Stats().Renewal.Lost)
		require.Zero(t, c.Stats().Renewal.Retried)
	})
}

func TestALongBlackHoleIsToldOnceAndNewLocksRenew(t *testing.T) {
	inVirtual(t, 200, lock.Config{}, func(t *testing.T, h *blackHole, _ *redistest.Server, c *lock.Client, helds []*lock.Held) {
		time.Sleep(time.Minute)
		h.openFor(time.Minute)
		for _, held := range helds {
			fixture.RequireLost(t, held, lock.TrustEnded)
		}
		time.Sleep(time.Minute)
		require.Zero(t, c.Stats().Held)
		fresh, err := c.Mutex("fresh").Lock(context.Background())
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.True(t, fresh.Valid())
	})
}
