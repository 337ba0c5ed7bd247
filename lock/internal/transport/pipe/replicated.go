package pipe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
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
	ctx   context.Context // its end ends dials, whose requests then fail with its cause; Close must follow
	dials *dialing.Bound  // begins no dial while one per connection is left behind

	mu          sync.Mutex // guards what follows, and replicaConn.err; never held during I/O
	work        sync.Cond  // on mu: queue is not empty, or closed
	queue       []*Request
	closeReason error                     // nil until it is closed
	conns       map[*replicaConn]struct{} // in use

	wg sync.WaitGroup
}

// replicaConn is one connection of a Replicated. A goroutine of its own reads it, also while no request
// is in flight. So a connection that has ended is not used, and bytes that come without a request end
// it.
type replicaConn struct {
	*Exchange
	limit   *time.Timer        // runs checkAge while isLimited
	answers chan replicaAnswer // has room for all requests that can be in flight
	failed  chan struct{}      // closed once the connection has failed and Config.Failed was called
	err     error              // why it has failed; nil before. It does not change once failed is closed

	isLimited bool // a batch is sent or waits for its answers; guarded by Exchange.mu
}

// replicaAnswer is the answer to the oldest request that had none.
type replicaAnswer struct {
	reply   resp.Reply
	refusal error
}

// maxAcked bounds the acquisitions that share a WAIT.
const maxAcked = 128

// NewReplicated returns a Replicated with conns connections. It dials a connection when
// it needs one. Close it after ctx has ended. cfg must not be changed any more.
func NewReplicated(ctx context.Context, cfg *Config, conns int) *Replicated {
	p := &Replicated{cfg: cfg, ctx: ctx, dials: dialing.NewBound(conns), conns: make(map[*replicaConn]struct{})}
	p.work.L = &p.mu
	for range conns {
		p.wg.Go(cfg.Labeler.Label("replicate", p.runConn))
	}
	return p
}

// Put queues r. r is completed in any case.
func (p *Replicated) Put(r *Request) {
	p.mu.Lock()
	if err := p.closeReason; err != nil {
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
	p.failAll(conns, ErrReplaced)
}

// failAll fails connections at the same time, because each close may take long. It
// waits for the slowest.
func (p *Replicated) failAll(conns []*replicaConn, err error) {
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() { p.failConn(c, err) })
	}
	wg.Wait()
}

// failConn closes a connection, which is not used any more. Only the first call counts.
func (p *Replicated) failConn(c *replicaConn, err error) {
	p.mu.Lock()
	if c.err != nil {
		p.mu.Unlock()
		return
	}
	c.err = err
	delete(p.conns, c)
	p.mu.Unlock()
	p.cfg.Failed(err)
	close(c.failed)
	c.redis.Close()
}

// Close fails all requests with why, including later ones. It returns when no
// goroutine of the Replicated runs.
func (p *Replicated) Close(why error) {
	p.mu.Lock()
	p.closeReason = why
	queue := p.queue
	p.queue = nil
	p.work.Broadcast()
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	p.fail(queue, why)
	p.failAll(conns, why)
	p.wg.Wait()
}

// runConn writes the requests of one connection after the other.
func (p *Replicated) runConn() {
	var c *replicaConn // only this goroutine writes to it
	for {
		batch := p.takeBatch()
		if batch == nil {
			return // Close has failed c
		}
		var err error
		if c != nil && c.IsOld() {
			p.failConn(c, ErrReplaced)
		}
		if c == nil || wait.Closed(c.failed) {
			c, err = p.dial()
		}
		if err != nil {
			p.fail(batch, err)
			continue
		}
		p.sendBatch(c, batch)
	}
}

// takeBatch waits for requests; nil means that the Replicated is closed.
func (p *Replicated) takeBatch() []*Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && p.closeReason == nil {
		p.work.Wait()
	}
	if p.closeReason != nil {
		return nil
	}
	n := min(len(p.queue), maxAcked)
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	return batch
}

func (p *Replicated) dial() (*replicaConn, error) {
	dialed, err := p.cfg.dial(p.ctx, p.dials)
	if err != nil {
		return nil, err
	}
	c := &replicaConn{
		Exchange: NewExchange(p.cfg, dialed),
		answers:  make(chan replicaAnswer, maxAcked), failed: make(chan struct{}),
	}
	if err := p.addConn(c); err != nil {
		dialed.Conn.Close()
		return nil, err
	}
	if p.cfg.Epoch() != dialed.Epoch { // Drop came before, and did not see the connection
		p.failConn(c, ErrReplaced)
		return nil, ErrReplaced
	}
	c.limit = time.AfterFunc(p.cfg.Timeout, func() { p.checkAge(c) })
	return c, nil
}

