package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// waitLine is the queue of a client's waiters at one semaphore or latch, first come
// first served. Only the first of them talks to Redis: it listens to the
// object's channel, looks again when that is confirmed, for a message may have
// come before, and then sleeps until a message or MaxPoll. What it has learned
// stays with the line when the next one becomes the first.
type waitLine struct {
	// guarded by Client.mu
	places []*place
	joined uint64 // counts the places that ever were

	// owned by the first of the line
	ear  ear
	left int64 // what the last try left to take; unknownLeft if it was not answered, or is out of date
}

const unknownLeft = -1 << 62

// place is one waiter in a line.
type place struct {
	number uint64
	first  chan struct{} // closed when it is the first
	served chan struct{} // closed when another's try was for it too
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
}

// lined reports whether waiters of this client stand before a newcomer.
func (c *Client) lined(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[line] != nil
}

func (c *Client) lineUp(channel string) (*waitLine, *place) {
	p := &place{first: make(chan struct{}), served: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[channel]
	if l == nil {
		l = &waitLine{ear: ear{wake: make(chan struct{}, 1)}, left: unknownLeft}
		if c.lines == nil {
			c.lines = make(map[string]*waitLine)
		}
		c.lines[channel] = l
	}
	l.joined++
	p.number = l.joined
	l.places = append(l.places, p)
	if len(l.places) == 1 {
		close(p.first)
	}
	return l, p
}

// lineLeave takes p out of the line, wherever it stands; the next one is first.
func (c *Client) lineLeave(channel string, l *waitLine, p *place) {
	if c.lineShorten(channel, l, p) {
		l.ear.leave()
	}
}

// lineShorten reports whether p was the last one, which ends the line.
func (c *Client) lineShorten(channel string, l *waitLine, p *place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(l.places, p)
	if i < 0 {
		return false // it was served
	}
	l.places = slices.Delete(l.places, i, i+1)
	if len(l.places) == 0 {
		delete(c.lines, channel)
		return true
	}
	if i == 0 {
		close(l.places[0].first)
	}
	return false
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
	kept := l.places[:1]
	for _, p := range l.places[1:] {
		if p.number <= last {
			close(p.served)
		} else {
			kept = append(kept, p)
		}
	}
	clear(l.places[len(kept):])
	l.places = kept
}

// attend waits in the line of that name, for messages of channel, until e is
// done, ctx ends or the client closes. last is what a try before it said, or nil.
func (c *Client) attend(ctx context.Context, name, line, channel string, e errand, last error) error {
	l, p := c.lineUp(line)
	defer c.lineLeave(line, l, p)
	select {
	case <-p.first:
	case <-p.served:
		return nil
	case <-ctx.Done():
		return waitErrorOf(ctx, name, last)
	case <-c.closing:
		return ErrClosed
	}
	err := last
	switch {
	case l.left != unknownLeft && l.left < e.needs && l.ear.heardAll():
		err = e.refusal(l.left) // what the one before has learned still stands
	case l.ear.topic != nil || l.left != unknownLeft:
		err = nil
	}
	var tried time.Time
	unknowns := 0
	for {
		if err == nil {
			if pause(ctx, c.closing, pace-time.Since(tried)) == nil && !c.ended() {
				tried = time.Now()
				if err = c.tryFirst(ctx, l, e); err == nil {
					return nil
				}
			} else {
				l.left = unknownLeft // a message was taken for this try
			}
		}
		if err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) { // else it was left, not answered
			last = err
		}
		switch {
		case ctx.Err() != nil:
			return waitErrorOf(ctx, name, last)
		case c.ended():
			return ErrClosed
		case errors.Is(err, ErrNotAcquired):
			unknowns = 0
			l.ear.listen(c.node(name).sub, channel)
			if !l.ear.missed() {
				c.sleepInLine(ctx, l, err)
			}
		case errors.Is(err, ErrUnknown) && e.again && !c.cfg.FailFast:
			_ = pause(ctx, c.closing, backoff(unknowns))
			unknowns++
		default:
			return err
		}
		err = nil
	}
}

// tryFirst is one try of the first in line.
func (c *Client) tryFirst(ctx context.Context, l *waitLine, e errand) error {
	last := uint64(0)
	if e.forAll {
		last = c.present(l)
	}
	l.left = unknownLeft
	l.ear.begin()
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
func (c *Client) sleepInLine(ctx context.Context, l *waitLine, refusal error) {
	longest := c.cfg.MaxPoll
	d := longest - rand.N(longest/8+1) // spread, so that clients do not meet
	var other *HeldError
	var few *PermitsError
	if errors.As(refusal, &other) && other.TTL >= 0 {
		d = min(d, max(other.TTL, time.Millisecond))
	} else if errors.As(refusal, &few) && few.next > 0 {
		d = min(d, few.next)
	}
	c.sleep(ctx, l.ear.wake, d)
}

// waitErrorOf is newWaitError, but for a last try that ctx cut short: it says
// nothing more.
func waitErrorOf(ctx context.Context, name string, last error) error {
	if errors.Is(last, ctx.Err()) {
		last = nil
	}
	return newWaitError(ctx, name, last)
}
