package hold

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// fairPlace is a call that takes a FairMutex, with the state of its place in the queue. Only the
// call's goroutine uses the fields.
//
// It keeps its field after a request that was not answered. A copy of that request that comes
// late changes nothing in the queue, because the waiter has given a later sign. If it comes when
// the lock is held, it finds the hold. The hold knows until when it may come, and its field is
// owed when it ends. Only a request without a time limit makes the waiter take a new field.
type fairPlace struct {
	attempt
	line        *fairLine       // nil for a call that does not wait
	answers     chan fairAnswer // from line
	past        []string        // fields that it had before, whose requests have no time limit: it takes their place
	sent        bool            // it may stand in the queue
	took        bool            // its field is the hold's
	mayRunUntil time.Time       // until when an unanswered fair_take with its field may still be carried out; zero if none may
	unknown     bool            // the last request was not answered
	signs       uint64          // how many signs of life it has given
	queue       wire.FairQueue  // as last answered
}

var _ locktable.Acquisition[*Hold] = (*fairPlace)(nil)

func (p *fairPlace) take(ctx context.Context) (held *Held, waited bool, err error) {
	if !p.Wait {
		return p.waitInLine(ctx, p, locktable.Request{})
	}
	p.line, p.answers = p.engine.fair.join(p.engine, p.Name), make(chan fairAnswer, 1)
	defer p.engine.fair.leave(p.line)
	defer p.end()
	return p.waitInLine(ctx, p, locktable.Request{Alone: true})
}

// Channel is the waiter's own: a release tells the first in the queue alone.
func (p *fairPlace) Channel() string { return keys.FairChannel(p.Name, p.field()) }

// Try tries once. The answer says when to try again: for a sign of life or, for the first in
// the queue, when the holder's lease is over. A TTL is rounded down, so the key is gone a
// millisecond after it. The other waiters need not look then, nor when the lock is free, because
// only the first may take it.
func (p *fairPlace) Try(ctx context.Context) wire.Outcome {
	var dead wire.FairQueue
	if p.onlySigns() {
		p.signs++
		a := p.line.ask(ctx, wire.FairPlace{Field: p.field(), Number: p.signs}, p.answers)
		if p.unknown = a.outcome.Result != wire.Refused; p.unknown {
			return a.outcome
		}
		a.queue.Foreign = p.queue.Foreign // fair_sign does not look
		p.queue = a.queue
		if a.mustPassOver {
			dead = a.queue
		} else if !a.mustTake && !p.isFirst() {
			return p.queue.Refusal()
		}
	}
	o := p.try(ctx, dead.First, dead.Sign)
	p.took, p.unknown = o.Result == wire.Granted, o.Result.IsUnanswered()
	if p.Wait && p.isFirst() && p.queue.TTL >= 0 {
		o.Next = p.queue.TTL + time.Millisecond
	}
	return o
}

// isFirst reports whether p was the first in the queue when Redis answered last.
func (p *fairPlace) isFirst() bool { return p.queue.First == p.field() }

// onlySigns reports whether a sign of life is enough now, because the waiter has sent fair_take
// and it is not its turn. After a request that was not answered it asks with the others first,
// so that a server that stalls does not get a request from each waiter.
func (p *fairPlace) onlySigns() bool {
	return p.Wait && p.sent && (p.unknown || !p.waiter.Told() && !p.isFirst())
}

// end gives up what p may have in Redis, but for the field of its hold.
func (p *fairPlace) end() {
	if !p.took && p.sent {
		p.releaseLater(p.mayRunUntil)
	}
	p.settle()
}

