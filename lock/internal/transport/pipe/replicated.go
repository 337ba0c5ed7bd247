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
	dials *dialing.Bound  // one of each connection

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
	var conn *replicatedConn
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
			p.closeConn(conn.Conn)
			conn = nil
		}
	}
	if conn != nil {
		p.closeConn(conn.Conn)
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

// replicatedConn is a connection that only its own goroutine uses.
type replicatedConn struct {
	redis.Conn
	batch       *resp.Batch
	clock       Clock // of the server
	proof       proof
	hasAnswered bool // has answered a request
}

func (p *Replicated) dial() (*replicatedConn, error) {
	dialed, err := p.cfg.Dial(p.ctx, p.dials)
	if err != nil {
		return nil, err
	}
	if err := p.addConn(dialed.Conn); err != nil {
		dialed.Conn.Close()
		return nil, err
	}
	if p.cfg.Epoch() != dialed.Epoch { // Drop came before, and did not see it
		p.closeConn(dialed.Conn)
		return nil, ErrReplaced
	}
	return &replicatedConn{Conn: dialed.Conn, batch: resp.NewBatch(dialed.Conn), clock: dialed.Clock, proof: p.cfg.proofOf()}, nil
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
func (p *Replicated) sendBatch(conn *replicatedConn, batch []*Request) bool {
	batch = withoutExpired(batch) // they have waited for others
	usable := true
	var taken []*Request
	for len(batch) > 0 {
		stamp := time.Now() // the hold counts from here, before the wait for replicas
		asksTime, asksProof, err := p.write(conn, batch)
		if err == nil && asksTime {
			err = p.readTime(conn, stamp)
		}
		if err == nil && asksProof {
			err = p.readProof(conn, stamp)
		}
		if err != nil {
			p.cfg.Failed(err)
			p.fail(append(taken, batch...), err)
			return false
		}
		var again []*Request
		for i, r := range batch {
			reply, err := p.receive(conn.Conn, stamp)
			if r.asking && !isBroken(err) { // that was the answer of ASKING, which may be refused
				reply, err = p.receive(conn.Conn, stamp)
			}
			if isBroken(err) {
				p.cfg.Failed(err)
				p.fail(append(append(taken, again...), batch[i:]...), err)
				return false
			}
			if !conn.hasAnswered {
				conn.hasAnswered = true
				p.cfg.Answered()
			}
			if err == nil && tookLock(reply) {
				r.answer.Reply, r.answer.Taken = reply, true
				taken = append(taken, r)
				continue
			}
			if server, late := Lateness(err); late && p.sample(conn, r.answer.Stamp, server, LateUnit) {
				r.clockChanges++
			}
			switch p.cfg.judgeAnswer(r, err) {
			case AsText:
				again = append(again, r)
			case Late:
				if r.clockChanges == MaxLates {
					conn.clock.Distrust()
					p.cfg.Timed(conn.clock, 0)
				}
				again = append(again, r)
			case Elsewhere:
			case Demoted:
				if usable {
					p.cfg.Failed(err)
				}
				r.Fail(err)
				usable = false
			default:
				r.complete(reply, err)
			}
		}
		batch = again
	}
	if len(taken) == 0 {
		return usable
	}
	acks, err := p.awaitReplicas(conn.Conn)
	for _, r := range taken {
		r.answer.Acks = acks
		r.complete(r.answer.Reply, err)
	}
	return usable && !isBroken(err)
}

// write stamps and sends a batch, within the time that an answer may take. See conn.register
// for asksTime and asksProof.
func (p *Replicated) write(conn *replicatedConn, batch []*Request) (asksTime, asksProof bool, err error) {
	t := time.AfterFunc(p.cfg.Timeout, func() { conn.Close() })
	defer t.Stop()
	now := time.Now()
	if asksTime = conn.clock.Due(now); asksTime {
		conn.clock.Asking(now)
		if err := conn.batch.Command("TIME"); err != nil {
			return true, false, err
		}
	}
	if asksProof = conn.proof.isDue(p.cfg, now, batch); asksProof {
		if err := askProof(conn.batch, batch); err != nil {
			return asksTime, true, err
		}
	}
	st := conn.clock.stamp(now, p.cfg.Timeout)
	for _, r := range batch {
		r.stamp(&st)
	}
	for _, r := range batch {
		if err := r.send(conn.batch); err != nil {
			return asksTime, asksProof, err
		}
	}
	return asksTime, asksProof, conn.batch.Flush()
}

// receive reads an answer to a batch that was sent at began.
func (p *Replicated) receive(conn redis.Conn, began time.Time) (resp.Reply, error) {
	return resp.ReceiveReply(conn, max(p.cfg.Timeout-time.Since(began), time.Millisecond))
}

// readTime reads the answer of TIME. An error means that the connection is not usable.
func (p *Replicated) readTime(conn *replicatedConn, began time.Time) error {
	reply, err := p.receive(conn.Conn, began)
	if isBroken(err) {
		return err
	}
	if server, err := TimeOf(reply.Any(), err); err == nil {
		p.sample(conn, conn.clock.lastAsked, server, 0)
	}
	return nil
}

// readProof reads the answer of askProof. An error means that the connection is not usable.
func (p *Replicated) readProof(conn *replicatedConn, began time.Time) error {
	_, err := p.receive(conn.Conn, began)
	if isBroken(err) {
		return err
	}
	return p.cfg.proved(began, err)
}

// sample is conn.sample.
func (p *Replicated) sample(conn *replicatedConn, sent, server time.Time, unit time.Duration) bool {
	off := conn.clock.Sample(sent, time.Now(), server, unit)
	p.cfg.Timed(conn.clock, off)
	return off != 0
}

// awaitReplicas asks how many replicas have what the connection has written.
func (p *Replicated) awaitReplicas(conn redis.Conn) (int, error) {
	if err := conn.Send("WAIT", p.cfg.Replicas, p.cfg.ReplicaTimeout.Milliseconds()); err != nil {
		return 0, err
	}
	if err := conn.Flush(); err != nil {
		return 0, err
	}
	return redis.Int(resp.Receive(conn, p.cfg.ReplicaTimeout+p.cfg.Timeout))
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
