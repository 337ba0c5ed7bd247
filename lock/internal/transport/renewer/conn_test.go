package renewer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// configOf returns the Config of a Renewer with one connection, to a server that has all keys.
func configOf(timeout time.Duration, failed func(error), dial func(context.Context, *dialing.Bound) (pipe.Connection, error)) Config {
	return Config{
		Timeout: timeout, Conns: 1, Dial: dial,
		Epoch:    func() uint32 { return 0 },
		Target:   func(pipe.Redirection) *renewal.Lane { return nil },
		Answered: func(error) {}, Failed: failed, Resumed: func() {},
		Timed: func(pipe.Clock, time.Duration) {},
	}
}

// allHeld is a connection to a server that renews all leases, or refuses all with an error.
type allHeld struct {
	redis.Conn // nil, because no other method is called
	refuses    error
}

func (allHeld) Send(string, ...any) error { return nil }
func (allHeld) Flush() error              { return nil }
func (allHeld) Close() error              { return nil }

func (c allHeld) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("not of a pipeline")
}

func (c allHeld) ReceiveWithTimeout(time.Duration) (any, error) {
	if c.refuses != nil {
		return nil, c.refuses
	}
	return []any{}, nil
}

// hold is an Owner.
type hold struct{ lease renewal.Lease }

func (*hold) Lost(renewal.Reason)             {}
func (*hold) Class() Class                    { return Fields }
func (*hold) Name() string                    { return "flat" }
func (*hold) Key() string                     { return "flat" }
func (*hold) AppendFieldTail(b []byte) []byte { return append(b, ":1"...) }
func (*hold) Weight() int                     { return 1 }
func (*hold) Touch() byte                     { return 0 }
func (*hold) NeedsAsking() bool               { return false }
func (*hold) MoveTo(*renewal.Lane, bool)      {}
func (*hold) MoveIfAbsent() bool              { return false }
func (*hold) Found()                          {}

// watched sends, after each batch, the number of holds to which idle connections still refer, or -1 if
// no connection is idle.
type watched struct {
	*Renewer
	kept chan int
}

func (w watched) Renew(ctx context.Context, b *renewal.Batch) {
	w.Renewer.Renew(ctx, b)
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := 0
	if len(w.idle) == 0 {
		kept = -1
	}
	for _, c := range w.idle {
		for _, o := range c.owners[:cap(c.owners)] {
			if o != nil {
				kept++
			}
		}
	}
	select {
	case w.kept <- kept:
	default:
	}
}

func TestAnIdleConnectionKeepsNoHolds(t *testing.T) {
	for name, refuses := range map[string]error{
		"renewed": nil, "refused": redis.Error("BUSY"), "forgotten script": redis.Error("NOSCRIPT"),
	} {
		t.Run(name, func(t *testing.T) {
			r := New(configOf(time.Minute, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
				return pipe.Connection{Conn: allHeld{refuses: refuses}}, nil
			}))
			defer r.Close()
			w := watched{r, make(chan int, 1)}
			dog, err := renewal.New(renewal.Config{TTL: 300 * time.Millisecond, Dispatchers: 1})
			require.NoError(t, err)
			defer dog.Close()
			lane, err := dog.Lane("s", w)
			require.NoError(t, err)
			holds := make([]hold, 100)
			for i := range holds {
				h := &holds[i]
				require.NoError(t, lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: time.Minute}))
			}
			lane.Verify() // due at once
			require.Zero(t, bounded.Receive(t, w.kept))
		})
	}
}

// countedConn is an allHeld that counts its calls of Close.
type countedConn struct {
	allHeld
	closes *atomic.Int32
}

func (c countedConn) Close() error {
	c.closes.Add(1)
	return nil
}

