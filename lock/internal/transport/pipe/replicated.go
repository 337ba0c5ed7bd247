package pipe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Replicated carries acquisitions that replicas must have (Config.Replicas). WAIT
// covers the writes of its own connection, and delays everything behind it. So
// these acquisitions have their own connections. Requests that come while all
// connections wait are sent together next, and share one WAIT. All methods are safe
// for concurrent use.
type Replicated struct {
	// immutable after NewReplicated
	cfg   *Config
	ctx   context.Context // its end ends dials; Close must follow
	dials *dialing.Bound  // leaves at most one dial per connection behind

	mu     sync.Mutex // guards what follows; never held during I/O
	work   sync.Cond  // on mu: queue is not empty, or closed
	queue  []*Request
	closed error                   // why it is closed; nil before
	conns  map[redis.Conn]struct{} // in use

	wg sync.WaitGroup
}

// maxAcked bounds the acquisitions that share a WAIT.
const maxAcked = 128

// NewReplicated returns a Replicated with conns connections. It dials a connection when
// it needs one. Close it after ctx has ended. cfg must not be changed any more.
func NewReplicated(ctx context.Context, cfg *Config, conns int) *Replicated {
	p := &Replicated{cfg: cfg, ctx: ctx, dials: dialing.NewBound(conns), conns: make(map[redis.Conn]struct{})}
	p.work.L = &p.mu
	for range conns {
		p.wg.Go(cfg.Cast.As("replicate", p.runConn))
	}
	return p
}

// Put queues r. r is completed in any case.
func (p *Replicated) Put(r *Request) {
	p.mu.Lock()
	if err := p.closed; err != nil {
		p.mu.Unlock()
		r.Fail(err)
		return
	}
	p.queue = append(p.queue, r)
	p.work.Signal()
	p.mu.Unlock()
}

// Drop closes the connections in use, because the server's epoch has ended.
func (p *Replicated) Drop() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	closeAll(conns)
}

// closeAll closes connections at the same time, because each close may take long. It
// waits for the slowest.
func closeAll(conns []redis.Conn) {
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() { conn.Close() })
	}
	wg.Wait()
}

// Close fails all requests with why, including later ones. It returns when no
// goroutine of the Replicated runs.
func (p *Replicated) Close(why error) {
	p.mu.Lock()
	p.closed = why
	queue := p.queue
	p.queue = nil
	p.work.Broadcast()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	p.fail(queue, why)
	closeAll(conns)
	p.wg.Wait()
}

// runConn is the body of one connection's goroutine.
func (p *Replicated) runConn() {
	var conn *Exchange // only this goroutine uses it
	for {
		batch := p.takeBatch()
		if batch == nil {
			break
		}
		var err error
		if conn == nil {
			conn, err = p.dial()
		}
		if err != nil {
			p.fail(batch, err)
			continue
		}
		if !p.sendBatch(conn, batch) {
			p.closeConn(conn.redis)
			conn = nil
		}
	}
	if conn != nil {
		p.closeConn(conn.redis)
	}
}

// takeBatch waits for requests; nil means that the Replicated is closed.
func (p *Replicated) takeBatch() []*Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && p.closed == nil {
		p.work.Wait()
	}
	if p.closed != nil {
		return nil
	}
	n := min(len(p.queue), maxAcked)
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	return batch
}

func (p *Replicated) dial() (*Exchange, error) {
	dialed, err := p.cfg.Dial(p.ctx, p.dials)
	if err != nil {
		return nil, err
	}
	if err := p.addConn(dialed.Conn); err != nil {
		dialed.Conn.Close()
		return nil, err
	}
	if p.cfg.Epoch() != dialed.Epoch { // Drop came before, and did not see the connection
		p.closeConn(dialed.Conn)
		return nil, ErrReplaced
	}
	return NewExchange(p.cfg, dialed), nil
}

// addConn adds conn to the connections in use, so that Drop and Close find it. An error
// says that Close came before.
func (p *Replicated) addConn(conn redis.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return p.closed
	}
	p.conns[conn] = struct{}{}
	return nil
}

func (p *Replicated) closeConn(conn redis.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// fail completes requests that got no answer.
func (p *Replicated) fail(batch []*Request, err error) {
	p.mu.Lock()
	if p.closed != nil {
		err = p.closed // Close has cut the connection
	}
	p.mu.Unlock()
	for _, r := range batch {
		r.Fail(err)
	}
}

// sendBatch sends a batch and completes each of its requests. A refusal is completed at
// once, and an acquisition when replicas have it. sendBatch returns false if the
// connection is not usable.
func (p *Replicated) sendBatch(conn *Exchange, batch []*Request) bool {
	batch = withoutExpired(batch) // they may have waited in the queue for long
	usable := true
	var taken []*Request
	for len(batch) > 0 {
		began := time.Now()
		err := p.write(conn, batch)
		var again []*Request
		for range batch {
			var r *Request
			var reply resp.Reply
			var refusal error
			if err == nil {
				r, reply, refusal, err = conn.Next(max(p.cfg.Timeout-time.Since(began), time.Millisecond))
			}
			if err != nil {
				p.cfg.Failed(err)
				p.fail(slices.Concat(taken, again, conn.takeAll()), err)
				return false
			}
			if refusal == nil && tookLock(reply) {
				r.answer.Reply, r.answer.Taken = reply, true
				taken = append(taken, r)
				continue
			}
			switch conn.judge(r, refusal) {
			case AsText, Late:
				again = append(again, r)
			case Elsewhere:
			case Demoted:
				if usable {
					p.cfg.Failed(refusal)
				}
				r.Fail(refusal)
				usable = false
			default:
				r.complete(reply, refusal)
			}
		}
		batch = again
	}
	if len(taken) == 0 {
		return usable
	}
	acks, err := p.awaitReplicas(conn)
	for _, r := range taken {
		r.answer.Acks = acks
		r.complete(r.answer.Reply, err)
	}
	return usable && !isBroken(err)
}

// write is conn.Write, within the time that an answer may take.
func (p *Replicated) write(conn *Exchange, batch []*Request) error {
	t := time.AfterFunc(p.cfg.Timeout, func() { conn.redis.Close() })
	defer t.Stop()
	return conn.Write(batch)
}

// awaitReplicas asks how many replicas have what the connection has written.
func (p *Replicated) awaitReplicas(conn *Exchange) (int, error) {
	if err := conn.batch.Command("WAIT", int64(p.cfg.Replicas), p.cfg.ReplicaTimeout.Milliseconds()); err != nil {
		return 0, err
	}
	if err := conn.batch.Flush(); err != nil {
		return 0, err
	}
	return redis.Int(resp.Receive(conn.redis, p.cfg.ReplicaTimeout+p.cfg.Timeout))
}

// tookLock reports whether the answer of a script that acquires says yes.
func tookLock(reply resp.Reply) bool {
	if numbers := reply.Numbers(); numbers != nil {
		return numbers[0] > 0
	}
	values, ok := reply.Other().([]any)
	if !ok || len(values) == 0 {
		return false
	}
	n, _ := values[0].(int64)
	return n > 0
}
