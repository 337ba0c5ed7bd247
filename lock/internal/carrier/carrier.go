package carrier

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/renewal"
)

// Config is what a Carrier gets from above. Its functions are called with no lock
// held.
type Config struct {
	Timeout time.Duration // of a dial, and of a round trip
	Conns   int           // how many connections are used at most: one per dispatcher of the lane
	// Prefix is what the fields of all holds begin with.
	Prefix string
	// Slots: keys have slots, as in a Redis Cluster.
	Slots bool
	// Server is the name of the server, to which redirections may refer.
	Server string
	// Cast names the goroutines.
	Cast *role.Cast
	// Dial opens a connection. No more dials than the Bound says are left behind.
	Dial func(context.Context, *dialing.Bound) (pipe.Connection, error)
	// Epoch counts the servers that the Carrier's stood for.
	Epoch func() uint32
	// Timed is told what is known of the server's clock, see pipe.Config.
	Timed func(c pipe.Clock, off time.Duration)
	// Target returns the lane of the server that a redirection leads to, nil if
	// there is none any more.
	Target func(pipe.Redirection) *renewal.Lane
	// Answered is told how each batch ended, Failed of each that failed, Resumed
	// that there is a connection again after a time without.
	Answered func(error)
	Failed   func(error)
	Resumed  func()
}

// ErrClosed is how a batch ends that comes after Close.
var ErrClosed = errors.New("carrier: closed")

// Carrier implements renewal.Renewer for one server.
type Carrier struct {
	// immutable
	cfg     Config
	slots   chan struct{} // one a connection: holds a token for each in use
	ctx     context.Context
	cancel  context.CancelFunc
	dials   *dialing.Bound // one of each connection
	beside  *dialing.Bound // hedges
	hedging sync.WaitGroup // and opening
	opened  atomic.Bool    // Open was called

	mu         sync.Mutex // guards what follows; never held during I/O
	idle       []*pipeline
	waits      map[*wait]struct{} // dials and round trips without an answer
	rtt        time.Duration      // of round trips, smoothed
	hedgeAfter time.Duration      // how long a wait lasts before a hedge begins, and then the next
	hedges     int                // on their way
	hedged     time.Time          // when the last of them began
	broken     bool               // a connection was given up, and none was made since
	closed     bool
}

const (
	// maxHedges is how many connections are dialled beside slow ones at once.
	maxHedges = 3
	// maxBeside is how many of those may be left behind, where the dial function
	// does not heed its context: one each hedgeAfter for two thirds of a lease.
	maxBeside = 20
)

var (
	// errSuperseded: another connection was answered meanwhile.
	errSuperseded = errors.New("carrier: another connection is answered")
	// errEnded: the connection had ended while it was idle, as servers end them that are told to.
	errEnded = errors.New("carrier: the connection ended while it was idle")
)

// New returns a Carrier, which does nothing before Open or its first batch.
func New(cfg Config) *Carrier {
	r := &Carrier{
		cfg: cfg, slots: make(chan struct{}, cfg.Conns), waits: make(map[*wait]struct{}),
		dials: dialing.NewBound(cfg.Conns), beside: dialing.NewBound(maxBeside),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Open dials the connections, once, and does not wait for that. So what is held already is
// renewed although the server takes no new connections from then on, because a password was
// changed, say. What cannot be dialled now, a batch dials.
func (r *Carrier) Open() {
	if r.opened.Load() || r.opened.Swap(true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.hedging.Go(r.cfg.Cast.As("open connections", r.open))
	}
}

func (r *Carrier) open() {
	for range cap(r.slots) {
		r.mu.Lock()
		enough := r.closed || len(r.idle)+len(r.slots) >= cap(r.slots) // a batch was first
		r.mu.Unlock()
		if enough {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Timeout)
		dialed, err := r.cfg.Dial(ctx, r.dials)
		cancel()
		if err != nil {
			return
		}
		r.connected()
		r.put(newPipeline(r, dialed), true)
	}
}

// Renew renews the holds of b. See renewal.Renewer for what it must report.
func (r *Carrier) Renew(ctx context.Context, b *renewal.Batch) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		b.Fail(ctx.Err())
		return
	}
	for {
		err := r.exchange(ctx, b)
		if err == nil {
			return
		}
		if err != errSuperseded && err != errEnded || ctx.Err() != nil {
			b.Fail(err)
			return
		}
	}
}

