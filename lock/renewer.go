package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/renewal"
)

// renewer implements renewal.Renewer: one script call a batch, on connections
// that nothing else uses, so renewal never queues behind callers.
//
// A link that goes dead without a word (a firewall that drops packets, a host
// that is gone) is not waited out. While a dial or an answer is slow, another
// connection is dialled beside it and asked for a PING; once that is answered,
// what has waited longer is cut off and goes on over the new connection. So
// renewal resumes a hedge and a dial after the link is back, whatever TCP and
// Config.IOTimeout think.
type renewer struct {
	// immutable
	dial    dialer
	timeout time.Duration // of a dial, and of a round trip
	prefix  string        // of all fields of this client
	slots   chan struct{} // one a connection: holds a token for each in use
	ctx     context.Context
	cancel  context.CancelFunc
	probing sync.WaitGroup

	mu     sync.Mutex // guards what follows; never held during I/O
	idle   []*renewConn
	waits  map[*wait]struct{} // dials and round trips without an answer
	rtt    time.Duration      // of round trips, smoothed
	hedge  time.Duration      // how long a wait lasts before a probe begins, and then the next
	probes int                // on their way
	probed time.Time          // when the last of them began
	closed bool
}

const (
	// afterFuncConns is how many connections the goroutines of AfterFunc
	// without batches share.
	afterFuncConns = 64
	// maxProbes is how many connections are dialled beside slow ones at once.
	maxProbes = 3
)

// errSuperseded: another connection was answered meanwhile.
var errSuperseded = errors.New("lock: another connection is answered")

// renewConns is how many connections renewal uses at most.
func renewConns(cfg renewal.Config) int {
	if cfg.Driver == renewal.AfterFunc && cfg.MaxBatch == 1 {
		return afterFuncConns
	}
	return cfg.Dispatchers
}