// TestAConnectionThatWasIdleForLongIsReplaced, unless there is no other one: the server may take no new
// connections, and the idle one may still work. That a connection was replaced is no failure.
func TestAConnectionThatWasIdleForLongIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials, closes atomic.Int32
		var down atomic.Bool
		cfg := configOf(time.Second, func(err error) { t.Error(err) }, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			if dials.Add(1); down.Load() {
				return pipe.Connection{}, errors.New("WRONGPASS")
			}
			dialed := pipe.Connection{Conn: countedConn{closes: &closes}}
			now := time.Now()
			dialed.Clock.Sample(now, now, now, 0)
			return dialed, nil
		})
		cfg.Resumed = func() { t.Error("no connection has failed") }
		r := New(cfg)
		defer r.Close()
		w := watched{r, make(chan int, 1)}
		dog, err := renewal.New(renewal.Config{TTL: 24 * time.Hour, Dispatchers: 1})
		require.NoError(t, err)
		defer dog.Close()
		lane, err := dog.Lane("s", w)
		require.NoError(t, err)
		h := &hold{}
		require.NoError(t, lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: 24 * time.Hour}))
		renew := func() {
			lane.Verify() // due at once
			require.Zero(t, <-w.kept)
		}
		renew()
		time.Sleep(10*time.Minute - time.Second)
		renew()
		require.Equal(t, []int32{1, 0}, []int32{dials.Load(), closes.Load()})
		time.Sleep(time.Second)
		renew()
		require.Equal(t, []int32{2, 1}, []int32{dials.Load(), closes.Load()})

		down.Store(true)
		time.Sleep(10 * time.Minute)
		renew()
		require.Equal(t, []int32{3, 1}, []int32{dials.Load(), closes.Load()})
		down.Store(false)
		renew()
		require.Equal(t, []int32{4, 2}, []int32{dials.Load(), closes.Load()})
	})
}

// TestAnOldConnectionIsNoReasonToGiveUpADial, because it would have to be replaced as well.
func TestAnOldConnectionIsNoReasonToGiveUpADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closes atomic.Int32
		var hangs atomic.Bool
		cfg := configOf(time.Second, func(err error) { t.Error(err) }, func(ctx context.Context, _ *dialing.Bound) (pipe.Connection, error) {
			if hangs.Load() {
				select {
				case <-time.After(5 * time.Second):
					return pipe.Connection{}, errors.New("no answer")
				case <-ctx.Done():
					return pipe.Connection{}, ctx.Err()
				}
			}
			dialed := pipe.Connection{Conn: countedConn{closes: &closes}}
			now := time.Now()
			dialed.Clock.Sample(now, now, now, 0)
			return dialed, nil
		})
		cfg.Conns = 2
		r := New(cfg)
		defer r.Close()
		conns := make([]*pipeline, 2)
		for i := range conns {
			var err error
			conns[i], _, err = r.takeConn(t.Context(), time.Hour)
			require.NoError(t, err)
		}
		for _, c := range conns {
			r.giveConnBack(c, true)
		}
		time.Sleep(10 * time.Minute)
		hangs.Store(true)
		c, idled, err := r.takeConn(t.Context(), time.Hour)
		require.NoError(t, err)
		require.True(t, idled)
		require.Same(t, conns[1], c, "it may still work")
		require.Zero(t, closes.Load())
		r.giveConnBack(c, true)
	})
}

// permits is a hold of n permits.
type permits struct {
	hold
	n int
}

func (*permits) Class() Class  { return Permits }
func (p *permits) Weight() int { return p.n }
func (p *permits) AppendFieldTail(b []byte) []byte {
	return fmt.Appendf(b, "%d", p.n)
}

// heard is an allHeld that records the weights of the holds of each call, and the calls of each turn.
type heard struct {
	allHeld
	mu    *sync.Mutex // guards turns and what is in it
	turns *[][][]int
}

func (c heard) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.turns = append(*c.turns, nil)
	return nil
}