// addConn adds c to the connections in use, so that Drop and Close find it. An error
// says that Close came before.
func (p *Replicated) addConn(c *replicaConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closeReason != nil {
		return p.closeReason
	}
	p.conns[c] = struct{}{}
	p.wg.Go(p.cfg.Labeler.Label("read answers", func() { p.read(c) }))
	return nil
}

// setLimited makes checkAge run from now on, or no more.
func (c *replicaConn) setLimited(isLimited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isLimited = isLimited; isLimited {
		c.limit.Reset(c.cfg.Timeout)
	} else {
		c.limit.Stop()
	}
}

// checkAge closes the connection if its oldest request is too old, see lookAtAgeLocked. It also looks
// again if nothing is in flight, because the batch may be written only now.
func (p *Replicated) checkAge(c *replicaConn) {
	c.mu.Lock()
	next, isOver := p.cfg.Timeout, false
	if len(c.inflight.waiting()) > 0 {
		next, isOver = c.lookAtAgeLocked()
	}
	if c.isLimited && !isOver {
		c.limit.Reset(next)
	}
	c.mu.Unlock()
	if isOver {
		p.failConn(c, ErrUnanswered)
	}
}

// read is the body of a connection's reader.
func (p *Replicated) read(c *replicaConn) {
	for {
		_, reply, refusal, err := c.Next()
		if err != nil {
			p.failConn(c, err)
			return
		}
		c.answers <- replicaAnswer{reply, refusal}
	}
}

// nextAnswer waits for the answer to the oldest request, or until the connection has failed.
func (c *replicaConn) nextAnswer() (replicaAnswer, error) {
	select {
	case a := <-c.answers:
		return a, nil
	case <-c.failed:
	}
	select {
	case a := <-c.answers: // it came before the end
		return a, nil
	default:
		return replicaAnswer{}, c.err
	}
}

// fail completes requests that got no answer.
func (p *Replicated) fail(batch []*Request, err error) {
	p.mu.Lock()
	if p.closeReason != nil {
		err = p.closeReason // Close has cut the connection
	}
	p.mu.Unlock()
	for _, r := range batch {
		r.Fail(err)
	}
}

// sendBatch sends a batch and completes each of its requests. A refusal is completed at
// once, and an acquisition when replicas have it.
func (p *Replicated) sendBatch(c *replicaConn, batch []*Request) {
	c.setLimited(true)
	defer c.setLimited(false)
	batch = withoutExpired(batch) // they may have waited in the queue for long
	var taken []*Request
	var demoted error
	for len(batch) > 0 {
		if err := c.Write(batch); err != nil {
			p.failConn(c, err) // nextAnswer returns the error
		}
		var again []*Request
		for i, r := range batch {
			a, err := c.nextAnswer()
			if err != nil {
				p.fail(slices.Concat(taken, again, batch[i:]), err)
				return
			}
			if a.refusal == nil && tookLock(a.reply) {
				r.answer.Reply, r.answer.Taken = a.reply, true
				taken = append(taken, r)
				continue
			}
			switch c.judge(r, a.refusal) {
			case AsText, Late:
				again = append(again, r)
			case Elsewhere:
			case Demoted:
				demoted = a.refusal
				r.Fail(a.refusal)
			default:
				r.complete(a.reply, a.refusal)
			}
		}
		batch = again
	}
	if len(taken) > 0 {
		acks, err := p.awaitReplicas(c)
		for _, r := range taken {
			r.answer.Acks = acks
			r.complete(r.answer.Reply, err)
		}
	}
	if demoted != nil {
		p.failConn(c, givenUp(demoted))
	}
}

// awaitReplicas asks how many replicas have what the connection has written.
func (p *Replicated) awaitReplicas(c *replicaConn) (int, error) {
	if err := c.askReplicas(); err != nil {
		p.failConn(c, err) // nextAnswer returns the error
	}
	a, err := c.nextAnswer()
	if err != nil {
		return 0, err
	}
	acks, err := redis.Int(a.reply.Any(), a.refusal)
	if isBroken(err) {
		p.failConn(c, err)
	}
	return acks, err
}

// askReplicas writes WAIT.
func (c *replicaConn) askReplicas() error {
	question := []*Request{newQuestion(replicasQuestion, time.Now(), "")}
	c.mu.Lock()
	c.inflight.add(question...)
	c.mu.Unlock()
	return c.send(question)
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
