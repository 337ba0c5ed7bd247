package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// Flaw is the flaw of a flawed client. This is a small lock client with one of the usual flaws of
// lock clients, which shows only in some rows. It goes through the same rows and checks as
// the library, and they must find the flaw.
type Flaw string

const (
	None     Flaw = ""              // the library itself
	Unbroken Flaw = "no flaw"       // the small client without a flaw, in which the checks must find nothing
	Blind    Flaw = "blind unlock"  // Unlock deletes the key without looking whose it is
	Unfenced Flaw = "no tokens"     // like Blind, and all tokens are the same
	Late     Flaw = "told late"     // Done ends only after one and a half leases
	Trusting Flaw = "trusts on"     // like Late, and the deadline says the same
	Ghostly  Flaw = "leaves ghosts" // Unlock is not sent, so the key stays until its lease ends
	Sleepy   Flaw = "sleeps on"     // a waiter tries only every four leases, and is never woken
)

// flawed is a flawed client. It has only mutexes, and no two goroutines may share a key.
type flawed struct {
	// immutable
	flaw  Flaw
	lease time.Duration
	poll  time.Duration
	pool  *redis.Pool
	id    string

	seq atomic.Int64
}

var errHeld = fmt.Errorf("faults: %w", lock.ErrNotAcquired)

const (
	// flawedTake answers a token, or 0.
	flawedTake = `
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return redis.call('incr', KEYS[2])`
	flawedRenew = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`
	flawedFree = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('del', KEYS[1])`
	flawedFreeBlindly = `redis.call('del', KEYS[1]) return 1`
)

func newFlawed(s spec) *flawed {
	return &flawed{
		flaw: s.Flaw, lease: s.Lease, poll: s.MaxPoll / 20, id: flawedField(s.Proc),
		pool: &redis.Pool{MaxIdle: 8, DialContext: dialer(s.Addr, s.Lease/10)},
	}
}

// flawedField returns the prefix of the fields of a process's flawed client.
func flawedField(proc int) string { return fmt.Sprintf("flawed%d:", proc) }

func (c *flawed) countHolds() (held, waiting int) { return 0, 0 }

func (c *flawed) close() { _ = c.pool.Close() }

// do runs a script over a key; an answer that does not come is an error.
func (c *flawed) do(text, key string, args ...any) (int64, error) {
	conn := c.pool.Get()
	defer conn.Close()
	return redis.Int64(redis.DoWithTimeout(conn, c.lease/4, "EVAL", append([]any{text, 2, key, key + ":token"}, args...)...))
}

// newField is the field of one attempt.
func (c *flawed) newField() string { return fmt.Sprint(c.id, c.seq.Add(1)) }

func (c *flawed) lock(ctx context.Context, _ kind, key string, wait bool) (holding, error) {
	poll := c.poll
	if c.flaw == Sleepy {
		poll = 4 * c.lease
	}
	for ctx.Err() == nil {
		h := &flawedHold{client: c, key: key, field: c.newField(), done: make(chan struct{}), stop: make(chan struct{})}
		h.timer = time.AfterFunc(c.lease, h.expire)
		stamp := time.Now()
		token, err := c.do(flawedTake, key, h.field, c.lease.Milliseconds())
		if err == nil && token > 0 && h.trust(stamp) {
			if h.token = token; c.flaw == Unfenced {
				h.token = 1
			}
			h.renewing.Go(h.renew)
			return h, nil
		}
		h.timer.Stop()
		if !wait {
			return nil, cmp.Or(err, errHeld)
		}
		sleep(ctx, poll)
	}
	return nil, ctx.Err()
}

type flawedHold struct {
	// immutable
	client     *flawed
	key, field string
	token      int64
	done, stop chan struct{}
	renewing   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	until time.Time
	told  time.Time   // when Done ends if nothing is renewed
	timer *time.Timer // of expire
	ended bool
	err   error
}

// trust extends the hold after a request that was sent at stamp has succeeded. It returns false if
// that is too long ago.
func (h *flawedHold) trust(stamp time.Time) bool {
	lasts := h.client.lease - margin(h.client.lease)
	if h.client.flaw == Trusting {
		lasts = h.client.lease * 3 / 2
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(stamp.Add(lasts)) {
		return false
	}
	h.until, h.told = stamp.Add(lasts), stamp.Add(lasts)
	if h.client.flaw == Late {
		h.told = stamp.Add(h.client.lease * 3 / 2)
	}
	h.timer.Reset(time.Until(h.told))
	return true
}

// expire ends the hold if its trust has ended.
func (h *flawedHold) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.told) {
		h.endLocked(lock.TrustEnded)
	}
}

func (h *flawedHold) renew() {
	next := time.NewTicker(h.client.lease / 3)
	defer next.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-next.C:
		}
		stamp := time.Now()
		n, err := h.client.do(flawedRenew, h.key, h.field, h.client.lease.Milliseconds())
		switch {
		case err == nil && n == 0 && h.client.flaw != Late:
			h.mu.Lock()
			h.endLocked(lock.NotOwner)
			h.mu.Unlock()
		case err == nil && n == 1 && time.Now().Before(h.Deadline()):
			h.trust(stamp)
		}
	}
}

func (h *flawedHold) endLocked(r lock.Reason) {
	if !h.ended {
		h.ended, h.err = true, &lock.LostError{Name: h.key, Reason: r, Token: h.token}
		close(h.done)
	}
}

func (h *flawedHold) Unlock(context.Context) error {
	h.mu.Lock()
	lost := h.err
	if !h.ended {
		h.ended, h.err = true, lock.ErrNotHeld
		close(h.done)
	}
	h.mu.Unlock()
	close(h.stop)
	h.renewing.Wait()
	h.timer.Stop()
	if h.client.flaw == Ghostly {
		return lost
	}
	free := flawedFree
	if h.client.flaw == Blind || h.client.flaw == Unfenced {
		free = flawedFreeBlindly
	} else if lost != nil {
		return lost
	}
	var n int64
	err := errors.New("not sent")
	try := 0
	for ; err != nil && try < 10; try++ {
		n, err = h.client.do(free, h.key, h.field)
	}
	switch {
	case lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
	case n == 0 && try == 1: // if there were more tries, an earlier one may have freed it
		return &lock.LostError{Name: h.key, Reason: lock.NotOwner, Token: h.token}
	}
	return nil
}

func (h *flawedHold) Context(ctx context.Context) context.Context { return ctx }

func (h *flawedHold) Done() <-chan struct{} { return h.done }

func (h *flawedHold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *flawedHold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *flawedHold) Token() int64 { return h.token }