func (c heard) Send(command string, args ...any) error {
	if command != "EVALSHA" {
		return nil
	}
	var call []int
	n := args[1].(int)
	for _, a := range args[2+n+2:][:n] {
		var weight int
		if _, err := fmt.Sscan(string(a.([]byte)), &weight); err != nil {
			return err
		}
		call = append(call, weight)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(*c.turns) - 1
	(*c.turns)[last] = append((*c.turns)[last], call)
	return nil
}

// TestACallHasSoManyPermits and no more. Its limit is a number of permits and not of holds, because a
// hold may have a thousand permits. A hold is never split between calls. Before more permits are sent
// than a server should renew at once, the calls that were sent are answered.
func TestACallHasSoManyPermits(t *testing.T) {
	var mu sync.Mutex
	turns := make([][][]int, 1)
	r := New(configOf(time.Minute, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
		return pipe.Connection{Conn: heard{mu: &mu, turns: &turns}}, nil
	}))
	defer r.Close()
	w := watched{r, make(chan int, 1)}
	dog, err := renewal.New(renewal.Config{TTL: time.Hour, Dispatchers: 1})
	require.NoError(t, err)
	defer dog.Close()
	lane, err := dog.Lane("s", w)
	require.NoError(t, err)
	want := map[int]int{1: 300, 40: 10, 64: 4, 128: 3, 129: 2, 1000: 5}
	for weight, n := range want {
		for range n {
			p := &permits{n: weight}
			require.NoError(t, lane.Hold(&p.lease, p, renewal.Terms{Stamp: time.Now(), TTL: time.Hour}))
		}
	}
	lane.Verify() // due at once
	bounded.Receive(t, w.kept)
	mu.Lock()
	defer mu.Unlock()
	got := map[int]int{}
	require.Empty(t, turns[len(turns)-1])
	for i, turn := range turns[:len(turns)-1] {
		all := 0
		for k, call := range turn {
			for _, weight := range call {
				got[weight]++
			}
			sum := weightOf(call)
			all += sum
			require.True(t, sum <= 128 || len(call) == 1, "call %d of turn %d: %v", k, i, call)
			if k > 0 {
				require.Greater(t, weightOf(turn[k-1])+call[0], 128, "it belongs to the call before")
			}
		}
		require.LessOrEqual(t, all, 4096)
		if i > 0 {
			before := 0
			for _, call := range turns[i-1] {
				before += weightOf(call)
			}
			require.Greater(t, before+turn[0][0], 4096, "it belongs to the turn before")
		}
	}
	require.Greater(t, len(turns), 2)
	require.Equal(t, want, got)
}

func weightOf(call []int) (sum int) {
	for _, weight := range call {
		sum += weight
	}
	return sum
}

// TestOpenDialsTheConnectionsOnce, stops at one that fails, and is awaited by Close.
func TestOpenDialsTheConnectionsOnce(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var mu sync.Mutex
		dialled := 0
		r := New(Config{
			Timeout: time.Minute, Conns: 3,
			Dial: func(context.Context, *dialing.Bound) (pipe.Connection, error) {
				mu.Lock()
				defer mu.Unlock()
				if dialled++; fails {
					return pipe.Connection{}, errors.New("refused")
				}
				return pipe.Connection{Conn: allHeld{}}, nil
			},
			Epoch: func() uint32 { return 0 }, Resumed: func() { t.Error("nothing was broken") },
		})
		for range 5 {
			r.Open()
		}
		r.goroutines.Wait()
		require.Equal(t, map[bool]int{false: 3, true: 1}[fails], dialled)
		require.Len(t, r.idle, map[bool]int{false: 3, true: 0}[fails])
		r.Close()
		r.Open()
		late := New(Config{Conns: 1, Timeout: time.Minute, Dial: func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			panic("it is closed")
		}})
		late.Close()
		late.Open()
		late.goroutines.Wait()
	}
}

// ending is an allHeld whose server ends it after a number of answers, while it is idle. The next
// request can still be written, but gets no answer.
type ending struct {
	allHeld
	answers int
	err     error
}

func (c *ending) ReceiveWithTimeout(d time.Duration) (any, error) {
	if c.answers == 0 {
		return nil, c.err
	}
	c.answers--
	return c.allHeld.ReceiveWithTimeout(d)
}

