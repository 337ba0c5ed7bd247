package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/renewal"
)

// renewer implements renewal.Renewer for a node: one round trip a batch, on
// connections that nothing else uses, so renewal never queues behind callers.
//
// A link that goes dead without a word (a firewall that drops packets, a host
// that is gone) is not waited out. While a dial or an answer is slow, another
// connection is dialled beside it and asked for a PING; once that is answered,
// what has waited longer is cut off and goes on over the new connection. So
// renewal resumes a hedge and a dial after the link is back, whatever TCP and
// Config.IOTimeout think.
type renewer struct {
	// immutable
	node    *node
	timeout time.Duration // of a dial, and of a round trip
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
	broken bool               // a connection was given up, and none was made since
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

func newRenewer(n *node, timeout time.Duration, conns int) *renewer {
	r := &renewer{node: n, timeout: timeout, slots: make(chan struct{}, conns), waits: make(map[*wait]struct{})}
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

// try makes one round trip, or a few if the server has not run all of it: it
// had forgotten the script, or a slot was on its way to another server.
func (r *renewer) try(ctx context.Context, b *renewal.Batch) error {
	c, err := r.get(ctx, b.TTL())
	if err != nil {
		return err
	}
	r.begin(&c.wait, b.TTL())
	if c.epoch != r.node.epoch.Load() {
		r.end(&c.wait)
		r.put(c, false)
		return errSuperseded
	}
	stop := context.AfterFunc(ctx, c.wait.abort)
	again := true
	for sent := (round{}); again && err == nil; {
		again, err = c.renew(b, &sent, r.timeout)
	}
	stop()
	superseded := r.end(&c.wait)
	if err == nil {
		r.measure(time.Since(c.wait.began))
	}
	_, answered := err.(redis.Error)
	r.put(c, err == nil || answered && !hasWord(err.Error(), "READONLY"))
	if err != nil {
		r.node.suspect(err)
	}
	if superseded && err != nil && !answered {
		return errSuperseded
	}
	return err
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
	conn, epoch, err := r.node.connect(ctx)
	superseded := r.end(w)
	switch {
	case err == nil:
		r.connected()
		return newRenewConn(r.node, conn, epoch), nil
	case superseded:
		return nil, errSuperseded
	}
	r.mu.Lock()
	r.broken = true
	r.mu.Unlock()
	return nil, err
}

// put gives a connection back, or closes it if it is of no more use.
func (r *renewer) put(c *renewConn, usable bool) {
	r.mu.Lock()
	usable = usable && !r.closed && c.epoch == r.node.epoch.Load()
	// A probe that came late has left one more than are used at once.
	if usable && len(r.idle) < cap(r.slots) {
		r.idle = append(r.idle, c)
		r.mu.Unlock()
		return
	}
	r.broken = r.broken || !usable
	r.mu.Unlock()
	c.Close()
}

// connected is called when there is a connection, to tell the node if that ends
// a time without.
func (r *renewer) connected() {
	r.mu.Lock()
	resumed := r.broken
	r.broken = false
	r.mu.Unlock()
	if resumed {
		r.node.resumed()
	}
}

// drop gives all connections up; what waits on them goes on over new ones.
func (r *renewer) drop() {
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	var waits []*wait
	for w := range r.waits {
		w.superseded = true
		waits = append(waits, w)
	}
	r.mu.Unlock()
	for _, w := range waits {
		w.abort()
	}
	for _, c := range idle {
		c.Close()
	}
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
