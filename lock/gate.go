package lock

import (
	"container/list"
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
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
	waiters   list.List // of *waiter; joining and leaving are as quick in a long one
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
	kind   kind
	owner  owner
	shared bool // the owner may be others' too, see callers
	terms
	wake chan struct{} // of capacity 1: look at your state again; also messages of the lock's channel

	// guarded by Client.mu
	granted *hold         // handed to it
	place   *list.Element // in the gate's waiters; nil when it has left
}

// first is the first waiter; a gate without one is none.
func (g *gate) first() *waiter { return g.waiters.Front().Value.(*waiter) }

// turn is what a waiter is to do next.
type turn uint8

const (
	sleepTurn   turn = iota // until it is woken
	tryTurn                 // it is the head
	reenterTurn             // its owner has the lock
	grantedTurn             // the lock was handed to it
)

// join puts a waiter at the end of the lock's queue.
func (c *Client) join(a *attempt) *waiter {
	w := &waiter{kind: a.kind, owner: a.owner, shared: a.shared, terms: a.terms, wake: make(chan struct{}, 1)}
	name := a.name
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gates[name]
	if g == nil {
		g = &gate{}
		c.gates[name] = g
	}
	w.place = g.waiters.PushBack(w)
	if w.shared {
		c.watchLocked(callerKey{name, w.owner}, w.wake)
	}
	return w
}

// quit takes w out of the queue, wherever it stands, and lets the next one go
// on. A hold that was handed to it and that it did not take is returned: the
// caller passes it on.
func (c *Client) quit(name string, w *waiter) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.shared {
		c.unwatchLocked(callerKey{name, w.owner}, w.wake)
	}
	g := c.gates[name]
	wasFirst := g.first() == w
	g.waiters.Remove(w.place)
	w.place = nil
	if g.head == w {
		g.head = nil
	}
	if g.waiters.Len() == 0 {
		delete(c.gates, name)
	} else if wasFirst {
		c.wakeGateLocked(name)
	}
	h := w.granted
	w.granted = nil
	return h
}

// wakeGateLocked makes the first waiter look.
func (c *Client) wakeGateLocked(name string) {
	if g := c.gates[name]; g != nil {
		signal(g.first().wake)
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
	if own := c.ownLocked(name, w.owner); own != nil {
		return reenterTurn, own
	}
	if g.head == nil && g.first() == w && (h == nil || h.is(lost)) {
		g.head = w
	}
	if g.head == w {
		return tryTurn, nil
	}
	return sleepTurn, nil
}

// ownLocked returns the hold that an owner can re-enter, or nil.
func (c *Client) ownLocked(name string, o owner) *hold {
	if h := c.holds.get(name); h != nil && h.owner == o && !h.is(leaving|lost) {
		return h
	}
	return nil
}

// isSettled reports whether w need not try: the lock was handed to it, or its
// owner has it.
func (c *Client) isSettled(name string, w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.granted != nil || c.ownLocked(name, w.owner) != nil
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
	if h := c.holds.get(name); h != nil && !h.is(lost) {
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
	if g == nil || c.closed || c.cfg.Replicas > 0 || g.first().kind != h.kind {
		return nil
	}
	if int(h.run) >= min(runLength, max(runLeast, g.waiters.Len())) || h.run > 0 && c.clock()-h.runStart > int32(ms(runTime)) {
		return nil
	}
	return g.first()
}

// clock is in ms since the client's start; it wraps.
func (c *Client) clock() int32 { return int32(uint32(time.Since(c.start) / time.Millisecond)) }

// deliver makes h, which was handed over, the hold of its name and gives it to
// w. It returns false if w has left, or if Close has begun, which tells only those
// that it found among the holds: the caller passes h on. A call of the same owner
// that re-enters h before that is told all the same.
func (c *Client) deliver(h *hold, w *waiter) bool {
	c.mu.Lock()
	h.closing = c.closed // nobody else knows h yet
	c.addLocked(h)
	delivered := w.place != nil && !c.closed
	if delivered {
		w.granted = h
		signal(w.wake)
	}
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
	messages, _ := c.router.Server(name).Subscriber().Heard(keys.Channel(name))
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
	w := c.join(a)
	defer func() {
		if h := c.quit(m.name, w); h != nil {
			c.releaseUnclaimed(h) // granted while it left
		}
	}()
	v := &vigil{m: m, a: a, w: w, listener: pubsub.NewListener(w.wake), last: last}
	defer v.listener.Leave()
	for {
		if ctx.Err() != nil {
			return nil, v.left(ctx)
		}
		if c.ended() {
			return nil, closedError(m.name)
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
				if held, err = a.ask(ctx, a.try); err == errAgain {
					continue
				}
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
