// Package dialing bounds dial functions that do not bound themselves: in time,
// and in number.
//
// A dial function that does not heed its context cannot be stopped. It is left
// behind when the context ends, and keeps its socket until it returns. So that a
// server that hangs does not cost one socket for each attempt, a Bound leaves
// only so many behind. Who comes then waits for one of them, and uses what it
// brings.
package dialing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// ErrOut: as many dials as may be were left behind.
var ErrOut = errors.New("an earlier dial has not returned: the dial function should heed its context, as redis.Pool.DialContext " +
	"with redis.DialContext does, or have timeouts")

// errAgain: whoever gets it dials.
var errAgain = errors.New("dial again")

// Bound bounds how many dials are left behind. All methods are safe for
// concurrent use.
type Bound struct {
	most int // of each key; immutable

	mu     sync.Mutex     // guards what follows; not held while anything is dialled or closed
	places map[any]*place // of keys of which a dial was left behind
}

// place is the dials of one key.
type place struct {
	left    int          // dials that were left behind and have not returned
	waiting []chan *dial // of capacity 1: get a dial of those that has returned
}

// dial is one call of a dial function.
type dial struct {
	conn redis.Conn
	err  error

	left bool          // nobody waits for it; guarded by Bound.mu
	done chan struct{} // closed when it has returned
}

// NewBound returns a Bound that leaves so many dials of each key behind.
func NewBound(most int) *Bound { return &Bound{most: most, places: make(map[any]*place)} }

// Dial calls f and returns what it returns, but not later than ctx ends. What f
// brings later is for the next who dials with an equal key, or closed if nobody
// waits for it. The key says to which server f leads.
func (b *Bound) Dial(ctx context.Context, key any, f func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	for {
		returned := b.queue(key)
		if returned == nil {
			d := &dial{done: make(chan struct{})}
			go b.run(ctx, key, d, f)
			return b.await(ctx, key, d)
		}
		var d *dial
		select {
		case d = <-returned:
		case <-ctx.Done():
			if d = b.leave(key, returned); d == nil {
				return nil, fmt.Errorf("%w: %w", ErrOut, ctx.Err())
			}
		}
		if d.err == nil {
			return d.conn, nil
		}
		// What an earlier dial failed with, this one need not.
	}
}

// queue returns nil if one more dial may be left behind, and else where one of
// those that were will come.
func (b *Bound) queue(key any) chan *dial {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[key]
	if p == nil || p.left < b.most {
		return nil
	}
	returned := make(chan *dial, 1)
	p.waiting = append(p.waiting, returned)
	return returned
}

// leave undoes queue; it returns a dial that came meanwhile.
func (b *Bound) leave(key any, returned chan *dial) *dial {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[key]; p != nil {
		for i, w := range p.waiting {
			if w == returned {
				p.waiting = slices.Delete(p.waiting, i, i+1)
				return nil
			}
		}
	}
	return <-returned
}

// run calls f. What it brings is closed if nobody waits for it.
func (b *Bound) run(ctx context.Context, key any, d *dial, f func(context.Context) (redis.Conn, error)) {
	d.conn, d.err = f(ctx)
	d.err = Public(d.err)
	if d.err == nil && d.conn == nil {
		d.err = errors.New("the dial function returned neither a connection nor an error")
	}
	if !b.end(key, d) && d.err == nil {
		d.conn.Close()
	}
}

// end notes that d has returned, and reports whether somebody gets it.
func (b *Bound) end(key any, d *dial) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(d.done)
	if !d.left {
		return true
	}
	p := b.places[key]
	p.left--
	waiting := p.waiting
	p.waiting = nil // fewer than b.most are out now: the others dial
	if p.left == 0 {
		delete(b.places, key)
	}
	for i, w := range waiting {
		if i > 0 {
			d = &dial{err: errAgain}
		}
		w <- d
	}
	return len(waiting) > 0
}

// await waits for d until ctx ends, and then leaves it behind.
func (b *Bound) await(ctx context.Context, key any, d *dial) (redis.Conn, error) {
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
	}
	ended := ctx.Err() // not under a mutex: whose context it is is not known here
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-d.done: // just now
		return d.conn, d.err
	default:
	}
	d.left = true
	p := b.places[key]
	if p == nil {
		p = &place{}
		b.places[key] = p
	}
	p.left++
	return nil, ended
}
