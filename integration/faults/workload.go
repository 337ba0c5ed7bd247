package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
)

// contend takes turns at a key until ctx ends.
func (w *worker) contend(ctx context.Context, key string, k kind, rng *rand.Rand) {
	for ctx.Err() == nil {
		as := k
		if k == write && rng.IntN(3) > 0 {
			as = read
		}
		rest, ok := w.breaks.turn(ctx)
		if !ok {
			return
		}
		if k == mutex && w.Load.Throng > 0 && rng.IntN(thronged) == 0 {
			w.throng(ctx, key, k, rng, rest)
		}
		w.turn(ctx, key, as, rng, rest)
		w.breaks.done()
		sleep(ctx, time.Duration(rng.Int64N(int64(max(w.Load.Pause, 25*time.Millisecond)*2))))
	}
}

// thronged is how many turns there are to one throng, more or less.
const thronged = 20

// throng waits many times at once, and all that wait leave together: because what
// they wait with ends, or because there is a rest. Who leaves as the lock comes must
// not keep it, nor swallow the word that it is free.
func (w *worker) throng(ctx context.Context, key string, k kind, rng *rand.Rand, rest <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(50))*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		defer cancel()
		select {
		case <-rest:
		case <-ctx.Done():
		}
	})
	for range w.Load.Throng {
		all.Go(func() {
			if h := w.take(ctx, key, k, true); h != nil {
				h.seen = make(chan struct{})
				w.held.Go(func() { w.watch(h) })
				w.release(h)
			}
		})
	}
	all.Wait()
}

// turn is one attempt and, if it succeeds, one hold, which a rest ends.
func (w *worker) turn(ctx context.Context, key string, k kind, rng *rand.Rand, rest <-chan struct{}) {
	waiting, wait := ctx, true
	if n := rng.IntN(10); n == 0 {
		wait = false
	} else if n < 3 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(1+rng.IntN(100))*time.Millisecond)
		defer cancel()
	}
	h := w.take(waiting, key, k, wait)
	if h == nil {
		return
	}
	h.seen = make(chan struct{})
	w.held.Go(func() { w.watch(h) })
	if k == mutex && w.Flaw == None && rng.IntN(4) == 0 {
		// A re-entry that fails or is lost leaves the outer hold to say so.
		if inner, err := w.locker.lock(h.Context(ctx), k, key, true); err == nil {
			defer w.release(h)
			w.use(h, key, k)
			if err := inner.Unlock(ctx); errors.Is(err, lock.ErrUnknown) {
				_ = inner.Unlock(ctx) // else it counts, and the outer one is not the last
			}
			return
		}
	}
	w.use(h, key, k)
	lasts := time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
	switch n := rng.IntN(100); {
	case w.Load.Hold > 0:
		lasts = w.Load.Hold/2 + time.Duration(rng.Int64N(int64(w.Load.Hold)))
	case n == 0: // long enough that it must be renewed
		lasts = w.Lease/2 + time.Duration(rng.Int64N(int64(w.Lease)))
	case n < 20:
		lasts = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
	}
	w.trust(h)
	end := time.NewTimer(lasts)
	select {
	case <-h.Done():
	case <-ctx.Done():
	case <-rest:
	case <-end.C:
	}
	end.Stop()
	w.use(h, key, k)
	w.release(h)
}

// mine is a hold of this process.
type mine struct {
	holding
	id   int64
	key  string
	kind kind
	seen chan struct{} // closed when the end of Done was seen and written; nil in a crowd
}

// owner names the owner of an attempt, for the server's eyes too.
func owner(proc int, id int64) string { return fmt.Sprintf("p%d.%d.", proc, id) }

// owner is one of its own for each attempt, or the one that all have who share it.
func (w *worker) owner(id int64, key string, k kind) string {
	if k == shared {
		return fmt.Sprintf("all-of-p%d-at-%s", w.Proc, key)
	}
	return owner(w.Proc, id)
}

// take tries to get a hold; nil if there is none.
func (w *worker) take(ctx context.Context, key string, k kind, wait bool) *mine {
	id := w.ids.Add(1)
	w.rec.write(event{Op: opTry, ID: id, Key: key, Kind: k, Wait: wait})
	h, err := w.locker.lock(lock.WithOwner(ctx, w.owner(id, key, k)), k, key, wait)
	at := w.rec.stamp()
	if err != nil {
		w.rec.write(event{At: at, Op: opNot, ID: id, Key: key, Kind: k, Out: outcome(err)})
		if outcome(err) == outUnknown {
			sleep(ctx, w.Lease/20)
		}
		return nil
	}
	w.gotOf(key).Add(1)
	w.rec.write(event{At: at, Op: opGot, ID: id, Key: key, Kind: k, Token: h.Token(), Until: w.rec.clock.of(h.Deadline())})
	return &mine{holding: h, id: id, key: key, kind: k}
}

