package renewer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Config has the settings of a Renewer. Its functions are called with no mutex held.
type Config struct {
	Timeout time.Duration // of a round trip
	Conns   int           // the most connections in use: one per dispatcher of the lane
	// Prefix is the beginning of the fields of all holds.
	Prefix string
	// Slots says that keys have slots, as in a Redis Cluster.
	Slots bool
	// Server is the name of the server, to which redirections may refer.
	Server string
	// Labeler names the goroutines.
	Labeler *work.Labeler
	// Dial opens a connection, in a time that it limits itself. The Bound limits how many dials
	// are left behind.
	Dial func(context.Context, *dialing.Bound) (pipe.Connection, error)
	// Epoch returns how often the server behind the name was replaced.
	Epoch func() uint32
	// Timed gets the Clock of the server, see pipe.Config.
	Timed func(c pipe.Clock, off time.Duration)
	// Target returns the lane of the server that a redirection leads to, or nil if
	// that server no longer exists.
	Target func(pipe.Redirection) *renewal.Lane
	// Answered is called each time that a batch was sent over a connection, with the error or
	// nil, and Failed if there was an error. A dial that fails calls neither.
	// Resumed is called when a new connection has answered a batch after a connection had
	// failed. An answer which says that the server is a replica does not count.
	Answered func(error)
	Failed   func(error)
	Resumed  func()
}

// ErrClosed is returned when a batch comes after Close.
var ErrClosed = errors.New("renewer: closed")

// Renewer implements renewal.Renewer for one server.
type Renewer struct {
	// immutable
	cfg        Config
	wire       pipe.Config   // the Config of each connection's Exchange, made from cfg
	inUse      chan struct{} // has a token for each connection in use; its capacity is Config.Conns
	ctx        context.Context
	cancel     context.CancelFunc
	batchDials *dialing.Bound // limits the dials of connections for batches
	hedgeDials *dialing.Bound // limits the dials of hedges
	goroutines sync.WaitGroup // of the hedges, of Open and of callResumed
	opened     atomic.Bool    // Open was called

	mu          sync.Mutex // guards the fields below; never held during I/O
	idle        []*pipeline
	waits       map[*wait]struct{} // dials and round trips without an answer
	rtt         time.Duration      // the time of a round trip, smoothed
	hedgeAfter  time.Duration      // how long a wait lasts before a hedge begins, and the least time between two hedges
	hedgeCount  int                // how many hedges run
	lastHedge   time.Time          // when the last hedge began
	lastResumed time.Time          // when Resumed was last called for a new connection, or will be called
	isBroken    bool               // a connection was closed after a failure, and no new one was made
	closed      bool
}

const (
	// maxHedges is how many hedges run at the same time. If the network swallows all packets, a
	// hedge lasts for a dial and a PING, which take at most a sixth and a tenth of a lease.
	// Meanwhile another hedge begins in every thirtieth of a lease, so eight overlap.
	maxHedges = 8
	// maxHedgeDials is how many dials of hedges may be left behind if the dial function does
	// not heed its context. It is enough for two thirds of a lease, with one hedge in every
	// hedgeAfter.
	maxHedgeDials = 20
)

var (
	// errSuperseded is returned when another connection was answered meanwhile.
	errSuperseded = errors.New("renewer: another connection is answered")
	// errEnded is returned when the server had ended the connection while it was idle.
	errEnded = errors.New("renewer: the connection ended while it was idle")
)

