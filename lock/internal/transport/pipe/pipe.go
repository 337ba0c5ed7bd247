package pipe

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// Pipe is one long-lived pipelined connection to a server. Any number of
// goroutines put requests into its queue. One goroutine at a time writes them: the
// Pipe's own, or a caller. One at a time reads the answers of a connection: its own, or
// a caller that waits. A connection that fails or falls silent
// fails its requests and is replaced at the next one. All methods are safe for
// concurrent use.
type Pipe struct {
	// immutable after New
	cfg   *Config
	ctx   context.Context // if it ends, dials end, and their requests fail with its cause; Close must follow
	dials *dialing.Bound
	yield func() // runtime.Gosched, but in tests

	mu              sync.Mutex // guards what follows; never held during I/O
	work            sync.Cond  // on mu: queue is not empty, or closed
	queue           []*Request // not yet written; swapped out whole by the writer
	closeReason     error      // nil until it is closed
	live            *conn      // the connection in use, or nil
	isWriterBusy    bool       // the writer has requests that it has not written yet
	isCallerWriting bool       // a caller writes
	dialsEarly      bool       // the writer dials although no request is queued
	wasWarmed       bool       // dialsEarly was set once since the last connection was made

	leadable atomic.Pointer[conn] // the live connection if nobody reads it, so a caller may lead; nil otherwise. Changed under the mutex of that connection

	wg sync.WaitGroup // writer and readers
}

// New returns a Pipe and starts its writer. The Pipe dials at its first request. Close
// it after ctx has ended. The cause of ctx should be the reason that Close gets. cfg must
// not be changed any more.
func New(ctx context.Context, cfg *Config) *Pipe {
	p := &Pipe{cfg: cfg, ctx: ctx, dials: dialing.NewBound(1), yield: runtime.Gosched}
	p.work.L = &p.mu
	p.wg.Go(cfg.Labeler.Label("write commands", p.write))
	return p
}

// Put queues r. r is completed in any case.
func (p *Pipe) Put(r *Request) {
	p.mu.Lock()
	if err := p.closeReason; err != nil {
		p.mu.Unlock()
		r.Fail(err)
		return
	}
	p.queue = append(p.queue, r)
	if len(p.queue) == 1 {
		p.work.Signal()
	}
	p.mu.Unlock()
}

// isIdle reports whether there is a connection that works, and no request is under way.
func (p *Pipe) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live != nil && len(p.queue) == 0 && !p.isWriterBusy && !p.isCallerWriting && !p.live.isBusy()
}

// warm makes the writer dial although no request is queued. It does so only once until a connection
// was made, so a server that cannot be reached is not dialled again and again.
func (p *Pipe) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wasWarmed && (p.live == nil || p.live.isDead()) {
		p.dialsEarly, p.wasWarmed = true, true
		p.work.Signal()
	}
}

// Close fails all requests with why, including later ones. It returns when no
// goroutine of the Pipe runs.
func (p *Pipe) Close(why error) {
	p.mu.Lock()
	p.closeReason = why
	queue, live := p.queue, p.live
	p.queue = nil
	p.work.Signal()
	p.mu.Unlock()
	for _, r := range queue {
		r.Fail(why)
	}
	if live != nil {
		live.fail(why)
	}
	p.wg.Wait()
}

// Drop closes the connection in use, because the server's epoch has ended.
func (p *Pipe) Drop() {
	p.mu.Lock()
	live := p.live
	p.mu.Unlock()
	if live != nil {
		live.fail(ErrReplaced)
	}
}

// write is the writer's body.
func (p *Pipe) write() {
	var batch []*Request
	for {
		var open bool
		if batch, open = p.takeQueue(batch); !open {
			return
		}
		p.writeBatch(batch)
		clear(batch)
	}
}

// takeQueue waits for requests and takes them all; spare is the slice of the batch before. It
// reports false when the Pipe is closed.
func (p *Pipe) takeQueue(spare []*Request) (batch []*Request, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isWriterBusy = false
	for hasYielded := false; ; hasYielded = true {
		for (len(p.queue) == 0 && !p.dialsEarly || p.isCallerWriting) && p.closeReason == nil {
			p.work.Wait()
		}
		if hasYielded || p.live == nil || !p.live.isBusy() || p.closeReason != nil {
			break
		}
		// There are other callers. If some are about to put a request, for
		// example because a read has just woken many, they go first: one write
		// for many requests is much less work than a write for each. A caller may
		// begin to write its own request meanwhile. Then the writer waits again.
		p.mu.Unlock()
		p.yield()
		p.mu.Lock()
	}
	if p.closeReason != nil {
		return nil, false
	}
	batch = p.queue
	p.queue, p.isWriterBusy, p.dialsEarly = spare[:0], true, false
	return batch, true
}

func (p *Pipe) writeBatch(batch []*Request) {
	c, err := p.liveConn()
	if err != nil {
		for _, r := range batch {
			r.Fail(err)
		}
		return
	}
	if batch = withoutExpired(batch); len(batch) > 0 {
		c.write(batch)
	}
}

// withoutExpired returns the requests that must still be written. It completes the others,
// whose callers have left or whose time is over.
func withoutExpired(batch []*Request) []*Request {
	now := time.Now()
	return slices.DeleteFunc(batch, func(r *Request) bool {
		why := ErrExpired
		switch {
		case r.isAbandoned():
			why = context.Canceled
		case !r.isExpired(now):
			return false
		}
		r.markNotRun()
		r.Fail(why)
		return true
	})
}

// liveConn returns the live connection, dialling one if there is none.
func (p *Pipe) liveConn() (*conn, error) {
	p.mu.Lock()
	c := p.live
	p.mu.Unlock()
	if c != nil && c.checkReady() {
		return c, nil
	}
	dialed, err := p.cfg.dial(p.ctx, p.dials)
	if err != nil {
		return nil, err
	}
	c = newConn(p, dialed)
	if err := p.setLive(c); err != nil {
		dialed.Conn.Close()
		return nil, err
	}
	if p.cfg.Epoch() != dialed.Epoch { // Drop came before, and did not see c
		c.fail(ErrReplaced)
		return nil, ErrReplaced
	}
	return c, nil
}

// setLive makes c the live connection, so that Drop and Close find it. An error says
// that Close came before.
func (p *Pipe) setLive(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closeReason != nil {
		return p.closeReason
	}
	p.live, p.wasWarmed = c, false
	p.wg.Go(p.cfg.Labeler.Label("read answers", c.read))
	return nil
}
