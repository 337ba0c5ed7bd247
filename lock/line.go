package lock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pubsub"
)

// waitLine is the queue of a client's waiters at one semaphore, latch or
// RWMutex, first come first served. Only the first of them talks to Redis: it listens to the
// object's channel, looks again when that is confirmed, for a message may have
// come before, and then sleeps until a message or MaxPoll. What it has learned
// stays with the line when the next one becomes the first.
type waitLine struct {
	// guarded by Client.mu
	places    list.List // of *place; joining and leaving are as quick in a long one
	joined    uint64    // counts the places that ever were
	writers   int       // places of callers that want to write
	heldUntil time.Time // when the last known lease of another ends

	// owned by the first of the line
	listener pubsub.Listener
	left     int64 // what the last try left to take; unknownLeft if it was not answered, or is out of date
}

const unknownLeft = -1 << 62

// place is one waiter in a line.
type place struct {
	wake chan struct{} // of capacity 1: it is the first, was served, or its owner has the lock

	// guarded by Client.mu
	number  uint64
	element *list.Element // nil once another's try was for it too
}

// errand is what a waiter wants.
type errand struct {
	// try looks once. A nil error is the end of the waiting, ErrNotAcquired
	// that of this try. left is what others can still take.
	try func(context.Context) (left int64, err error)
	// needs is how much must be left for a try to be worth it.
	needs   int64
	refusal func(left int64) error
	// again: after an unknown outcome try is called again.
	again bool
	// forAll: what ends the waiting of one ends that of all who waited when
	// its try began.
	forAll bool
	// caller is who may re-enter what its owner holds; nil for what has no owner.
	// reenter does so, or returns errGone if there is no such hold any more.
	caller  *attempt
	reenter func(context.Context) error
}

// ownedLocked reports whether the caller can re-enter.
func (e *errand) ownedLocked() bool {
	return e.caller != nil && e.caller.c.ownsSharedLocked(e.caller.name, e.caller.owner)
}

// lined reports whether waiters of this client stand before a newcomer.
func (c *Client) lined(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[line] != nil
}

// writersLined reports whether writers of this client stand before a newcomer.
func (c *Client) writersLined(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[line]
	return l != nil && l.writers > 0
}

// lineHeldFor is how long another has what those in line wait for, as far as
// they know.
func (c *Client) lineHeldFor(line string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lines[line]; l != nil {
		return max(time.Until(l.heldUntil), 0)
	}
	return 0
}

// learn notes what a try of one in line said.
func (c *Client) learn(l *waitLine, err error) {
	var other *HeldError
	if !errors.As(err, &other) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.heldUntil = time.Now().Add(max(other.TTL, 0))
}

// writes reports whether it is a writer who waits.
func (e *errand) writes() bool { return e.caller != nil && e.caller.kind == writeKind }

func (c *Client) lineUp(channel string, e *errand) (*waitLine, *place) {
	p := &place{wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[channel]
	if l == nil {
		l = &waitLine{listener: pubsub.NewListener(make(chan struct{}, 1)), left: unknownLeft}
		if c.lines == nil {
			c.lines = make(map[string]*waitLine)
		}
		c.lines[channel] = l
	}
	l.joined++
	p.number = l.joined
	p.element = l.places.PushBack(p)
	if e.writes() {
		l.writers++
	}
	if a := e.caller; a != nil && a.shared {
		c.watchLocked(callerKey{a.name, a.owner}, p.wake)
	}
	return l, p
}

// lineLeave takes p out of the line, wherever it stands; the next one is first.
func (c *Client) lineLeave(channel string, l *waitLine, p *place, e *errand) {
	if c.lineShorten(channel, l, p, e) {
		l.listener.Leave()
	}
}

// lineShorten reports whether p was the last one, which ends the line.
func (c *Client) lineShorten(channel string, l *waitLine, p *place, e *errand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := e.caller; a != nil && a.shared {
		c.unwatchLocked(callerKey{a.name, a.owner}, p.wake)
	}
	if p.element == nil {
		return false // it was served
	}
	if e.writes() {
		l.writers--
	}
	wasFirst := l.places.Front() == p.element
	l.places.Remove(p.element)
	first := l.places.Front()
	if first == nil {
		delete(c.lines, channel)
		return true
	}
	if wasFirst {
		signal(first.Value.(*place).wake)
	}
	return false
}

// placeTurn says what p is to do; grantedTurn: its waiting is over.
func (c *Client) placeTurn(l *waitLine, p *place, e *errand) turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.element == nil:
		return grantedTurn
	case e.ownedLocked():
		return reenterTurn
	case l.places.Front() == p.element:
		return tryTurn
	}
	return sleepTurn
}