// New returns a Renewer. It does nothing before Open or its first batch.
func New(cfg Config) *Renewer {
	r := &Renewer{
		cfg: cfg, wire: pipe.Config{Timeout: cfg.Timeout, Epoch: cfg.Epoch, Answered: func() {}, Timed: cfg.Timed},
		inUse: make(chan struct{}, cfg.Conns), waits: make(map[*wait]struct{}),
		batchDials: dialing.NewBound(cfg.Conns), hedgeDials: dialing.NewBound(maxHedgeDials),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Open dials the connections, once, and does not wait for them. So locks that are already held
// are renewed even if the server takes no new connections later, for example because a password
// was changed. If a dial fails now, a batch dials again.
func (r *Renewer) Open() {
	if r.opened.Load() || r.opened.Swap(true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.goroutines.Go(r.cfg.Labeler.Label("open connections", r.dialAll))
	}
}

func (r *Renewer) dialAll() {
	for range cap(r.inUse) {
		r.mu.Lock()
		enough := r.closed || len(r.idle)+len(r.inUse) >= cap(r.inUse) // a batch has dialled
		r.mu.Unlock()
		if enough {
			return
		}
		dialed, err := r.cfg.Dial(r.ctx, r.batchDials)
		if err != nil {
			return
		}
		r.giveConnBack(r.addConn(dialed), true)
	}
}

// Renew renews the holds of b, and reports the outcomes as renewal.Renewer says.
func (r *Renewer) Renew(ctx context.Context, b *renewal.Batch) {
	select {
	case r.inUse <- struct{}{}:
		defer func() { <-r.inUse }()
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

// exchange makes one round trip. It makes a few more if the server has not run all of
// the batch, because it did not know the script or a slot was moving.
func (r *Renewer) exchange(ctx context.Context, b *renewal.Batch) error {
	c, idled, err := r.takeConn(ctx, b.TTL())
	if err != nil {
		return err
	}
	r.beginWait(&c.wait, b.TTL())
	if c.exchange.IsReplaced() {
		r.endWait(&c.wait)
		r.giveConnBack(c, false)
		return errSuperseded
	}
	stop := context.AfterFunc(ctx, c.wait.abort)
	again := true
	for sent := (sendMode{}); again && err == nil; {
		again, err = c.renew(b, &sent)
	}
	cut := !stop()
	superseded := r.endWait(&c.wait)
	cut = cut || superseded // a hedge or Drop has closed the connection, perhaps after the last answer was read
	r.cfg.Answered(err)
	if err == nil {
		r.recordRTT(time.Since(c.wait.began))
	}
	verdict, _ := pipe.VerdictOf(err, true, r.cfg.Server)
	works, resumes := verdict != pipe.Broken && !c.isDemoted, c.callsResumed
	c.callsResumed = false
	r.giveConnBack(c, works && !cut)
	if works && resumes {
		r.callResumed(b.TTL() / 24)
	}
	if err != nil {
		r.reportFailure(&c.wait, err)
	}
	switch {
	case err == pipe.ErrReplaced, superseded && verdict == pipe.Broken:
		return errSuperseded
	case idled && !cut && verdict == pipe.Broken && isEndOfConn(err):
		return errEnded
	}
	return err
}

// isEndOfConn reports whether err says that a connection has ended. A timeout or a malformed answer
// does not say that.
func isEndOfConn(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && !op.Timeout()
}

// takeConn returns an idle connection or a new one. idled says that the connection was idle, so
// the server may have ended it. A connection that was idle for long is replaced. If no other one can
// be made, it is used, because the server may still take requests over it.
func (r *Renewer) takeConn(ctx context.Context, ttl time.Duration) (c *pipeline, idled bool, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, false, ErrClosed
	}
	var old *pipeline
	if n := len(r.idle); n > 0 {
		old = r.idle[n-1]
		r.idle = r.idle[:n-1]
	}
	r.mu.Unlock()
	if old != nil && !old.exchange.IsOld() {
		return old, true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &wait{abort: cancel, isDial: true}
	r.beginWait(w, ttl)
	dialed, err := r.cfg.Dial(ctx, r.batchDials)
	superseded := r.endWait(w)
	if old != nil {
		if err != nil && !superseded {
			return old, true, nil
		}
		old.Close()
	}
	switch {
	case err == nil:
		return r.addConn(dialed), false, nil
	case superseded:
		return nil, false, errSuperseded
	}
	r.mu.Lock()
	r.isBroken = true
	r.mu.Unlock()
	return nil, false, err
}

// giveConnBack gives a connection back, or closes it if it is not usable.
func (r *Renewer) giveConnBack(c *pipeline, usable bool) {
	usable = usable && !c.exchange.IsReplaced()
	r.mu.Lock()
	usable = usable && !r.closed
	// A late hedge may have left one connection more than can be in use.
	if usable && len(r.idle) < cap(r.inUse) {
		r.idle = append(r.idle, c)
		r.mu.Unlock()
		return
	}
	r.isBroken = r.isBroken || !usable
	r.mu.Unlock()
	c.Close()
}

// callResumed calls Resumed, but not sooner than pause after the last call. Resumed makes leases due
// at once. If a server ends every connection after an answer, batches would follow each other
// without a pause.
func (r *Renewer) callResumed(pause time.Duration) {
	r.mu.Lock()
	now := time.Now()
	left := r.lastResumed.Add(pause).Sub(now)
	if left <= 0 {
		r.lastResumed = now
		r.mu.Unlock()
		r.cfg.Resumed()
		return
	}
	defer r.mu.Unlock()
	if left > pause || r.closed { // a later call is already planned
		return
	}
	r.lastResumed = now.Add(left)
	r.goroutines.Go(r.cfg.Labeler.Label("verify again", func() {
		t := time.NewTimer(left)
		defer t.Stop()
		select {
		case <-t.C:
			r.cfg.Resumed()
		case <-r.ctx.Done():
		}
	}))
}

// addConn returns the pipeline of a new connection, and records that a connection was made. If one
// had failed before, the first answer on the new connection calls Resumed.
func (r *Renewer) addConn(dialed pipe.Connection) *pipeline {
	c := newPipeline(r, dialed)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.callsResumed, r.isBroken = r.isBroken, false
	return c
}

// Drop closes all connections. Batches that wait on them continue over new ones.
func (r *Renewer) Drop() {
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	var waits []*wait
	for w := range r.waits {
		w.isSuperseded = true
		waits = append(waits, w)
	}
	r.mu.Unlock()
	abortAll(waits, idle)
}

// Close closes the idle connections and waits for the hedges. Connections in use
// are closed when they are given back.
func (r *Renewer) Close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	r.cancel()
	for _, c := range idle {
		c.Close()
	}
	r.goroutines.Wait()
}
