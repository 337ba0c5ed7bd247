package lock

import (
	"context"
	"time"
)

// A run of hand-offs inside one client ends with a real release after so many
// or so long, for other processes wait too. It is shorter, down to runLeast, if
// every waiter of this client has had a turn by then: a longer one only makes
// the others' waiters wait for those who come back.
const (
	runLength = 64
	runLeast  = 16
	runTime   = 100 * time.Millisecond
	deferMin  = 5 * time.Millisecond
)

// gate is the queue of a client's waiters for one lock, first come first
// served. Only its head talks to Redis; while this client holds the lock there
// is no head, and the last Unlock hands over to the first waiter. Guarded by
// Client.mu.
type gate struct {
	waiters   []*waiter
	head      *waiter   // the one that tries and subscribes; nil while nobody does
	heldUntil time.Time // when the last known lease of another ends

	// After a run the client lets all the others have a turn that waited when
	// it ended: until it has heard so many messages, that is releases, it
	// tries by deferBy later than they do.
	deferUntil uint64
	deferBy    time.Duration
}

// waiter is one call of Lock in a gate.
type waiter struct {
	kind  kind
	owner owner
	terms
	wake chan struct{} // of capacity 1: look at your state again; also messages of the lock's channel

	// guarded by Client.mu
	granted *hold // handed to it
	gone    bool  // it has left
}

// turn is what a waiter is to do next.
type turn uint8

const (
	sleepTurn   turn = iota // until it is woken
	tryTurn                 // it is the head
	reenterTurn             // its owner has the lock
	grantedTurn             // the lock was handed to it
)

// join puts a waiter at the end of the lock's queue.
func (c *Client) join(name string, k kind, o owner, t terms) *waiter {
	w := &waiter{kind: k, owner: o, terms: t, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[name]
	if g == nil {
		g = &gate{}
		c.gates[name] = g
	}
	g.waiters = append(g.waiters, w)
	return w
}

// quit takes w out of the queue, wherever it stands, and lets the next one go
// on. A hold that was handed to it and that it did not take is returned: the
// caller passes it on.
func (c *Client) quit(name string, w *waiter) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.gone = true
	g := c.gates[name]
	for i, x := range g.waiters {
		if x == w {
			g.waiters = append(g.waiters[:i], g.waiters[i+1:]...)
			break
		}
	}
	if g.head == w {
		g.head = nil
	}
	if len(g.waiters) == 0 {
		delete(c.gates, name)
	} else {
		c.wakeGateLocked(name)
	}
	h := w.granted
	w.granted = nil
	return h
}

// wakeGateLocked makes those look who may have something to do: the first
// waiter, and those whose owner has the lock.
func (c *Client) wakeGateLocked(name string) {
	g := c.gates[name]
	if g == nil {
		return
	}
	h := c.holds.get(name)
	for i, w := range g.waiters {
		if i == 0 || h != nil && w.owner == h.owner {
			signal(w.wake)
		}
	}
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// sleep waits until wake, at most d, and reports whether it ended before that:
// also with ctx, and when the client closes.
func (c *Client) sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
		return false
	case <-ctx.Done():
	case <-c.closing:
	}
	return true
}

// turnOf says what w is to do, and makes it the head if that is its turn. For
// reenterTurn and grantedTurn it returns the hold.
func (c *Client) turnOf(name string, w *waiter) (turn, *hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := w.granted; h != nil {
		w.granted = nil
		return grantedTurn, h
	}
	g, h := c.gates[name], c.holds.get(name)
	if h != nil && h.owner == w.owner && !h.is(leaving) {
		return reenterTurn, h
	}
	if g.head == nil && g.waiters[0] == w && h == nil {
		g.head = w
	}
	if g.head == w {
		return tryTurn, nil
	}
	return sleepTurn, nil
}

// isGranted reports whether the lock was handed to w.
func (c *Client) isGranted(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.granted != nil
}

// queued reports whether waiters of this client stand before a newcomer.
func (c *Client) queued(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gates[name] != nil
}

// heldUntil is when the lease of whoever holds the lock ends, as far as this
// client's own hold and its waiters know.
func (c *Client) heldUntil(name string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.holds.get(name); h != nil {
		return h.lease.Deadline()
	}
	if g := c.gates[name]; g != nil {
		return g.heldUntil
	}
	return time.Time{}
}