// present is the number of the last who stands in line now.
func (c *Client) present(l *waitLine) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.joined
}

// serve ends the waiting of those whose numbers are up to last, but for the
// first, whose own waiting is at its end.
func (c *Client) serve(l *waitLine, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		next := l.places.Front().Next()
		if next == nil || next.Value.(*place).number > last {
			return
		}
		p := l.places.Remove(next).(*place)
		p.element = nil
		signal(p.wake)
	}
}

// attend waits in the line of that name, for messages of channel, until e is
// done, ctx ends or the client closes. last is what a try before it said, or nil.
func (c *Client) attend(ctx context.Context, name, line, channel string, e errand, last error) error {
	l, p := c.lineUp(line, &e)
	defer c.lineLeave(line, l, p, &e)
	c.learn(l, last)
	first, unknowns := false, 0
	var tried time.Time
	for {
		turn := c.placeTurn(l, p, &e)
		switch {
		case turn == grantedTurn:
			return nil
		case ctx.Err() != nil:
			return waitErrorOf(ctx, name, last)
		case c.ended():
			return closedError(name)
		}
		var err error
		switch turn {
		case sleepTurn:
			c.sleepInPlace(ctx, p)
			continue
		case reenterTurn:
			if err = e.reenter(ctx); err == errGone {
				continue // it still has its place
			}
		case tryTurn:
			if !first {
				first = true
				err = l.known(&e, last)
			}
			if err == nil {
				if pause(ctx, c.closing, pace-time.Since(tried)) != nil || c.ended() {
					l.left = unknownLeft // a message was taken for this try
					continue
				}
				tried = time.Now()
				if err = c.tryFirst(ctx, l, e); err == errAgain {
					continue
				}
			}
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) { // else it was left, not answered
			last = err
			c.learn(l, err)
		}
		switch refused := errors.Is(err, ErrNotAcquired); {
		case ctx.Err() != nil:
		case refused && turn == tryTurn:
			unknowns = 0
			l.listener.Listen(c.router.Server(name).Subscriber(), channel)
			if !l.listener.Missed() {
				c.sleepInLine(ctx, l, p, err)
			}
		case refused, errors.Is(err, ErrUnknown) && e.again && !c.cfg.FailFast:
			_ = pause(ctx, c.closing, backoff(unknowns))
			unknowns++
		default:
			return err
		}
	}
}

// known is what who has just become the first need not ask: what its own last
// try said, if it never stood behind another, or what the one before it has
// learned and what still stands. It is nil if a try is due.
func (l *waitLine) known(e *errand, last error) error {
	switch {
	case l.left != unknownLeft && l.left < e.needs && l.listener.HeardAll():
		return e.refusal(l.left)
	case l.listener.Listening() || l.left != unknownLeft:
		return nil
	}
	return last
}

// sleepInPlace waits until p is woken.
func (c *Client) sleepInPlace(ctx context.Context, p *place) {
	select {
	case <-p.wake:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// tryFirst is one try of the first in line.
func (c *Client) tryFirst(ctx context.Context, l *waitLine, e errand) error {
	last := uint64(0)
	if e.forAll {
		last = c.present(l)
	}
	l.left = unknownLeft
	l.listener.Begin()
	left, err := e.try(ctx)
	if err == nil || errors.Is(err, ErrNotAcquired) {
		l.left = left
	}
	if err == nil && e.forAll {
		c.serve(l, last)
	}
	return err
}

// sleepInLine waits until the first in line is woken, at most MaxPoll and, if
// the last try said when the lease of another ends, until then.
func (c *Client) sleepInLine(ctx context.Context, l *waitLine, p *place, refusal error) {
	d := c.poll(-1, false)
	var other *HeldError
	var few *PermitsError
	if errors.As(refusal, &other) {
		d = c.poll(other.TTL, other.Foreign)
	} else if errors.As(refusal, &few) && few.next > 0 {
		d = min(d, few.next)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.listener.Wake():
	case <-p.wake:
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// waitErrorOf is newWaitError, but for a last try that ctx cut short: it says
// nothing more.
func waitErrorOf(ctx context.Context, name string, last error) error {
	if errors.Is(last, ctx.Err()) {
		last = nil
	}
	return newWaitError(ctx, name, last)
}