// exchange makes one round trip, or a few if the server has not run all of it: it
// had forgotten the script, or a slot was on its way to another server.
func (r *Carrier) exchange(ctx context.Context, b *renewal.Batch) error {
	c, idled, err := r.get(ctx, b.TTL())
	if err != nil {
		return err
	}
	r.begin(&c.wait, b.TTL())
	if c.epoch != r.cfg.Epoch() {
		r.end(&c.wait)
		r.put(c, false)
		return errSuperseded
	}
	stop := context.AfterFunc(ctx, c.wait.abort)
	again := true
	for sent := (round{}); again && err == nil; {
		again, err = c.renew(b, &sent, r.cfg.Timeout)
	}
	cut := !stop()
	superseded := r.end(&c.wait)
	cut = cut || superseded // and closed, perhaps after the last answer was read
	r.cfg.Answered(err)
	if err == nil {
		r.measure(time.Since(c.wait.began))
	}
	verdict, _ := pipe.VerdictOf(err, true, r.cfg.Server)
	r.put(c, verdict != pipe.Broken && verdict != pipe.Demoted && !cut)
	if err != nil {
		r.cfg.Failed(err)
	}
	switch {
	case superseded && verdict == pipe.Broken:
		return errSuperseded
	case idled && !cut && verdict == pipe.Broken && ended(err):
		return errEnded
	}
	return err
}

// ended reports whether err says that a connection has ended: not that nothing came in time, nor
// that what came is no answer.
func ended(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && !op.Timeout()
}

// get returns an idle connection, and says so, or a new one.
func (r *Carrier) get(ctx context.Context, ttl time.Duration) (c *pipeline, idled bool, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, false, ErrClosed
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, true, nil
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	w := &wait{abort: cancel}
	r.begin(w, ttl)
	dialed, err := r.cfg.Dial(ctx, r.dials)
	superseded := r.end(w)
	switch {
	case err == nil:
		r.connected()
		return newPipeline(r, dialed), false, nil
	case superseded:
		return nil, false, errSuperseded
	}
	r.mu.Lock()
	r.broken = true
	r.mu.Unlock()
	return nil, false, err
}

// put gives a connection back, or closes it if it is of no more use.
func (r *Carrier) put(c *pipeline, usable bool) {
	usable = usable && c.epoch == r.cfg.Epoch()
	r.mu.Lock()
	usable = usable && !r.closed
	// A hedge that came late has left one more than are used at once.
	if usable && len(r.idle) < cap(r.slots) {
		r.idle = append(r.idle, c)
		r.mu.Unlock()
		return
	}
	r.broken = r.broken || !usable
	r.mu.Unlock()
	c.Close()
}

// connected is called when there is a connection, to tell if that ends
// a time without.
func (r *Carrier) connected() {
	r.mu.Lock()
	resumed := r.broken
	r.broken = false
	r.mu.Unlock()
	if resumed {
		r.cfg.Resumed()
	}
}

// Drop gives all connections up; what waits on them goes on over new ones.
func (r *Carrier) Drop() {
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	var waits []*wait
	for w := range r.waits {
		w.superseded = true
		waits = append(waits, w)
	}
	r.mu.Unlock()
	abortAll(waits, idle)
}

// Close closes the idle connections and awaits the hedges; connections in use
// are closed when they are given back.
func (r *Carrier) Close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	r.cancel()
	for _, c := range idle {
		c.Close()
	}
	r.hedging.Wait()
}
