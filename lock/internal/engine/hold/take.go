package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Terms has what the caller of a lock function asks for.
type Terms struct {
	Lease   time.Duration // Config.Lease if it is renewed
	Renewed bool
	Wait    bool
	Fewer   bool // of permits: fewer will do

	MaxHoldEnd time.Time // when Config.MaxHold is over; zero: it counts from the acquisition
}

// Wanted says what a call takes, and for which owner.
type Wanted struct {
	Kind    Kind
	Name    string
	Owner   owner.Owner
	Shared  bool  // the owner came with the context, so others may have it too
	Permits int64 // how many; permits have no owner
	Terms
}

// Take takes the lock or permits. It waits for them if the caller waits, and reports whether it had to.
func (k *Engine) Take(ctx context.Context, w Wanted) (held *Held, waited bool, err error) {
	a := attempt{engine: k, Wanted: w, seq: k.seqs.Add(1)}
	switch w.Kind {
	case Fair:
		return (&fairPlace{attempt: a}).take(ctx)
	case Read, Write:
		return (&rwAcquire{attempt: a}).take(ctx)
	case Permits:
		a.Owner = newPermits(w.Permits).asOwner()
		return (&permitAcquire{attempt: a}).take(ctx)
	}
	x := &mutexAcquire{attempt: a}
	return x.waitInLine(ctx, x, locktable.Request{})
}

// CheckLease refuses a lease that Redis or the watchdog cannot keep.
func CheckLease(name string, d time.Duration) error {
	if d < renewal.MinTTL || d > renewal.MaxTTL || d%time.Millisecond != 0 {
		return fmt.Errorf("lock: %q: the lease is %v: it must be whole milliseconds from %v to %v", name, d, renewal.MinTTL, renewal.MaxTTL)
	}
	return nil
}

// mutexAcquire is a call such as Lock of a Mutex or FencedMutex. Its queue is only in this client.
type mutexAcquire struct{ attempt }

// Try implements locktable.Acquisition.
func (x *mutexAcquire) Try(ctx context.Context) wire.Outcome {
	var room [fieldRoom]byte
	f := appendField(room[:0], x.engine.cfg.ID, x.Kind, x.Owner, x.seq)
	counter, least := x.engine.counterOf(x.Kind, x.Name)
	more, again := x.waiter.Forecast()
	if !kinds[x.Kind].handedOver || !x.Renewed {
		more = 0 // no tokens are reserved, because only a script hands it over
	}
	return x.try(ctx, wire.Acquire{
		Name: x.Name, Counter: counter, Field: f, Lease: x.Lease, Least: least, More: more, Again: again,
	}.Call(), nil)
}

// rwAcquire is a call such as Lock of the reader or the writer of a RWMutex.
type rwAcquire struct {
	attempt
	writer string                     // of a writer that waits: its name among the waiting writers, see RWMutex
	open   orphans.UnansweredRequests // until when requests that were not answered may still announce it there
}

func (x *rwAcquire) take(ctx context.Context) (held *Held, waited bool, err error) {
	held, waited, err = x.waitInLine(ctx, x, locktable.Request{Reading: x.Kind == Read})
	if x.open.Written {
		x.withdraw(x.open)
	} else if x.writer != "" && (held == nil || held.h.seq != x.seq) { // a re-entry's script knows nothing of writers
		x.withdraw(orphans.UnansweredRequests{})
	}
	return held, waited, err
}

// Try implements locktable.Acquisition.
func (x *rwAcquire) Try(ctx context.Context) wire.Outcome {
	f := x.field()
	if x.Kind == Read {
		return x.try(ctx, x.read(f), nil)
	}
	if x.Wait && !x.engine.cfg.ReadersFirst && x.waiter.Waited() && x.writer == "" {
		x.writer = f // it waits: new readers wait behind it
	}
	if x.writer == "" {
		return x.try(ctx, x.write(f), nil)
	}
	return x.try(ctx, x.write(f), x.announced)
}

