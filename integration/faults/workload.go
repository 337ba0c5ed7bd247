package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// keepHolding holds a key of its own until ctx ends, and takes it again when it is lost. It
// calls ready when it has it for the first time.
func (w *worker) keepHolding(ctx context.Context, key string, ready func()) {
	for ctx.Err() == nil {
		h := w.acquire(ctx, key, mutex, true)
		if h == nil {
			continue
		}
		if ready != nil {
			ready()
			ready = nil
		}
		select {
		case <-h.Done():
		case <-ctx.Done():
		}
		w.release(h)
	}
	if ready != nil {
		ready()
	}
}

// contend takes turns at a key until ctx ends.
func (w *worker) contend(ctx context.Context, key string, k kind, rng *rand.Rand) {
	for ctx.Err() == nil {
		as := k
		if k == write && rng.IntN(3) > 0 {
			as = read
		}
		w.takeTurn(ctx, key, as, rng)
		sleep(ctx, time.Duration(rng.Int64N(int64(cmp.Or(w.Load.Pause, 50*time.Millisecond)))))
	}
}

// takeTurn is one attempt and, if it succeeds, one hold.
func (w *worker) takeTurn(ctx context.Context, key string, k kind, rng *rand.Rand) {
	waiting, wait := ctx, true
	if n := rng.IntN(10); n == 0 {
		wait = false
	} else if n < 3 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(1+rng.IntN(100))*time.Millisecond)
		defer cancel()
	}
	h := w.acquire(waiting, key, k, wait)
	if h == nil {
		return
	}
	defer w.release(h)
	w.incrementRegister(h)
	if k == mutex && w.Flaw == None && rng.IntN(4) == 0 {
		// A re-entry that fails or is lost leaves the outer hold to say so.
		if inner, err := w.client.lock(h.Context(ctx), k, key, true); err == nil {
			if err := inner.Unlock(ctx); errors.Is(err, lock.ErrUnknown) {
				_ = inner.Unlock(ctx) // otherwise it still counts, and the outer Unlock is not the last
			}
			return
		}
	}
	lasts := time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
	switch n := rng.IntN(100); {
	case w.Load.Hold > 0:
		lasts = w.Load.Hold/2 + time.Duration(rng.Int64N(int64(w.Load.Hold)))
	case n == 0: // long enough that it must be renewed
		lasts = w.Lease/2 + time.Duration(rng.Int64N(int64(w.Lease)))
	case n < 20:
		lasts = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
	}
	w.checkTrust(h)
	end := time.NewTimer(lasts)
	defer end.Stop()
	select {
	case <-h.Done():
	case <-ctx.Done():
	case <-end.C:
	}
	w.incrementRegister(h)
}

// workerHold is a hold of this process.
type workerHold struct {
	holding
	id   int64
	key  string
	kind kind
	seen chan struct{} // closed by watch when Done has ended and a loss was recorded
}

// eventOf returns an event of m that happens now.
func (w *worker) eventOf(m *workerHold, o op) event {
	return event{At: now(), Op: o, ID: m.id, Key: m.key, Kind: m.kind, Token: m.Token(), Until: w.clock.of(m.Deadline())}
}

// owner returns the owner of an attempt. Its field on the server contains it.
func owner(proc int, id int64) string { return fmt.Sprintf("p%d.%d.", proc, id) }

// acquire tries to get a hold; nil if there is none.
func (w *worker) acquire(ctx context.Context, key string, k kind, wait bool) *workerHold {
	m := &workerHold{id: w.ids.Add(1), key: key, kind: k, seen: make(chan struct{})}
	w.rec.write(event{Op: opTry, ID: m.id, Key: key, Kind: k, Wait: wait})
	h, err := w.client.lock(lock.WithOwner(ctx, owner(w.Proc, m.id)), k, key, wait)
	if err != nil {
		w.rec.write(event{Op: opNot, ID: m.id, Key: key, Kind: k, Out: outcomeOf(err)})
		if outcomeOf(err) == outUnknown {
			sleep(ctx, w.Lease/20)
		}
		return nil
	}
	m.holding = h
	e := w.eventOf(m, opGot)
	w.holdsOf(key).Add(1)
	w.rec.write(e)
	w.held.Go(func() { w.watch(m) })
	return m
}

