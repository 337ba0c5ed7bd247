package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

const (
	// resultTTL is how long Redis remembers the result of a request.
	resultTTL = 30 * time.Second
	// resendTime is how long after its first sending a request may be sent again and
	// carried out. It is well below resultTTL, because a copy may still be under way.
	resendTime = 20 * time.Second
)

// recorded is one request to an object that has no owner, a semaphore or a latch.
// Its script also keeps the result, under a key of its own and in the same step. So a
// copy of the request changes nothing and gets the first answer again.
type recorded struct {
	c       *Client
	op      string
	name    string
	once    wire.Once
	written time.Time // when the first copy was sent that has run or may run; zero if there is none
}

// newRecorded makes a request of once. If once has no Object, the object is name.
func newRecorded(c *Client, op, name string, once wire.Once) *recorded {
	if once.Object == "" {
		once.Object = name
	}
	if once.Script.Publishes() {
		once.Publish = c.holds.Publisher(name)
	}
	once.Result, once.Keep = keys.Result(name, c.id, c.holds.Seq()), resultTTL
	return &recorded{c: c, op: op, name: name, once: once}
}

// call returns the request as it is sent now.
func (d *recorded) call() wire.Call {
	call := d.once.Call()
	call.Last = d.lastSending()
	return call
}

// carryOut sends d until it is answered, ctx ends, stop is closed, or resendTime is over. If again is
// false, it sends d only once. If Redis answered, the Outcome is Granted.
func (d *recorded) carryOut(ctx context.Context, stop <-chan struct{}, again bool) (resp.Reply, wire.Outcome) {
	for try := 0; ; try++ {
		began, wasSent := time.Now(), !d.written.IsZero()
		a := d.c.network.Send(ctx, d.name, d.call(), nil)
		if a.Err == nil {
			return a.Reply, wire.Outcome{Result: wire.Granted}
		}
		if d.written.IsZero() && !pipe.NotRun(a.Err) && (!a.Stamp.IsZero() || wait.Ended(ctx) != nil) {
			d.written = began
		}
		if errors.Is(a.Err, ErrClosed) {
			return resp.Reply{}, d.outcomeOfClose()
		}
		if a.Stamp.IsZero() {
			a.Stamp = d.written // an earlier copy was sent
		}
		o := d.c.holds.Outcome(d.op, a)
		if o.Result == wire.Denied && wasSent { // this copy was refused, but an earlier one may have been carried out
			o.Result, again = wire.Unknown, false
		}
		if !o.Result.IsUnanswered() || !again || d.isTooOld() || wait.Pause(ctx, stop, wait.Backoff(d.c.random, try)) != nil {
			if o.Result == wire.Unknown && d.isTooOld() {
				o.Cause = stoppedError{o.Cause}
			}
			return resp.Reply{}, o
		}
		if wait.Closed(stop) {
			return resp.Reply{}, d.outcomeOfClose()
		}
	}
}

// outcomeOfClose returns the outcome of d if Close ends it.
func (d *recorded) outcomeOfClose() wire.Outcome {
	if d.written.IsZero() {
		return wire.Outcome{Result: wire.Closed}
	}
	return wire.Outcome{Result: wire.Unknown, Op: d.op, Cause: ErrClosed}
}

// isTooOld reports whether d must not be sent again.
func (d *recorded) isTooOld() bool {
	return !d.written.IsZero() && wait.Left(d.lastSending(), time.Now()) <= 0
}

// stoppedError is the cause of an unknown outcome whose request is not sent any more.
type stoppedError struct{ err error }

func (e stoppedError) Error() string { return e.err.Error() }
func (e stoppedError) Unwrap() error { return e.err }

// lastSending returns the time after which d must not be sent any more.
func (d *recorded) lastSending() time.Time {
	if d.written.IsZero() {
		return time.Now().Add(resendTime)
	}
	return d.written.Add(resendTime)
}

// runForNumber is run, for a script whose answer is a number.
func (d *recorded) runForNumber(ctx context.Context, refusedByClose bool) (int64, error) {
	reply, err := d.run(ctx, refusedByClose)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, badReply(d.op, d.name, reply)
	}
	return n, nil
}

// run carries d out within Config.UnlockTimeout. If the outcome is unknown then, the
// client keeps sending d in the background until resendTime is over. With
// refusedByClose, a client that is closing does not send d.
func (d *recorded) run(ctx context.Context, refusedByClose bool) (any, error) {
	if err := d.c.checkName(d.name); err != nil {
		return nil, err
	}
	if wait.Ended(ctx) != nil {
		return nil, newWaitError(ctx, d.name, nil)
	}
	if !d.c.table.Begin(d.name, refusedByClose) {
		return nil, closedError(d.name)
	}
	defer d.c.table.End(d.name)
	ctx, cancel := context.WithTimeout(wait.Sound(ctx), d.c.cfg.UnlockTimeout)
	defer cancel()
	reply, o := d.carryOut(ctx, nil, true)
	if _, stopped := o.Cause.(stoppedError); o.Result == wire.Unknown && !stopped {
		call := d.call()
		d.c.orphans.Send(d.name, call, call.Last)
	}
	return reply.Any(), d.c.errors.Of(ctx, d.name, o)
}
