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
// goroutines put requests into its queue, one goroutine writes them, and one
// per connection reads the answers. A connection that fails or falls silent
// fails its requests and is replaced at the next one. All methods are safe for
// concurrent use.
type Pipe struct {
	// immutable after New
	cfg   *Config
	ctx   context.Context // its end ends dials; Close must follow
	dials *dialing.Bound

	mu     sync.Mutex // guards what follows; never held during I/O
	work   sync.Cond  // on mu: queue is not empty, or closed
	queue  []*Request // not yet written; swapped out whole by the writer
	closed error      // why it is closed; nil before
	live   *conn      // the connection in use, or nil
	batch  bool       // the writer has requests that it has not written yet
	led    bool       // a caller writes
	early  bool       // the writer dials although no request is queued
	warmed bool       // early was set since the last connection was made

	calm atomic.Pointer[conn] // live, if a caller may lead it; nil otherwise. Changed under conn.mu
	one  [1]*Request          // what a caller writes; of the one that does

	wg sync.WaitGroup // writer and readers
}

// New returns a Pipe and starts its writer. The Pipe dials at its first request. Close
// it after ctx has ended. cfg must not be changed any more.
func New(ctx context.Context, cfg *Config) *Pipe {
	p := &Pipe{cfg: cfg, ctx: ctx, dials: dialing.NewBound(1)}
	p.work.L = &p.mu
	p.wg.Go(cfg.Cast.As("write commands", p.write))
	return p
}

// Put queues r. r is completed in any case.
func (p *Pipe) Put(r *Request) {
	p.mu.Lock()
	if err := p.closed; err != nil {
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
	c, idle := p.live, len(p.queue) == 0 && !p.batch && !p.led
	p.mu.Unlock()
	return idle && c != nil && !c.busy()
}

// warm makes the writer dial before the first request, unless that was done in vain.
func (p *Pipe) warm() {
	p.mu.Lock()
	c := p.live
	p.mu.Unlock()
	if c != nil && !c.isDead() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == c && !p.warmed {
		p.early, p.warmed = true, true
		p.work.Signal()
	}
}

// Close fails all requests with why, including later ones. It returns when no
// goroutine of the Pipe runs.
func (p *Pipe) Close(why error) {
	p.mu.Lock()
	p.closed = why
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
		if batch, open = p.next(batch); !open {
			return
		}
		p.writeBatch(batch)
		clear(batch)
	}
}

// next waits for requests and takes them all; spare is the slice of the batch before. It
// reports false when the Pipe is closed.
func (p *Pipe) next(spare []*Request) (batch []*Request, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batch = false
	for (len(p.queue) == 0 && !p.early || p.led) && p.closed == nil {
		p.work.Wait()
	}
	if p.live != nil && p.live.busy() && p.closed == nil {
		// There are other callers. Those that are about to put a request (a
		// read has just woken many, say) go first: one write for all of them
		// is much less work than a write each.
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	if p.closed != nil {
		return nil, false
	}
	batch = p.queue
	p.queue, p.batch, p.early = spare[:0], true, false
	return batch, true
}

func (p *Pipe) writeBatch(batch []*Request) {
	c, err := p.connection()
	if err != nil {
		for _, r := range batch {
			r.Fail(err)
		}
		return
	}
	if batch = wanted(batch); len(batch) > 0 {
		c.write(batch)
	}
}

// wanted returns the requests that must still be written. It completes the others,
// whose callers have left or whose time is over.
func wanted(batch []*Request) []*Request {
	now := time.Now()
	return slices.DeleteFunc(batch, func(r *Request) bool {
		why := ErrExpired
		switch {
		case r.left():
			why = context.Canceled
		case !r.over(now):
			return false
		}
		r.notRun()
		r.Fail(why)
		return true
	})
}

// connection returns the live connection, dialling one if there is none.
func (p *Pipe) connection() (*conn, error) {
	p.mu.Lock()
	c := p.live
	p.mu.Unlock()
	if c != nil && c.ready() {
		return c, nil
	}
	dialed, err := p.cfg.Dial(p.ctx, p.dials)
	if err != nil {
		return nil, err
	}
	c = newConn(p, dialed)
	if err := p.use(c); err != nil {
		dialed.Conn.Close()
		return nil, err
	}
	if p.cfg.Epoch() != dialed.Epoch { // Drop came before, and did not see c
		c.fail(ErrReplaced)
		return nil, ErrReplaced
	}
	return c, nil
}

// use makes c the live connection, so that Drop and Close find it. An error says
// that Close came before.
func (p *Pipe) use(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return p.closed
	}
	p.live, p.warmed = c, false
	p.wg.Go(p.cfg.Cast.As("read answers", c.read))
	return nil
}