// try sends fair_take once. dead is the first in the queue if it is passed over, and deadSign its
// last sign.
func (p *fairPlace) try(ctx context.Context, dead, deadSign string) wire.Outcome {
	k, c, waits := p.engine, p.claim(), p.Wait
	if !k.Orphans.Begin() {
		return wire.Outcome{Result: wire.Closed}
	}
	sign := ""
	if waits {
		p.signs++
		sign = wire.Sign(p.signs, fairNextSign(&k.cfg))
	}
	counter, least := k.counterOf(Fair, p.Name)
	p.sent = true
	ans := p.send(ctx, wire.FairTake{
		Name: p.Name, Counter: counter, Field: c.field, Lease: p.Lease, Least: least, Now: time.Now(), Sign: sign, Dead: dead, DeadSign: deadSign,
		Queue: fairQueueOf(&k.cfg), Grace: fairGraceOf(k.cfg.IOTimeout), Publish: k.Network.Publisher(p.Name), Past: p.past,
	}.Call(), func(ans pipe.Answer) {
		defer k.Orphans.End()
		if o, _ := k.readFair(ans); !c.releaseIfTaken(o, ans) && waits { // a waiter has its place, whatever the answer
			c.releaseLater()
		}
	})
	if !ans.IsAbandoned {
		defer k.Orphans.End()
	}
	o, queue := k.readFair(ans)
	switch {
	case o.Result == wire.Granted:
		p.settle()
		ans.MayRunUntil, p.mayRunUntil = p.mayRunUntil, time.Time{} // if it is not granted after all, p has another field
		return p.grant(ctx, ans, o)
	case o.Result == wire.Refused:
		p.settle()
		p.queue = queue
	case !waits:
		c.releaseIfTaken(o, ans)
	case ans.Taken || mayHaveRun(o, ans):
		p.keep(ans)
	}
	return o
}

// readFair reads the answer of fair_take.
func (k *Engine) readFair(a pipe.Answer) (wire.Outcome, wire.FairQueue) {
	if a.Err != nil {
		return k.Outcome("acquire", a), wire.FairQueue{}
	}
	return wire.ReadFair(a.Reply)
}

// keep keeps the field after a request whose outcome is not known. If the request may still be
// carried out, and the latest time for that is not known, p takes a new field. The new field is to
// have the place of the old one. The old one cannot stay, because a copy of the request may come at
// any time, also long after the hold.
func (p *fairPlace) keep(ans pipe.Answer) {
	_, said := ans.Err.(redis.Error)
	switch {
	case ans.MayRunUntil.After(p.mayRunUntil):
		p.mayRunUntil = ans.MayRunUntil
	case ans.MayRunUntil.IsZero() && ans.Err != nil && !said:
		p.past = append(p.past, p.field())
		if len(p.past) > orphans.MaxFieldsToRemove {
			p.pastClaim(p.past[0]).releaseUnconfirmed(time.Time{})
			p.past = p.past[1:]
		}
		p.mayRunUntil = time.Time{}
		p.newField()
	}
}

// settle leaves the earlier fields, whose place p has now, to the orphans: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.pastClaim(old).releaseUnconfirmed(time.Time{})
	}
	p.past = nil
}

// pastClaim is the claim to a field that p had before.
func (p *fairPlace) pastClaim(field string) claim {
	return claim{p.engine, Fair, p.Name, field, p.Lease}
}

const (
	// fairGrace, and an IOTimeout, is how far ahead of the clock the score of a
	// waiter is after each sign of life, so how long Redisson waits for one that
	// died. It has room for a lost request and for clocks that differ by some
	// seconds, whatever MaxPoll is. fair_take adds the wait of each Redisson waiter ahead,
	// which is wire.FairPatience for most, because each of them subtracts its wait once, when
	// it gets the lock or leaves. Our clients change the scores of other waiters only upwards.
	// Redisson waiters behind a live waiter stay at least wire.FairPatience behind it, so a
	// long wait drops no waiter.
	fairGrace = (fairMissed + 2) * fairPeriod
	// fairPeriod is the longest time between two signs of life. It also applies to a sign
	// that names no time.
	fairPeriod = 2 * time.Second
	// fairMissed is how many missing signs make a waiter dead.
	fairMissed = 3
)

// fairGraceOf is how far ahead of the clock a score is.
func fairGraceOf(ioTimeout time.Duration) time.Duration { return fairGrace + ioTimeout }

// fairQueueOf is how long the queue lives at least without a sign of life.
func fairQueueOf(cfg *Config) time.Duration {
	return (fairMissed+2)*fairNextSign(cfg) + cfg.IOTimeout
}

// fairSignEach is how long a waiter sleeps at most between two signs of life.
func fairSignEach(cfg *Config) time.Duration { return min(cfg.MaxPoll, fairPeriod) }

// fairNextSign is the period after which the other waiters, whose MaxPoll may differ, may miss
// the next sign. fairMissed of these periods leave room for a request that is lost.
func fairNextSign(cfg *Config) time.Duration {
	return max(min(fairSignEach(cfg)+cfg.IOTimeout/fairMissed, fairPeriod), time.Millisecond)
}
