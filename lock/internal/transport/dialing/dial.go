// Package dialing limits how long callers wait for a dial function, and how many
// calls of it run at the same time.
//
// A dial function that does not heed its context cannot be stopped. When the
// context ends, the caller leaves the call behind, and the call keeps its socket
// until it returns. A server that hangs must not cost one socket for each attempt.
// So a Bound leaves only a limited number of calls behind. After that, a caller
// waits for one of these calls to return, and uses its result.
package dialing

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// ErrOut is returned when the limit of dials that were left behind is reached, and none of them
// returns in time.
var ErrOut = errors.New("an earlier dial has not returned: the dial function should heed its context, as redis.Pool.DialContext " +
	"with redis.DialContext does, or have timeouts")

// ErrNoConn is returned when a dial function returns neither a connection nor an error.
var ErrNoConn = errors.New("the dial function returned neither a connection nor an error")

// IsNone reports whether the result of a dial function is no connection. A nil pointer of the
// function's own type is not nil as an interface, but its methods would panic.
func IsNone(conn any) bool {
	v := reflect.ValueOf(conn)
	return conn == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// The answers with which a server closes a new connection, whatever was requested.
const (
	// TooMany is the beginning of the answer, behind ERR, of a server that has too many
	// connections. The answer goes on with " reached" or, in a Cluster, with
	// " + cluster connections reached".
	TooMany = "max number of clients"
	// Protected is the code of a server in protected mode.
	Protected = "DENIED"
)

// TurnedAway reports whether err is an answer with which a server closes a new connection.
func TurnedAway(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(string(reply), "ERR "+TooMany) || strings.HasPrefix(string(reply), Protected+" "))
}

// errAgain is the result for a waiting caller that must dial itself.
var errAgain = errors.New("dial again")

// Bound limits how many dials are left behind. All methods are safe for
// concurrent use.
type Bound struct {
	most int // no dial of a key begins while this number of its dials are left behind; immutable

	mu    sync.Mutex        // guards byKey; not held during a dial or a close
	byKey map[any]*keyDials // the keys with a dial that was left behind
}

// keyDials has the dials of one key.
type keyDials struct {
	leftBehind int          // how many dials were left behind and have not returned
	waiting    []chan *dial // the callers that wait, each with a channel of capacity 1; when a dial has returned, the first one gets it
}

// dial is one call of a dial function.
type dial struct {
	conn redis.Conn
	err  error

	isLeftBehind bool          // its caller no longer waits; guarded by Bound.mu
	done         chan struct{} // closed when the call has returned
}

// NewBound returns a Bound that begins no dial of a key while most dials of that key are left behind.
// Dials that begin at the same time may exceed most.
func NewBound(most int) *Bound { return &Bound{most: most, byKey: make(map[any]*keyDials)} }

// Dial calls f and returns its result, but not later than ctx ends. A connection
// that f returns later goes to a caller that waits with an equal key. If no caller
// waits, it is closed. The key says to which server f dials.
func (b *Bound) Dial(ctx context.Context, key any, f func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	for {
		returned := b.joinWaiters(key)
		if returned == nil {
			d := &dial{done: make(chan struct{})}
			go b.runDial(wait.Sound(ctx), key, d, f)
			return b.await(ctx, key, d)
		}
		var d *dial
		select {
		case d = <-returned:
		case <-ctx.Done():
			if d = b.leaveWaiters(key, returned); d == nil {
				return nil, fmt.Errorf("%w: %w", ErrOut, wait.Ended(ctx))
			}
		}
		if d.err == nil {
			return d.conn, nil
		}
		// The dial that has returned has failed, or this caller was told to dial itself.
	}
}

// joinWaiters returns nil if one more dial may be left behind. Otherwise it returns the
// channel that gets the next dial that returns.
func (b *Bound) joinWaiters(key any) chan *dial {
	b.mu.Lock()
	defer b.mu.Unlock()
	dials := b.byKey[key]
	if dials == nil || dials.leftBehind < b.most {
		return nil
	}
	returned := make(chan *dial, 1)
	dials.waiting = append(dials.waiting, returned)
	return returned
}

// leaveWaiters undoes joinWaiters. It returns a dial that came meanwhile, or nil.
func (b *Bound) leaveWaiters(key any, returned chan *dial) *dial {
	b.mu.Lock()
	defer b.mu.Unlock()
	if dials := b.byKey[key]; dials != nil {
		for i, w := range dials.waiting {
			if w == returned {
				dials.waiting = slices.Delete(dials.waiting, i, i+1)
				return nil
			}
		}
	}
	return <-returned
}

// runDial calls f. If no caller waits for the connection, runDial closes it.
func (b *Bound) runDial(ctx context.Context, key any, d *dial, f func(context.Context) (redis.Conn, error)) {
	d.conn, d.err = f(ctx)
	d.err = Public(d.err)
	if d.err == nil && IsNone(d.conn) {
		d.conn, d.err = nil, ErrNoConn
	}
	if !b.endDial(key, d) && d.err == nil {
		d.conn.Close()
	}
}

// endDial records that d has returned, and reports whether a caller gets its result.
func (b *Bound) endDial(key any, d *dial) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(d.done)
	if !d.isLeftBehind {
		return true
	}
	dials := b.byKey[key]
	dials.leftBehind--
	waiting := dials.waiting
	dials.waiting = nil // the first caller gets d; the others dial, or wait again if b.most are still left behind
	if dials.leftBehind == 0 {
		delete(b.byKey, key)
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
	ended := wait.Ended(ctx) // not under b.mu, because ctx.Err may be a caller's own code
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-d.done: // just now
		return d.conn, d.err
	default:
	}
	d.isLeftBehind = true
	dials := b.byKey[key]
	if dials == nil {
		dials = &keyDials{}
		b.byKey[key] = dials
	}
	dials.leftBehind++
	return nil, ended
}