// TestAConnectionThatEndedWhileItWasIdleCostsNoBatch, because the batch is sent over a new one.
// A connection that ends in another way costs its batch a failure.
func TestAConnectionThatEndedWhileItWasIdleCostsNoBatch(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
	for name, tc := range map[string]struct {
		answers int // of each connection
		err     error
		fails   bool
	}{
		"ended": {1, io.EOF, false}, "reset": {1, reset, false},
		"silent":       {1, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, true},
		"a strange":    {1, errors.New("it answers what is no answer"), true},
		"a new one":    {0, io.EOF, true},
		"in its batch": {2, io.ErrUnexpectedEOF, false}, // each second batch
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				r := New(configOf(50*time.Millisecond, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
					dials++
					return pipe.Connection{Conn: &ending{answers: tc.answers, err: tc.err}}, nil
				}))
				dog, err := renewal.New(renewal.Config{TTL: 3 * time.Second, Dispatchers: 1})
				require.NoError(t, err)
				lane, err := dog.Lane("s", r)
				require.NoError(t, err)
				h := new(hold)
				require.NoError(t, lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: 3 * time.Second}))
				time.Sleep(2900 * time.Millisecond)
				st := dog.Stats()
				dog.Close()
				r.Close()
				if tc.fails {
					require.Positive(t, st.Failed)
				} else {
					require.Zero(t, st.Failed)
					require.GreaterOrEqual(t, int(st.Renewed), 2)
				}
				require.LessOrEqual(t, dials, 2+int(st.Renewed+st.Failed), "one for a batch")
			})
		})
	}
}

// slow is an ending whose answers take time.
type slow struct{ ending }

func (c *slow) ReceiveWithTimeout(d time.Duration) (any, error) {
	time.Sleep(time.Millisecond)
	return c.ending.ReceiveWithTimeout(d)
}

// TestAServerThatEndsEachConnectionAfterAnAnswerIsDialledSeldom: a connection after a failure makes all
// leases due with a Topology, and each batch needs another connection. A call of Resumed that is
// put off is made later.
func TestAServerThatEndsEachConnectionAfterAnAnswerIsDialledSeldom(t *testing.T) {
	const ttl, ttls = 3 * time.Second, 10
	synctest.Test(t, func(t *testing.T) {
		var lane *renewal.Lane
		var dials, resumed atomic.Int32
		cfg := configOf(50*time.Millisecond, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			dials.Add(1)
			return pipe.Connection{Conn: &slow{ending{answers: 1, err: io.EOF}}}, nil
		})
		cfg.Resumed = func() { resumed.Add(1); lane.Verify() }
		r := New(cfg)
		dog, err := renewal.New(renewal.Config{TTL: ttl, Dispatchers: 1})
		require.NoError(t, err)
		lane, err = dog.Lane("s", r)
		require.NoError(t, err)
		holds := make([]hold, 3)
		for i := range holds {
			require.NoError(t, lane.Hold(&holds[i].lease, &holds[i], renewal.Terms{Stamp: time.Now(), TTL: ttl}))
		}
		time.Sleep(ttls * ttl)
		require.True(t, holds[0].lease.Valid())
		dog.Close()
		r.Close()
		require.LessOrEqual(t, int(dials.Load()), 2*24*ttls)
		require.LessOrEqual(t, int(resumed.Load()), 24*ttls)
		require.GreaterOrEqual(t, int(resumed.Load()), 12*ttls)
	})
}

// closes is a connection that never answers. Close ends a read that waits.
type closes struct {
	allHeld
	once   *sync.Once
	closed chan struct{}
}

func (c closes) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c closes) ReceiveWithTimeout(time.Duration) (any, error) {
	<-c.closed
	return nil, net.ErrClosed
}

// TestABatchWithoutAnAnswerIsToldAsThat: Failed gets ErrUnanswered, although the read fails because the
// connection was closed.
func TestABatchWithoutAnAnswerIsToldAsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 100)
		r := New(configOf(50*time.Millisecond, func(err error) { told <- err }, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			return pipe.Connection{Conn: closes{once: new(sync.Once), closed: make(chan struct{})}}, nil
		}))
		dog, err := renewal.New(renewal.Config{TTL: 3 * time.Second, Dispatchers: 1})
		require.NoError(t, err)
		lane, err := dog.Lane("s", r)
		require.NoError(t, err)
		h := new(hold)
		require.NoError(t, lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: 3 * time.Second}))
		time.Sleep(2 * time.Second)
		dog.Close()
		r.Close()
		require.NotEmpty(t, told)
		require.Equal(t, pipe.ErrUnanswered, <-told)
	})
}

// readLate is a connection over which every answer is read some time after its request was written, or
// not at all.
type readLate struct {
	closes
	after time.Duration
}

func (c readLate) ReceiveWithTimeout(time.Duration) (any, error) {
	select {
	case <-c.closed:
		return nil, net.ErrClosed
	case <-time.After(c.after):
		return []any{}, nil
	}
}

