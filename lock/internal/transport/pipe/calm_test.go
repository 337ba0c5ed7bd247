package pipe

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// still is a connection that takes all bytes and from which none come.
type still struct{ net.Conn }

func (still) TryRead([]byte) (int, error) { return 0, nil }

// TestACallerLeadsOnlyIfNobodyElseWritesOrReads: other callers may come after a caller has read
// leadable and before it claims the turn. The test makes each state in which they leave the Pipe.
func TestACallerLeadsOnlyIfNobodyElseWritesOrReads(t *testing.T) {
	for name, busy := range map[string]func(p *Pipe, c *conn){
		"nobody":                         nil,
		"a request waits for the writer": func(p *Pipe, _ *conn) { p.queue = append(p.queue, &Request{}) },
		"the writer has a batch":         func(p *Pipe, _ *conn) { p.isWriterBusy = true },
		"another caller writes":          func(p *Pipe, _ *conn) { p.isCallerWriting = true },
		"another caller reads":           func(_ *Pipe, c *conn) { c.turn = leader },
		"the resident reads":             func(_ *Pipe, c *conn) { c.turn = resident },
		"the connection is dead":         func(_ *Pipe, c *conn) { c.err = errors.New("dead") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				heard := make(chan int, 1)
				go func() {
					n, _ := server.Read(make([]byte, 1000))
					heard <- n
				}()
				p := &Pipe{cfg: &Config{Timeout: time.Second, LeadAfter: 1, Epoch: func() uint32 { return 0 }, Failed: func(error) {}, Answered: func() {}}}
				p.work.L = &p.mu
				c := newConn(p, Connection{Conn: resp.Over(resp.New(still{client}))})
				p.live = c
				c.giveTurn(noReader)
				if busy != nil {
					busy(p, c)
				}
				led := p.isCallerWriting
				r := new(Requests).New("m", script.Acquire, 1, nil, resp.ArgsOf("m", "1"))
				require.Equal(t, busy == nil, p.lead(r))
				if busy != nil {
					require.Equal(t, led, p.isCallerWriting, "what another has is left to it")
				}
				server.Close()
				client.Close()
				if wrote := <-heard; busy == nil {
					require.NotZero(t, wrote)
					require.Equal(t, resident, c.turn, "no answer came")
				} else {
					require.Zero(t, wrote)
				}
				if c.timer != nil {
					c.timer.Stop()
				}
			})
		})
	}
}

// TestNobodysTurnBeginsWhenTheResidentHasReadTheLastAnswer, and not when a leader has read it: a leader
// keeps the turn until it has handled the answer. Nor does it begin at the answer to TIME, because a
// request is in flight behind TIME.
func TestNobodysTurnBeginsWhenTheResidentHasReadTheLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		turn, want turn
		inflight   int
	}{
		"the last one":      {resident, noReader, 1},
		"another follows":   {resident, resident, 2},
		"a leader has read": {leader, leader, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Pipe{cfg: &Config{LeadAfter: 3, Epoch: func() uint32 { return 0 }}}
			conn := newConn(p, Connection{Conn: resp.Over(resp.New(still{}))})
			conn.turn, conn.soloStreak = c.turn, 3
			for range c.inflight {
				conn.inflight.add(&Request{})
			}
			conn.popOldest()
			require.Equal(t, c.want, conn.turn)
			require.Equal(t, c.want == noReader, p.leadable.Load() == conn)
		})
	}
}

// TestWhatIsWrittenHasAReader: a leader may give up its turn between the writer's checkReady and its
// write.
func TestWhatIsWrittenHasAReader(t *testing.T) {
	for before, after := range map[turn]turn{noReader: resident, leader: leader, resident: resident} {
		p := &Pipe{cfg: &Config{Timeout: time.Minute, LeadAfter: 1, Epoch: func() uint32 { return 0 }}}
		c := newConn(p, Connection{Conn: resp.Over(resp.New(still{}))})
		c.giveTurn(before)
		r := new(Requests).New("m", script.Acquire, 1, nil, resp.ArgsOf("m", "1"))
		require.NotNil(t, c.register([]*Request{r}, time.Now()))
		require.Equal(t, after, c.turn)
		c.timer.Stop()
	}
}

// TestAConnectionThatCannotBeLookedAtIsNotLed. By default no connection is led.
func TestAConnectionThatCannotBeLookedAtIsNotLed(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	p := &Pipe{cfg: &Config{LeadAfter: 1, Epoch: func() uint32 { return 0 }}}
	require.False(t, newConn(p, Connection{Conn: resp.Over(resp.New(a))}).canBeLed)
	require.True(t, newConn(p, Connection{Conn: resp.Over(resp.New(still{a}))}).canBeLed)
	p.cfg = &Config{}
	require.False(t, newConn(p, Connection{Conn: resp.Over(resp.New(still{a}))}).canBeLed)
}

// TestTheWriterWaitsForACallerThatWritesSinceItYielded: the writer was woken to dial early, so its
// queue is empty, and the connection is busy already. While it lets others go first, a caller begins
// to write, and a request is queued. Two writers at once would write in another order than they
// register, and each request would get the answer of the other.
func TestTheWriterWaitsForACallerThatWritesSinceItYielded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		p := &Pipe{cfg: &Config{Timeout: time.Second, LeadAfter: 1, Epoch: func() uint32 { return 0 }, Failed: func(error) {}, Answered: func() {}}}
		p.work.L = &p.mu
		p.live = newConn(p, Connection{Conn: resp.Over(resp.New(still{client}))})
		p.live.inflight.add(&Request{})
		p.dialsEarly = true
		p.yield = func() {
			if p.isCallerWriting {
				return
			}
			require.NotNil(t, p.beginWrite())
			p.Put(&Request{})
		}
		var batch []*Request
		taken := make(chan bool, 1)
		go func() {
			var open bool
			batch, open = p.takeQueue(nil)
			taken <- open
		}()
		synctest.Wait()
		require.True(t, p.isCallerWriting)
		require.Empty(t, taken, "the writer waits")
		p.endWrite()
		require.True(t, <-taken)
		require.Len(t, batch, 1)
	})
}

// TestAWarmedPipeDialsAfterACallerHasWritten: the connection dies while a caller writes over it, and
// another caller warms the Pipe meanwhile. The writer wakes and waits again, until the caller has
// written.
func TestAWarmedPipeDialsAfterACallerHasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		ctx, cancel := context.WithCancel(t.Context())
		p := New(ctx, &Config{Dial: func(context.Context, *dialing.Bound) (Connection, error) {
			dials++
			return Connection{}, errors.New("no server")
		}})
		synctest.Wait() // the writer waits
		p.isCallerWriting = true
		p.warm()
		synctest.Wait()
		during := dials
		p.endWrite()
		synctest.Wait()
		after := dials
		cancel()
		p.Close(errors.New("the test is over"))
		require.Zero(t, during, "a caller writes")
		require.Equal(t, 1, after)
	})
}
