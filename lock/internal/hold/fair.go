package hold

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// fairPlace is a call that takes a FairMutex, and what it keeps in mind of its place in the
// queue. Its fields are its goroutine's.
type fairPlace struct {
	attempt
	past     []string     // fields that it had before, with outcomes that are not known: it takes their place
	sent     bool         // it may stand in the queue
	took     bool         // its field is the hold's
	open     orphans.Open // until when a request with one of those fields may still be carried out
	signs    uint64       // given
	unknowns int          // unknown outcomes in a row

	// the first in the queue, as last seen
	first, sign string
	missed      int       // periods that its sign names, in which it stayed the same
	seen        time.Time // when missed was last counted

	others  time.Duration // what is left of the holder's lease, wire.FairNoTTL or wire.FairFree
	foreign bool          // it is the lock of another library
}

var _ locktable.Acquisition[*Hold] = (*fairPlace)(nil)

func (p *fairPlace) take(ctx context.Context) (*Held, error) {
	if !p.Wait {
		return p.stand(ctx, locktable.FairMutexes, p, locktable.Request{})
	}
	defer p.end()
	return p.stand(ctx, locktable.FairMutexes, p, locktable.Request{Alone: true})
}

// Channel is the waiter's own: a release tells the first in the queue alone.
func (p *fairPlace) Channel() string { return keys.FairChannel(p.Name, p.field()) }

// Try tries once. The answer says when to try again: for a sign of life; if the first in
// the queue is dead, at once, to pass it over; or, for the first in the queue, when the
// holder's lease is over. A TTL is rounded down, so the key is gone a millisecond after it.
// The others need not look then, nor when the lock is free: it is the first's.
func (p *fairPlace) Try(ctx context.Context) locktable.Reply {
	r := p.try(ctx)
	switch r.Verdict {
	case locktable.Got:
		p.took = true
	case locktable.Refused:
		p.unknowns = 0
	case locktable.Unknown:
		if p.unknowns > 0 {
			p.seen = time.Time{} // an outage kills nobody: it is no time in which a sign was missed
		}
		p.unknowns++
	}
	if p.Wait && p.first == p.field() && p.others >= 0 {
		r.Said.TTL = p.others + time.Millisecond
		if p.foreign { // nobody tells the first when it is released
			r.Said.Within = ForeignPoll
		}
	}
	if p.missed >= fairMissed {
		r.Said.Within = 1
	}
	return r
}

// end gives up what p may have in Redis, but for the field of its hold.
func (p *fairPlace) end() {
	if !p.took && p.sent {
		p.k.owe(Fair, p.Name, p.field(), p.Lease)
	}
	p.settle()
}

// try sends the script once.
func (p *fairPlace) try(ctx context.Context) locktable.Reply {
	k, f := p.k, p.field()
	sign := ""
	if p.Wait {
		p.signs++
		sign = wire.Sign(p.signs, fairNextSign(&k.cfg))
	}
	dead, deadSign := "", ""
	if p.missed >= fairMissed {
		dead, deadSign, p.missed = p.first, p.sign, 0
	}
	counter, least := k.calls.counterOf(Fair, p.Name)
	call := wire.FairTake{
		Name: p.Name, Counter: counter, Field: f, Lease: p.Lease, Least: least, Now: time.Now(), Sign: sign, Dead: dead, DeadSign: deadSign,
		Queue: (fairMissed+2)*fairNextSign(&k.cfg) + k.cfg.IOTimeout, Grace: fairGraceOf(k.cfg.IOTimeout), Publish: k.calls.publish(p.Name), Past: p.past,
	}.Call().With(k.Orphans.Named(Fair.family(), p.Name))
	name, lease, waits := p.Name, p.Lease, p.Wait
	late := func(ans pipe.Answer) { // a waiter has its place, whatever the answer
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
	token, other, err := k.calls.readFair(p.Name, ans)
	switch {
	case err != nil:
		switch unknown := ans.Taken || k.calls.mayHaveRun(ans, err); {
		case unknown && p.Wait:
			p.open.Note(ans)
			p.retire()
		case unknown:
			k.oweUnanswered(Fair, name, f, lease, ans.Open)
		}
		return p.got(nil, err)
	case token == 0:
		p.settle()
		p.look(other)
		ttl := other.TTL
		if ttl == wire.FairFree {
			ttl = 0 // nothing but those in the queue is to be waited for
		}
		r := p.got(nil, k.held(p.Name, ttl, other.Foreign))
		r.HeldUntil = time.Now().Add(max(ttl, 0))
		return r
	}
	p.settle()
	return p.got(p.grant(ctx, ans, wire.Granted{Token: token}))
}

// retire takes a new field, which is to have the place of this one: a copy of the
// request may still arrive, and must not be taken for a later one.
func (p *fairPlace) retire() {
	p.past = append(p.past, p.field())
	if len(p.past) > orphans.MaxNamed {
		p.k.oweUnanswered(Fair, p.Name, p.past[0], p.Lease, p.open.Until())
		p.past = p.past[1:]
	}
	p.seq = p.k.seqs.Add(1)
}

// settle leaves the earlier fields, whose place f has now, to the orphans: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.k.oweUnanswered(Fair, p.Name, old, p.Lease, p.open.Until())
	}
	p.past, p.open = nil, orphans.Open{}
}

// look notes who is the first in the queue. It counts the signs of life which
// that waiter did not give, one for each period that its last sign names. Only
// periods in which Redis answered us count.
func (p *fairPlace) look(o wire.FairRefusal) {
	p.others, p.foreign = o.TTL, o.Foreign
	now := time.Now()
	switch {
	case o.First != p.first || o.Sign != p.sign || o.Sign == "" || o.First == p.field():
		p.first, p.sign, p.missed, p.seen = o.First, o.Sign, 0, now
	case p.seen.IsZero():
		p.seen = now
	case now.Sub(p.seen) >= wire.PeriodOf(o.Sign, fairPeriod):
		p.missed++
		p.seen = now
	}
}