// heldFor notes that another was seen to hold the lock.
func (c *Client) heldFor(name string, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[name]; g != nil {
		g.heldUntil = time.Now().Add(max(ttl, 0))
	}
}

// successor returns the waiter that h should be handed to, or nil: nobody
// waits, or the run is over and other processes have their turn.
func (c *Client) successor(h *hold) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[h.name]
	// replicas know nothing of a hand-off
	if g == nil || c.closed || c.cfg.Replicas > 0 || g.waiters[0].kind != h.kind {
		return nil
	}
	if int(h.run) >= min(runLength, max(runLeast, len(g.waiters))) || h.run > 0 && c.clock()-h.runStart > int32(ms(runTime)) {
		return nil
	}
	return g.waiters[0]
}

// clock is in ms since the client's start; it wraps.
func (c *Client) clock() int32 { return int32(uint32(time.Since(c.start) / time.Millisecond)) }

// deliver makes h, which was handed over, the hold of its name and gives it to
// w. It returns false if w has left: the caller passes h on.
func (c *Client) deliver(h *hold, w *waiter) bool {
	c.mu.Lock()
	c.holds.set(h)
	delivered := !w.gone
	if delivered {
		w.granted = h
		signal(w.wake)
	}
	c.wakeGateLocked(h.name) // those of its owner can re-enter
	c.mu.Unlock()
	c.locate(h)
	c.forgetLost(h)
	return delivered
}

// deferTo makes the gate of a lock whose run ended leave others their turn
// until so many messages have been heard in all.
func (c *Client) deferTo(name string, messages uint64, roundTrip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[name]; g != nil {
		g.deferUntil = messages
		g.deferBy = 2*roundTrip + deferMin
	}
}

// deferral is how much later than others this client tries now.
func (c *Client) deferral(name string) time.Duration {
	messages, _ := c.node(name).sub.heard(channel(name))
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[name]
	if g == nil || messages >= g.deferUntil {
		return 0
	}
	// Who had its run last comes last, also among those who wait for a client
	// that is slow to take its turn.
	return g.deferBy + time.Duration(min(g.deferUntil-messages, 20))*time.Millisecond
}

// warnAfter is how long a wait on a lock of this very client goes on before it
// is warned about: it may be an owner that was lost on the way.
const warnAfter = 10 * time.Second

// wait is the body of a Lock that has to wait: it stands in the lock's queue
// until it has the lock or leaves. last is what the try before it
// said, or nil.
func (m *Mutex) wait(ctx context.Context, a *attempt, last error) (held *Held, err error) {
	c := m.c
	if hook := c.cfg.Hooks.Waited; hook != nil {
		began := time.Now()
		defer func() {
			e := Event{Name: m.name, Waited: time.Since(began), Err: err}
			if held != nil {
				e.Token = held.Token()
			}
			c.callHook(hook, e)
		}()
	}
	w := c.join(m.name, a.kind, a.owner, a.terms)
	defer func() {
		if h := c.quit(m.name, w); h != nil {
			c.passOn(h) // granted while it left
		}
	}()
	v := &vigil{m: m, a: a, w: w, ear: ear{wake: w.wake}, last: last}
	defer v.ear.leave()
	for {
		if ctx.Err() != nil {
			return nil, v.left(ctx)
		}
		if c.ended() {
			return nil, ErrClosed
		}
		t, h := c.turnOf(m.name, w)
		switch t {
		case grantedTurn:
			return h.firstHeld(a.renewed), nil
		case reenterTurn:
			if h.kind != m.kind {
				return nil, errOtherKind(m.name)
			}
			held, err = h.reenter(ctx, a.lease, a.renewed)
			if err == errGone {
				continue
			}
		case tryTurn:
			if err, last = last, nil; err == nil && v.begin(ctx) {
				held, err = a.try(ctx)
			} else if err == nil {
				continue // it was woken, or its time is over
			}
		case sleepTurn:
			v.sleepLocal(ctx)
			continue
		}
		if err == nil {
			return held, nil
		}
		if err = v.failed(ctx, err); err != nil {
			return nil, err
		}
	}
}