func newRenewer(client string, d dialer, timeout time.Duration, conns int) *renewer {
	r := &renewer{dial: d, timeout: timeout, prefix: client + ":", slots: make(chan struct{}, conns), waits: make(map[*wait]struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Renew renews the holds of b. See renewal.Renewer for what it must report.
func (r *renewer) Renew(ctx context.Context, b *renewal.Batch) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		b.Fail(ctx.Err())
		return
	}
	for {
		err := r.try(ctx, b)
		if err == nil {
			return
		}
		if err != errSuperseded || ctx.Err() != nil {
			b.Fail(err)
			return
		}
	}
}

// try makes one round trip, or two if the server has forgotten the script.
func (r *renewer) try(ctx context.Context, b *renewal.Batch) error {
	c, err := r.get(ctx, b.TTL())
	if err != nil {
		return err
	}
	r.begin(&c.wait, b.TTL())
	stop := context.AfterFunc(ctx, c.wait.abort)
	err = c.renew(b, r.timeout, false)
	if noScript(err) {
		err = c.renew(b, r.timeout, true)
	}
	stop()
	superseded := r.end(&c.wait)
	if err == nil {
		r.measure(time.Since(c.wait.began))
	}
	_, answered := err.(redis.Error)
	r.put(c, err == nil || answered && !hasWord(err.Error(), "READONLY"))
	if superseded && err != nil && !answered {
		return errSuperseded
	}
	return err
}

// renewConn is a connection with the buffers of its requests.
type renewConn struct {
	redis.Conn
	wait   wait
	prefix any         // of all fields
	order  []int       // the leases, those of one call side by side
	calls  []renewCall // of order
	args   []any
	boxes  boxes
	text   []byte
	dummy  byte // see touch
}

// renewCall is one script call: the leases order[from:to].
type renewCall struct {
	from, to int
	err      error
}

func (r *renewer) newConn(conn redis.Conn) *renewConn {
	return &renewConn{Conn: conn, wait: wait{abort: func() { conn.Close() }}, prefix: r.prefix}
}

// renew sends the scripts by their SHA, or as text, and reads the answers. An
// error that is no reply of Redis means that the connection is of no more use.
func (c *renewConn) renew(b *renewal.Batch, timeout time.Duration, asText bool) error {
	live, err := b.Send(func(live []int, by time.Time) error {
		if early := time.Until(by); early < timeout {
			t := time.AfterFunc(early, c.wait.abort)
			defer t.Stop()
		}
		c.touch(b, live)
		c.split(b, live)
		for i := range c.calls {
			if err := c.send(b, &c.calls[i], asText); err != nil {
				return err
			}
		}
		return c.Flush()
	})
	if err != nil || len(live) == 0 {
		return err
	}
	for i := range c.calls {
		if err := c.receive(b, &c.calls[i], timeout); err != nil {
			return err
		}
	}
	for i := range c.calls {
		if err == nil || noScript(c.calls[i].err) {
			err = c.calls[i].err
		}
	}
	return err
}

// split orders the leases live into calls, one for each script that they need.
func (c *renewConn) split(b *renewal.Batch, live []int) {
	c.order, c.calls = append(c.order[:0], live...), c.calls[:0]
	class := func(i int) renewalClass { return b.Owner(i).(*hold).kind.renewalClass() }
	sorted := true
	for k := 1; k < len(live) && sorted; k++ {
		sorted = class(live[k-1]) <= class(live[k])
	}
	if !sorted {
		slices.SortStableFunc(c.order, func(i, j int) int { return int(class(i)) - int(class(j)) })
	}
	for k, i := range c.order {
		if last := len(c.calls) - 1; k > 0 && class(c.order[k-1]) == class(i) {
			c.calls[last].to++
			continue
		}
		c.calls = append(c.calls, renewCall{from: k, to: k + 1})
	}
}

// send writes one call, by its script's SHA or as text.
func (c *renewConn) send(b *renewal.Batch, call *renewCall, asText bool) error {
	leases := c.order[call.from:call.to]
	class := b.Owner(leases[0]).(*hold).kind.renewalClass()
	code := class.script()
	command, name := "EVALSHA", code.SHA()
	if asText {
		command, name = "EVAL", code.Text()
	}
	c.boxes.reset()
	c.args = append(c.args[:0], name, len(leases))
	for _, i := range leases {
		c.args = append(c.args, copied(&c.boxes, class.key(b.Owner(i).(*hold))))
	}
	c.args = append(c.args, class.lease(b.TTL()), c.prefix)
	for _, i := range leases {
		c.text = b.Owner(i).(*hold).appendFieldTail(c.text[:0])
		c.args = append(c.args, copied(&c.boxes, c.text))
	}
	err := c.Send(command, c.args...)
	clear(c.args) // the connection may be idle for long, and these are names of locks
	return err
}

// receive reads the answer to one call. A reply that is an error is noted in
// call; the error that it returns is one of the connection.
func (c *renewConn) receive(b *renewal.Batch, call *renewCall, timeout time.Duration) error {
	reply, err := redis.ReceiveWithTimeout(c.Conn, max(timeout-time.Since(c.wait.began), time.Millisecond))
	if _, answered := err.(redis.Error); answered {
		call.err = err
		return nil
	}
	if err != nil {
		return err
	}
	gone, err := redis.Ints(reply, nil)
	if err != nil {
		return fmt.Errorf("lock: renew: unexpected answer: %w", err)
	}
	leases := c.order[call.from:call.to]
	for _, k := range gone {
		if k < 1 || k > len(leases) {
			return fmt.Errorf("lock: renew: unexpected answer: index %d of %d", k, len(leases))
		}
	}
	for _, i := range leases {
		b.Renewed(i)
	}
	for _, k := range gone {
		b.Lost(leases[k-1])
	}
	return nil
}

// touch reads what send will read, and nothing else: with many locks held none
// of it is in the cache, and here the processor waits for all of it at once
// instead of for one lock after the other.
func (c *renewConn) touch(b *renewal.Batch, live []int) {
	for _, i := range live {
		h := b.Owner(i).(*hold)
		c.dummy += h.name[0] + h.owner.text[0]
	}
}

// get returns an idle connection or a new one.
func (r *renewer) get(ctx context.Context, ttl time.Duration) (*renewConn, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	w := &wait{abort: cancel}
	r.begin(w, ttl)
	conn, err := dial(ctx, r.dial)
	superseded := r.end(w)
	switch {
	case err == nil:
		return r.newConn(conn), nil
	case superseded:
		return nil, errSuperseded
	}
	return nil, err
}

// put gives a connection back, or closes it if it is of no more use.
func (r *renewer) put(c *renewConn, usable bool) {
	r.mu.Lock()
	if usable && !r.closed {
		r.idle = append(r.idle, c)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	c.Close()
}

// close closes the idle connections and awaits the probes; connections in use
// are closed when they are given back.
func (r *renewer) close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	r.cancel()
	for _, c := range idle {
		c.Close()
	}
	r.probing.Wait()
}
