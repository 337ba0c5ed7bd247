package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// acker carries acquisitions that replicas must have (Config.Replicas). WAIT
// waits for what its own connection has written, and holds up what comes after
// it there, so they have connections of their own. What comes while all of them
// wait goes out together next, and shares one WAIT.
type acker struct {
	// immutable
	node     *node
	replicas int
	wait     time.Duration // Config.ReplicaTimeout
	timeout  time.Duration // Config.IOTimeout
	ctx      context.Context

	mu     sync.Mutex // guards what follows; never held during I/O
	work   sync.Cond  // on mu: queue is not empty, or closed
	queue  []*request
	closed error                   // why it is closed; nil before
	conns  map[redis.Conn]struct{} // in use

	wg sync.WaitGroup
}

// maxAcked bounds the acquisitions that share a WAIT.
const maxAcked = 128

// ackerConns is how many connections an acker has.
func (cfg Config) ackerConns() int {
	if cfg.Replicas == 0 {
		return 0
	}
	return cfg.Connections
}

func newAcker(n *node) *acker {
	cfg := n.c.cfg
	a := &acker{
		node: n, replicas: cfg.Replicas, wait: cfg.ReplicaTimeout, timeout: cfg.IOTimeout, ctx: n.ctx,
		conns: make(map[redis.Conn]struct{}),
	}
	a.work.L = &a.mu
	for range cfg.ackerConns() {
		a.wg.Go(a.run)
	}
	return a
}

// put queues r; its answer comes through r.finish, always.
func (a *acker) put(r *request) {
	a.mu.Lock()
	if err := a.closed; err != nil {
		a.mu.Unlock()
		r.finish(nil, err)
		return
	}
	a.queue = append(a.queue, r)
	a.work.Signal()
	a.mu.Unlock()
}

// replace gives the connections in use up.
func (a *acker) replace() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.conns {
		conn.Close()
	}
}

// close fails all requests with why and returns when no goroutine of the acker
// runs.
func (a *acker) close(why error) {
	a.mu.Lock()
	a.closed = why
	queue := a.queue
	a.queue = nil
	a.work.Broadcast()
	for conn := range a.conns {
		conn.Close()
	}
	a.mu.Unlock()
	a.fail(queue, why)
	a.wg.Wait()
}

// run is the body of one connection's goroutine.
func (a *acker) run() {
	var conn redis.Conn
	for {
		batch := a.take()
		if batch == nil {
			break
		}
		var err error
		if conn == nil {
			conn, err = a.dial()
		}
		if err != nil {
			a.fail(batch, err)
			continue
		}
		if !a.carry(conn, batch) {
			a.drop(conn)
			conn = nil
		}
	}
	if conn != nil {
		a.drop(conn)
	}
}

// take waits for requests; nil means that the acker is closed.
func (a *acker) take() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) == 0 && a.closed == nil {
		a.work.Wait()
	}
	if a.closed != nil {
		return nil
	}
	n := min(len(a.queue), maxAcked)
	batch := a.queue[:n:n]
	a.queue = a.queue[n:]
	return batch
}

func (a *acker) dial() (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(a.ctx, a.timeout)
	defer cancel()
	conn, epoch, err := a.node.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.node.greet(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed != nil {
		conn.Close()
		return nil, a.closed
	}
	if a.node.epoch.Load() != epoch {
		conn.Close() // replace came before there was anything to replace
		return nil, errReplaced
	}
	a.conns[conn] = struct{}{}
	return conn, nil
}

func (a *acker) drop(conn redis.Conn) {
	conn.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, conn)
}

// fail answers requests that got no answer.
func (a *acker) fail(batch []*request, err error) {
	a.mu.Lock()
	if a.closed != nil {
		err = a.closed // close has cut the connection
	}
	a.mu.Unlock()
	for _, r := range batch {
		r.finish(nil, err)
	}
}

// carry sends a batch and answers each of its requests: a refusal at once, a
// lock when replicas have it. It returns false if the connection is of no more
// use.
func (a *acker) carry(conn redis.Conn, batch []*request) bool {
	batch = slices.DeleteFunc(batch, func(r *request) bool {
		gone := r.state.Load() == abandoned // it has waited for others, and its caller has left
		if gone {
			r.finish(nil, context.Canceled)
		}
		return gone
	})
	stamp := time.Now() // the wait for replicas comes off the trust
	for _, r := range batch {
		r.answer.stamp = stamp
	}
	usable := true
	var taken []*request
	for len(batch) > 0 {
		if err := a.write(conn, batch); err != nil {
			a.fail(append(taken, batch...), err)
			return false
		}
		var again []*request
		for i, r := range batch {
			reply, err := redis.ReceiveWithTimeout(conn, max(a.timeout-time.Since(stamp), time.Millisecond))
			if r.asking && err == nil { // that was the answer of ASKING
				reply, err = redis.ReceiveWithTimeout(conn, max(a.timeout-time.Since(stamp), time.Millisecond))
			}
			if _, answered := err.(redis.Error); err != nil && !answered {
				a.fail(append(append(taken, again...), batch[i:]...), err)
				return false
			}
			switch {
			case noScript(err) && !r.eval:
				r.eval = true // it did not run: send the text
				again = append(again, r)
			case err == nil && tookLock(reply):
				r.answer.reply, r.answer.taken = reply, true
				taken = append(taken, r)
			case err != nil && a.node.redirect(r, err):
			default:
				r.finish(reply, err)
				usable = usable && (err == nil || !hasWord(err.Error(), "READONLY"))
			}
		}
		batch = again
	}
	if len(taken) == 0 {
		return usable
	}
	acks, err := a.await(conn)
	for _, r := range taken {
		r.answer.acks = acks
		r.finish(r.answer.reply, err)
	}
	_, answered := err.(redis.Error)
	return usable && (err == nil || answered)
}

// write sends a batch, in the time that an answer may take.
func (a *acker) write(conn redis.Conn, batch []*request) error {
	t := time.AfterFunc(a.timeout, func() { conn.Close() })
	defer t.Stop()
	for _, r := range batch {
		if err := r.send(conn); err != nil {
			return err
		}
	}
	return conn.Flush()
}

// await asks how many replicas have what the connection has written.
func (a *acker) await(conn redis.Conn) (int, error) {
	if err := conn.Send("WAIT", a.replicas, ms(a.wait)); err != nil {
		return 0, err
	}
	if err := conn.Flush(); err != nil {
		return 0, err
	}
	return redis.Int(redis.ReceiveWithTimeout(conn, a.wait+a.timeout))
}

// acquires reports whether s takes something for a hold.
func acquires(s *script.Script) bool {
	switch s {
	case script.Acquire, script.FairTake, script.RwRead, script.RwWrite, script.PermitTake:
		return true
	}
	return false
}

// tookLock reports whether the answer of such a script says yes.
func tookLock(reply any) bool {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return false
	}
	n, _ := values[0].(int64)
	return n > 0
}

// undo releases what an attempt has taken and may not keep, and gives it a new
// field.
func (a *attempt) undo(ctx context.Context) {
	cmd := a.c.releaseOf(a.kind, a.name, a.field(), 0, MinLease)
	ans := a.c.callKeys(ctx, a.name, cmd.script, cmd.keys, nil, cmd.args...)
	if ans.err != nil {
		a.retire()
		return
	}
	a.renew()
}