// announced handles the answer to a request that announces the writer. A writer that has left has
// withdrawn. With Config.Replicas the withdrawal used another connection, so this request may have
// announced the writer after it.
func (x *rwAcquire) announced(o wire.Outcome, ans pipe.Answer, left bool) {
	var late orphans.UnansweredRequests
	open := &x.open
	if left {
		open = &late // take may be using the other
	}
	if mayStillRun(o, ans) && !ans.Taken {
		open.Note(ans)
	}
	if left {
		x.withdraw(late)
	}
}

func (x *rwAcquire) read(field string) wire.Call {
	writer := ""
	if h := x.engine.recordWritersLease(x.Name, x.Owner, x.Lease); h != nil {
		writer = h.field()
	}
	return wire.Read{
		Name: x.Name, Field: field, Lease: x.Lease, Writer: writer, First: x.engine.cfg.ReadersFirst, Publish: x.engine.Network.Publisher(x.Name),
	}.Call()
}

func (x *rwAcquire) write(field string) wire.Call {
	announced := time.Duration(0)
	if x.writer != "" {
		announced = announcement(&x.engine.cfg)
	}
	return wire.Write{
		Name: x.Name, Field: field, Lease: x.Lease, Waiting: x.writer, Announced: announced, Publish: x.engine.Network.Publisher(x.Name),
	}.Call()
}

// RefuseDeadlock implements locktable.Acquisition.
func (x *rwAcquire) RefuseDeadlock(*Hold) wire.Outcome { return wire.Outcome{Result: wire.Upgrade} }

// withdraw tells readers that the writer no longer waits. Requests of open may still announce it.
func (x *rwAcquire) withdraw(open orphans.UnansweredRequests) {
	k, call, lasts := x.engine, wire.Withdraw(x.Name, x.writer, x.engine.Publisher(x.Name)), announcement(&x.engine.cfg)
	if open.Written {
		k.Orphans.AddUnanswered(orphans.Field{Name: x.Name, Lease: lasts, Release: call}, open.Until())
	} else {
		k.Orphans.Send(x.Name, call, time.Now().Add(lasts))
	}
}

// announcement is how long the announcement of a waiting writer keeps readers out. The
// writer repeats it in each MaxPoll.
func announcement(cfg *Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }

// permitAcquire is a call of PermitSemaphore.Acquire and its like. Permits have no owner, so they
// are neither re-entered nor handed over.
type permitAcquire struct{ attempt }

func (x *permitAcquire) take(ctx context.Context) (held *Held, waited bool, err error) {
	return x.waitInLine(ctx, x, locktable.Request{Needs: x.needs()})
}

// needs returns how many permits must be free.
func (x *permitAcquire) needs() int64 {
	if x.Fewer {
		return 1
	}
	return x.Permits
}

// Refusal implements locktable.Acquisition.
func (x *permitAcquire) Refusal(time.Duration) wire.Outcome {
	return wire.Outcome{Result: wire.Refused, Wanted: x.needs(), OthersWait: true}
}

// Try implements locktable.Acquisition.
func (x *permitAcquire) Try(ctx context.Context) wire.Outcome {
	k := x.engine
	if !k.Orphans.Begin() {
		return wire.Outcome{Result: wire.Closed}
	}
	ids := permitIDs(x.Owner)
	n := ids.n()
	began := time.Now()
	ans := x.send(ctx, wire.PermitTake{
		Name: x.Name, IDs: ids.Text, N: n, Fewer: x.Fewer, Lease: x.Lease, Now: began, Publish: k.Network.Publisher(x.Name),
	}.Call(), x.lateHandler(wire.ReadPermits, nil))
	if !ans.IsAbandoned {
		defer k.Orphans.End()
	}
	o := k.read("acquire", ans, wire.ReadPermits)
	o.Wanted = x.needs()
	switch {
	case o.Result != wire.Granted:
		return x.failTry(o, ans)
	case o.Taken != n && !x.Fewer:
		x.retire(time.Time{}) // a copy of this request came before, and what it took is partly gone
		return wire.Outcome{Result: wire.Unknown, Op: "acquire", Cause: fmt.Errorf("%d permits instead of %d", o.Taken, n)}
	}
	x.Owner = ids.first(o.Taken).asOwner()
	ans.Stamp = began // Redis was told an end that counts from began, not from the sending
	return x.grant(ctx, ans, o)
}