// TestAnAnswerThatIsReadLateCounts: after a standstill of this process its timers run before it reads
// what has come meanwhile. In the bubble the answer comes a little later than the first look at the age
// of the batch. It costs no failure and no dial, not even the dial of a hedge.
func TestAnAnswerThatIsReadLateCounts(t *testing.T) {
	for name, c := range map[string]struct {
		lease    time.Duration // a hedge begins after a thirtieth of it
		late     time.Duration // how much later than Timeout each answer is
		permits  int           // of each of two holds
		isInTime bool
	}{
		"before the second look": {30 * time.Second, time.Second / 32, 1, true},
		"in two turns":           {60 * time.Second, time.Second / 32, turnWeight, true},
		"after the second look":  {30 * time.Second, time.Second / 15, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int32
				told := make(chan error, 100)
				r := New(configOf(time.Second, func(err error) { told <- err }, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
					dials.Add(1)
					return pipe.Connection{Conn: readLate{closes{once: new(sync.Once), closed: make(chan struct{})}, time.Second + c.late}}, nil
				}))
				dog, err := renewal.New(renewal.Config{TTL: c.lease, Dispatchers: 1})
				require.NoError(t, err)
				lane, err := dog.Lane("s", r)
				require.NoError(t, err)
				for range 2 {
					p := &permits{n: c.permits}
					require.NoError(t, lane.Hold(&p.lease, p, renewal.Terms{Stamp: time.Now(), TTL: c.lease}))
				}
				time.Sleep(2 * c.lease)
				failures, dialled := len(told), dials.Load() // Close may cut a batch off
				dog.Close()
				r.Close()
				if c.isInTime {
					require.Zero(t, failures)
					require.EqualValues(t, 1, dialled)
				} else {
					require.Equal(t, pipe.ErrUnanswered, <-told)
				}
			})
		})
	}
}

// refusing is a connection to a server that refuses each renewal of permits 900 ms after it was sent. It
// calls refused with the number of permits.
type refusing struct {
	allHeld
	waiting []int // permits of the requests without an answer; 0 for a question
	refused func(permits int)
}

func (c *refusing) Send(command string, args ...any) error {
	n := 0
	if command == "EVALSHA" {
		fmt.Sscan(string(args[len(args)-2].([]byte)), &n)
	}
	c.waiting = append(c.waiting, n)
	return nil
}

func (c *refusing) ReceiveWithTimeout(time.Duration) (any, error) {
	time.Sleep(900 * time.Millisecond)
	n := c.waiting[0]
	c.waiting = c.waiting[1:]
	if n > 0 {
		c.refused(n)
	}
	return nil, redis.Error("NOREPLICAS Not enough good replicas to write.")
}

// The hold of the second turn ends while the first turn waits for its answer, and then the time is due.
func TestATurnWhoseHoldsHaveEndedSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := map[int]*permits{4095: {n: 4095}, 4096: {n: 4096}}
		r := New(configOf(time.Second, func(error) {}, func(context.Context, *dialing.Bound) (pipe.Connection, error) {
			dialed := pipe.Connection{Conn: &refusing{refused: func(n int) { holds[4095+4096-n].lease.Release() }}}
			dialed.Clock.AskByScript(time.Now().Add(-500 * time.Millisecond))
			return dialed, nil
		}))
		var failures []error
		dog, err := renewal.New(renewal.Config{TTL: 30 * time.Second, Dispatchers: 1, OnBatch: func(b renewal.BatchReport) {
			failures = append(failures, b.Err)
		}})
		require.NoError(t, err)
		lane, err := dog.Lane("s", r)
		require.NoError(t, err)
		for _, p := range holds {
			require.NoError(t, lane.Hold(&p.lease, p, renewal.Terms{Stamp: time.Now(), TTL: 30 * time.Second}))
		}
		lane.Verify()
		time.Sleep(950 * time.Millisecond)
		dog.Close()
		r.Close()
		require.NotEmpty(t, failures)
		for _, err := range failures {
			require.ErrorContains(t, err, "NOREPLICAS")
		}
		require.Empty(t, r.waits, "the connection was neither given back nor closed")
	})
}
