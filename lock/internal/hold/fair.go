package hold

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// fairPlace is a call that takes a FairMutex, and what it keeps in mind of its place in the
// queue. Its fields are its goroutine's.
//
// It keeps its field after a request that was not answered. A copy of that request that comes
// late changes nothing in the queue, because the waiter has given a later sign. If it comes when
// the lock is held, it finds the hold. The hold knows until when it may come, and its field is
// owed when it ends. Only a request without a time limit makes the waiter take a new field.
type fairPlace struct {
	attempt
	line    *fairLine       // nil for a call that does not wait
	answers chan fairAnswer // of line
	past    []string        // fields that it had before, whose requests have no time limit: it takes their place
	sent    bool            // it may stand in the queue
	took    bool            // its field is the hold's
	open    time.Time       // until when an unanswered fair_take with its field may still be carried out; zero if none may
	unknown bool            // the last request was not answered
	signs   uint64          // given

	// as last answered
	first   string        // in the queue
	others  time.Duration // what is left of the holder's lease, wire.FairNoTTL or wire.FairFree
	foreign bool          // it is the lock of another library
}

var _ locktable.Acquisition[*Hold] = (*fairPlace)(nil)

func (p *fairPlace) take(ctx context.Context) (*Held, error) {
	if !p.Wait {
		return p.stand(ctx, p, locktable.Request{})
	}
	p.line, p.answers = p.k.fair.join(p.k, p.Name), make(chan fairAnswer, 1)
	defer p.k.fair.leave(p.line)
	defer p.end()
	return p.stand(ctx, p, locktable.Request{Alone: true})
}

// Channel is the waiter's own: a release tells the first in the queue alone.
func (p *fairPlace) Channel() string { return keys.FairChannel(p.Name, p.field()) }

// Try tries once. The answer says when to try again: for a sign of life or, for the first in
// the queue, when the holder's lease is over. A TTL is rounded down, so the key is gone a
// millisecond after it. The others need not look then, nor when the lock is free: it is the
// first's.
func (p *fairPlace) Try(ctx context.Context) locktable.Reply {
	var dead wire.FairRefusal
	if p.onlySigns() {
		p.signs++
		a := p.line.ask(ctx, wire.FairPlace{Field: p.field(), Number: p.signs}, p.answers)
		if p.unknown = a.err != nil; p.unknown {
			return p.got(nil, a.err)
		}
		a.other.Foreign = p.foreign // fair_sign does not look
		p.look(a.other)
		if a.dead {
			dead = a.other
		} else if !a.left && p.first != p.field() {
			return p.refused()
		}
	}
	r := p.try(ctx, dead.First, dead.Sign)
	p.took, p.unknown = r.Verdict == locktable.Got, r.Verdict == locktable.Unknown
	if p.Wait && p.first == p.field() && p.others >= 0 {
		r.Said.TTL = p.others + time.Millisecond
		if p.foreign { // nobody tells the first when it is released
			r.Said.Within = ForeignPoll
		}
	}
	return r
}

// onlySigns reports whether a sign of life is enough now, because the waiter has sent fair_take
// and it is not its turn. After a request that was not answered it asks with the others first,
// so that a server that stalls does not get a request from each waiter.
func (p *fairPlace) onlySigns() bool {
	return p.Wait && p.sent && (p.unknown || !p.waiter.Told() && p.first != p.field())
}

// end gives up what p may have in Redis, but for the field of its hold.
func (p *fairPlace) end() {
	if !p.took && p.sent {
		p.owe(p.open)
	}
	p.settle()
}

// try sends fair_take once. dead is the first in the queue if it is passed over, and deadSign its
// last sign.
func (p *fairPlace) try(ctx context.Context, dead, deadSign string) locktable.Reply {
	k, f := p.k, p.field()
	if !k.Orphans.Begin() {
		return p.got(nil, k.errors.Closed(p.Name, nil))
	}
	sign := ""
	if p.Wait {
		p.signs++
		sign = wire.Sign(p.signs, fairNextSign(&k.cfg))
	}
	counter, least := k.calls.counterOf(Fair, p.Name)
	call := wire.FairTake{
		Name: p.Name, Counter: counter, Field: f, Lease: p.Lease, Least: least, Now: time.Now(), Sign: sign, Dead: dead, DeadSign: deadSign,
		Queue: fairQueueOf(&k.cfg), Grace: fairGraceOf(k.cfg.IOTimeout), Publish: k.calls.publish(p.Name), Past: p.past,
	}.Call().With(k.Orphans.Named(familyExclusive, p.Name))
	name, lease, waits := p.Name, p.Lease, p.Wait
	late := func(ans pipe.Answer) { // a waiter has its place, whatever the answer
		defer k.Orphans.End()
		switch token, _, err := k.calls.readFair(name, ans); {
		case k.calls.mayHaveRun(ans, err) && !ans.Taken:
			k.oweUnanswered(Fair, name, f, lease, ans.Open)
		case waits || token > 0 || ans.Taken:
			k.owe(Fair, name, f, lease)
		}
	}
	k.Counts.Tries.Add(1)
	p.sent = true
	ans := k.Network.Send(ctx, p.Name, call, late)
	if !ans.Left {
		defer k.Orphans.End()
	}
	token, other, err := k.calls.readFair(p.Name, ans)
	switch {
	case err != nil:
		switch unknown := ans.Taken || k.calls.mayHaveRun(ans, err); {
		case unknown && p.Wait:
			p.keep(ans)
		case unknown:
			k.oweUnanswered(Fair, name, f, lease, ans.Open)
		}
		return p.got(nil, err)
	case token == 0:
		p.settle()
		p.look(other)
		return p.refused()
	}
	p.settle()
	ans.Open, p.open = p.open, time.Time{} // if it is not granted after all, p has another field
	return p.got(p.grant(ctx, ans, wire.Granted{Token: token}))
}

// keep keeps the field after a request whose outcome is not known. If the request may still be
// carried out, and nobody knows until when, p takes a new field, which is to have the place of
// this one: a copy of the request may come at any time, also long after the hold.
func (p *fairPlace) keep(ans pipe.Answer) {
	_, said := ans.Err.(redis.Error)
	switch {
	case ans.Open.After(p.open):
		p.open = ans.Open
	case ans.Open.IsZero() && ans.Err != nil && !said:
		p.past = append(p.past, p.field())
		if len(p.past) > orphans.MaxNamed {
			p.k.oweUnanswered(Fair, p.Name, p.past[0], p.Lease, time.Time{})
			p.past = p.past[1:]
		}
		p.open = time.Time{}
		p.renew()
	}
}

// settle leaves the earlier fields, whose place f has now, to the orphans: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.k.oweUnanswered(Fair, p.Name, old, p.Lease, time.Time{})
	}
	p.past = nil
}

// look notes what an answer says of the queue.
func (p *fairPlace) look(o wire.FairRefusal) {
	p.first, p.others, p.foreign = o.First, o.TTL, o.Foreign
}

// refused returns the Reply of a try that another was before.
func (p *fairPlace) refused() locktable.Reply {
	ttl := p.others
	if ttl == wire.FairFree {
		ttl = 0 // nothing but those in the queue is to be waited for
	}
	r := p.got(nil, p.k.held(p.Name, ttl, p.foreign))
	r.HeldUntil = time.Now().Add(max(ttl, 0))
	return r
}