// holdsOf counts the holds of a key that this process has had.
func (w *worker) holdsOf(key string) *atomic.Int64 {
	n, _ := w.got.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// watch waits for the end of a hold and records it if it is a loss.
func (w *worker) watch(m *workerHold) {
	defer close(m.seen)
	<-m.Done()
	e := w.eventOf(m, opLost)
	var lost *lock.LostError
	if errors.As(m.Err(), &lost) {
		e.Why = lost.Reason.String()
		w.rec.write(e)
	}
}

// release unlocks, and looks at the server afterwards. If there was a loss, it records the loss before
// the return of Unlock, which is the last event of a hold.
func (w *worker) release(m *workerHold) {
	before, got := w.serverFields(m), w.holdsOf(m.key).Load()
	w.rec.write(w.eventOf(m, opFree))
	err := m.Unlock(context.Background())
	e := w.eventOf(m, opFreed)
	e.Out = outcomeOf(err)
	var lost *lock.LostError
	if errors.As(err, &lost) {
		e.Why = lost.Reason.String()
	}
	<-m.seen
	w.rec.write(e)
	if err != nil || len(before) == 0 {
		return
	}
	// A client hands a mutex over in memory, and then the next hold has the same field. If the next
	// caller has left, the client releases the field.
	for range 250 {
		if after := w.serverFields(m); slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(after, f) }) ||
			m.kind == mutex && w.holdsOf(m.key).Load() > got {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.rec.write(event{Op: opWrong, ID: m.id, Key: m.key, Out: fmt.Sprintf("released, and the server still has its field %q", before)})
}

// serverFields returns the fields of a hold's owner on the server: the hold's own field, and
// perhaps the field of an abandoned attempt that arrived late.
func (w *worker) serverFields(m *workerHold) []string {
	if w.direct == nil || isOwn(m.key) {
		return nil
	}
	conn := w.direct.Get()
	defer conn.Close()
	all, err := redis.Strings(redis.DoWithTimeout(conn, w.Lease, "HKEYS", m.key))
	if err != nil {
		return nil // the server cannot be asked now
	}
	return slices.DeleteFunc(all, func(f string) bool {
		return !strings.Contains(f, owner(w.Proc, m.id)) && !strings.HasPrefix(f, flawedField(w.Proc))
	})
}

// checkTrust checks that the server will not let the key expire before the holder
// stops relying on it.
func (w *worker) checkTrust(m *workerHold) {
	if w.direct == nil || !w.Steady {
		return
	}
	conn := w.direct.Get()
	defer conn.Close()
	until := w.clock.of(m.Deadline()) // read first: a renewal before PTTL makes only the TTL longer
	left, err := redis.Int64(redis.DoWithTimeout(conn, w.Lease, "PTTL", m.key))
	at := now()
	if err != nil || m.Err() != nil {
		return
	}
	expiry := at.add(time.Duration(max(left, 0)+1) * time.Millisecond)
	if until > expiry {
		w.rec.write(event{Op: opWrong, ID: m.id, Key: m.key, Out: fmt.Sprintf("trusted for %v longer than the server keeps it", until.sub(expiry))})
	}
}

// incrementRegister adds one to the register's number under the hold's token.
func (w *worker) incrementRegister(m *workerHold) {
	if m.kind != mutex {
		return
	}
	if v, err := w.accessRegister(m, 0); err == nil && m.Err() == nil {
		_, _ = w.accessRegister(m, v+1)
	}
}

// accessRegister reads the number in the register, or writes it if value is not 0. It records the
// event.
func (w *worker) accessRegister(m *workerHold, value int64) (got int64, err error) {
	e := event{Op: opUse, ID: m.id, Key: m.key, Kind: m.kind, Token: m.Token(), Write: value != 0, Value: value}
	var write []any
	if value != 0 {
		write = []any{value}
	}
	w.rec.write(e)
	got, err = w.register.do(m.key, e.Token, write...)
	e.Op, e.Out = opUsed, outcomeOf(err)
	if value == 0 {
		e.Value = got
	}
	w.rec.write(e)
	return got, err
}
