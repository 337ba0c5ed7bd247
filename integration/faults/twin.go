package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// Flaw is how a twin is broken. A twin is a small lock client, good enough to
// pass in calm weather and in most storms, with one of the faults that lock
// clients have. It goes through the same rows and the same checks as the
// library, and they must find it out.
type Flaw string

const (
	None     Flaw = ""              // the library itself
	Unbroken Flaw = "no flaw"       // a twin without one: it is the flaw that is found out
	Blind    Flaw = "blind unlock"  // Unlock deletes the key without looking whose it is
	Late     Flaw = "told late"     // the end of Done comes at one and a half leases
	Trusting Flaw = "trusts on"     // so does the deadline
	Counting Flaw = "counts up"     // acquire adds to the count of a field that is used again
	Ghostly  Flaw = "leaves ghosts" // Unlock is not sent: the lease frees the key
	Sleepy   Flaw = "sleeps on"     // who waits looks again after many polls, and nobody wakes it
)

// twin is a broken lock client. It knows mutexes only.
type twin struct {
	// immutable
	flaw  Flaw
	lease time.Duration
	poll  time.Duration
	pool  *redis.Pool
	id    string

	mu    sync.Mutex // guards what follows
	seq   int
	turns map[string]chan struct{} // of the goroutines of this process at a key
}

var errHeld = fmt.Errorf("faults: %w", lock.ErrNotAcquired)

const (
	// twinTake answers a token, or 0. A field that is there is taken again.
	twinTake = `
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return redis.call('incr', KEYS[2])`
	twinRenew = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`
	twinFree = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then redis.call('del', KEYS[1]) end
return 1`
	twinFreeBlindly = `redis.call('del', KEYS[1]) return 1`
)

func newTwin(s spec) *twin {
	return &twin{
		flaw: s.Flaw, lease: s.Lease, poll: s.MaxPoll / 20, id: fmt.Sprintf("twin%d", s.Proc),
		pool:  &redis.Pool{MaxIdle: 8, DialContext: dialer(s.Addr, s.Lease/10)},
		turns: map[string]chan struct{}{},
	}
}

func (t *twin) numbers() (lock.Stats, bool) { return lock.Stats{}, false }

func (t *twin) close() { _ = t.pool.Close() }

// do runs a script over a key; an answer that does not come is an error.
func (t *twin) do(text, key string, args ...any) (int64, error) {
	conn := t.pool.Get()
	defer conn.Close()
	return redis.Int64(redis.DoWithTimeout(conn, t.lease/10, "EVAL", append([]any{text, 2, key, key + ":token"}, args...)...))
}

// field is the holder's: used again by the one who counts, else new.
func (t *twin) field() string {
	if t.flaw == Counting {
		return t.id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	return fmt.Sprintf("%s:%d", t.id, t.seq)
}

// turn is a mutex of this process for a key.
func (t *twin) turn(key string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns[key] == nil {
		t.turns[key] = make(chan struct{}, 1)
	}
	return t.turns[key]
}

func (t *twin) lock(ctx context.Context, k kind, key string, wait bool) (holding, error) {
	if k != mutex {
		return nil, errors.ErrUnsupported
	}
	turn := t.turn(key)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	poll := t.poll
	if t.flaw == Sleepy {
		poll = 4 * t.lease
	}
	for ctx.Err() == nil {
		h := &twinHold{t: t, key: key, field: t.field(), turn: turn, done: make(chan struct{}), stop: make(chan struct{})}
		stamp := time.Now()
		token, err := t.do(twinTake, key, h.field, t.lease.Milliseconds())
		if err == nil && token > 0 && h.trust(stamp) {
			h.token = token
			h.renewing.Go(h.renew)
			return h, nil
		}
		if !wait {
			<-turn
			if err == nil {
				err = errHeld
			}
			return nil, err
		}
		sleep(ctx, poll)
	}
	<-turn
	return nil, ctx.Err()
}

type twinHold struct {
	// immutable
	t          *twin
	key, field string
	token      int64
	turn       chan struct{}
	done, stop chan struct{}
	renewing   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	until time.Time
	ended bool
	err   error
}

// trust notes a yes that was asked for at stamp, if it still counts.
func (h *twinHold) trust(stamp time.Time) bool {
	lasts := h.t.lease - margin(h.t.lease)
	if h.t.flaw == Trusting {
		lasts = h.t.lease * 3 / 2
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(stamp.Add(lasts)) {
		return false
	}
	h.until = stamp.Add(lasts)
	return true
}

func (h *twinHold) renew() {
	next := time.NewTicker(h.t.lease / 3)
	defer next.Stop()
	for {
		told := h.Deadline()
		if h.t.flaw == Late {
			told = told.Add(margin(h.t.lease) + h.t.lease/2)
		}
		end := time.NewTimer(time.Until(told))
		select {
		case <-h.stop:
			end.Stop()
			return
		case <-end.C:
			h.end(lock.TrustEnded)
			return
		case <-next.C:
			end.Stop()
		}
		stamp := time.Now()
		n, err := h.t.do(twinRenew, h.key, h.field, h.t.lease.Milliseconds())
		switch {
		case err == nil && n == 0 && h.t.flaw != Late:
			h.end(lock.NotOwner)
			return
		case err == nil && n == 1 && time.Now().Before(h.Deadline()):
			h.trust(stamp)
		}
	}
}

func (h *twinHold) end(r lock.Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended, h.err = true, &lock.LostError{Name: h.key, Reason: r, Token: h.token}
		close(h.done)
	}
}

func (h *twinHold) Unlock(context.Context) error {
	defer func() { <-h.turn }()
	h.mu.Lock()
	lost := h.err
	if !h.ended {
		h.ended, h.err = true, lock.ErrNotHeld
		close(h.done)
	}
	h.mu.Unlock()
	close(h.stop)
	h.renewing.Wait()
	if h.t.flaw == Ghostly {
		return lost
	}
	free := twinFree
	if h.t.flaw == Blind {
		free = twinFreeBlindly
	} else if lost != nil {
		return lost
	}
	var n int64
	err := errors.New("not sent")
	try := 0
	for ; err != nil && try < 10; try++ {
		n, err = h.t.do(free, h.key, h.field)
	}
	switch {
	case lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
	case n == 0 && try == 1: // else an earlier one may have freed it
		return &lock.LostError{Name: h.key, Reason: lock.NotOwner, Token: h.token}
	}
	return nil
}

func (h *twinHold) Context(ctx context.Context) context.Context { return ctx }

func (h *twinHold) Done() <-chan struct{} { return h.done }

func (h *twinHold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *twinHold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *twinHold) Token() int64 { return h.token }