// gotOf counts the holds of a key that this process has had.
func (w *worker) gotOf(key string) *atomic.Int64 {
	n, _ := w.got.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// watch waits for the end of a hold and writes it down if it is a loss.
func (w *worker) watch(m *mine) {
	defer close(m.seen)
	<-m.Done()
	w.told(m, w.rec.stamp(), m.Err())
}

// told writes a loss down, if it is one.
func (w *worker) told(m *mine, at stamp, err error) {
	var lost *lock.LostError
	if errors.As(err, &lost) {
		w.rec.write(event{At: at, Op: opLost, ID: m.id, Key: m.key, Kind: m.kind, Why: lost.Reason.String(), Until: w.rec.clock.of(m.Deadline())})
		return
	}
	w.rec.drop(at)
}

// release unlocks, whatever ctx says, and looks at the server afterwards. That it
// returned is written when its loss was, if there was one: nothing follows it.
func (w *worker) release(m *mine) {
	before, got := w.fields(m), w.gotOf(m.key).Load()
	w.rec.write(event{Op: opFree, ID: m.id, Key: m.key, Kind: m.kind, Until: w.rec.clock.of(m.Deadline())})
	err := m.Unlock(context.Background())
	at := w.rec.stamp()
	e := event{At: at, Op: opFreed, ID: m.id, Key: m.key, Kind: m.kind, Out: outcome(err)}
	var lost *lock.LostError
	if errors.As(err, &lost) {
		e.Why = lost.Reason.String()
	}
	if m.seen != nil {
		<-m.seen
	}
	w.rec.write(e)
	if m.seen == nil || err != nil || len(before) == 0 {
		return
	}
	// A client hands a mutex on without the server: the next one has its field then. If
	// the one that it was for leaves, the client releases it.
	stays := func() bool {
		after := w.fields(m)
		return !slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(after, f) })
	}
	for end := time.Now().Add(w.Lease / 4); stays(); time.Sleep(time.Millisecond) {
		if m.kind == mutex && w.gotOf(m.key).Load() > got {
			return
		}
		if m.kind != mutex || time.Now().After(end) {
			w.rec.write(event{Op: opWrong, ID: m.id, Key: m.key, Out: fmt.Sprintf("released, and the server still has its field %q", before)})
			return
		}
	}
}

// fields are those of a hold's owner that the server has now: the hold's own, and
// perhaps one of an attempt that was given up and arrived late.
func (w *worker) fields(m *mine) []string {
	if w.direct == nil || m.seen == nil || m.kind == permit || m.kind == count || m.kind == shared {
		return nil
	}
	conn := w.direct.Get()
	defer conn.Close()
	all, err := redis.Strings(redis.DoWithTimeout(conn, w.Lease, "HKEYS", m.key))
	if err != nil {
		return nil // it cannot be looked at now
	}
	return slices.DeleteFunc(all, func(f string) bool {
		return !strings.Contains(f, owner(w.Proc, m.id)) && !strings.HasPrefix(f, fmt.Sprintf("twin%d", w.Proc))
	})
}

// trust checks that the server will not let the key expire before the holder
// stops to rely on it.
func (w *worker) trust(m *mine) {
	if w.direct == nil || !w.Steady || m.kind == permit || m.kind == count {
		return
	}
	conn := w.direct.Get()
	defer conn.Close()
	until := w.rec.clock.of(m.Deadline()) // a renewal moves only the other
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

// use adds one to the register's number under the hold's token, and, if the
// key is exclusively held, to the raw one.
func (w *worker) use(h *mine, key string, k kind) {
	if k != mutex || w.Register == "" {
		return
	}
	token := h.Token()
	e := event{Op: opUse, ID: h.id, Key: key, Kind: k, Token: token}
	w.rec.write(e) // stamped there
	v, err := w.register.get(key, token)
	e.Op, e.Out, e.Value, e.At = opUsed, used(err), v, w.rec.stamp()
	w.rec.write(e)
	if err != nil || h.Err() != nil {
		return
	}
	if err := w.register.addRaw(key); err != nil {
		w.rec.write(event{Op: opWrong, ID: h.id, Key: key, Out: "the register failed: " + err.Error()})
	}
	e = event{Op: opUse, ID: h.id, Key: key, Kind: k, Token: token, Write: true, Value: v + 1}
	w.rec.write(e)
	err = w.register.set(key, token, v+1)
	e.Op, e.Out, e.At = opUsed, used(err), w.rec.stamp()
	w.rec.write(e)
}

func used(err error) string {
	switch {
	case err == nil:
		return outOK
	case errors.Is(err, errRefused):
		return outRefused
	}
	return outUnknown
}
