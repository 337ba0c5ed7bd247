package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// fairPlace is what a waiter keeps in mind of its place in the queue.
type fairPlace struct {
	m     *Mutex
	a     *attempt
	past  []string     // fields that it had before, with outcomes that are not known: it takes their place
	sent  bool         // it may stand in the queue
	open  orphans.Open // until when a request with one of those fields may still be carried out
	signs uint64       // given

	// the first in the queue, as last seen
	first, sign string
	missed      int       // periods that its sign names, in which it stayed the same
	seen        time.Time // when missed was last counted

	pacing   waitqueue.Pacing // immutable
	probe    waitqueue.Probe
	listener pubsub.Listener // of the waiter's own channel
	others   time.Duration   // what is left of the holder's lease, wire.FairNoTTL or wire.FairFree
	foreign  bool            // it is the lock of another library
}

// takeFair takes a fair lock that the owner has not.
func (m *Mutex) takeFair(ctx context.Context, a *attempt) (held *Held, err error) {
	p := &fairPlace{m: m, a: a, listener: pubsub.NewListener(make(chan struct{}, 1)), pacing: pacingOf(m.c.cfg, mutexQueue)}
	p.pacing.MaxPoll, p.pacing.Quiet = m.period(), m.period()
	p.probe = waitqueue.NewProbe(&p.pacing)
	if !a.wait {
		return a.ask(ctx, p.try)
	}
	m.c.fair.Add(1)
	if a.shared {
		defer m.c.tables.watchOwner(a.name, a.owner, p.listener.Wake())()
	}
	defer func() {
		m.c.fair.Add(-1)
		p.end(held != nil)
		if p.signs > 1 {
			m.c.hooks.tellWaited(ctx, a, held, err)
		}
	}()
	return p.wait(ctx)
}

// wait tries until it has the lock, or is to leave.
func (p *fairPlace) wait(ctx context.Context) (*Held, error) {
	c, m := p.m.c, p.m
	var last error
	for unknowns := 0; ; {
		switch {
		case ctx.Err() != nil:
			return nil, waitErrorOf(ctx, m.name, last)
		case wait.Closed(c.closing):
			return nil, closedError(m.name)
		}
		if wait := p.due(); wait > 0 {
			if last == nil || !p.listener.Listen(c.router.Server(m.name).Subscriber(), keys.FairChannel(m.name, p.a.field())) {
				p.sleep(ctx, wait)
			}
			continue
		}
		mark := p.probe.Began(c.tables.now())
		held, err := p.enter(ctx)
		if err == nil {
			return held, nil
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			last = err
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrNotAcquired):
			unknowns = 0
			p.probe.Answered(c.tables.now(), mark, p.answer())
			if p.missed >= fairMissed {
				p.probe.Freed() // the first is dead: it is passed over now
			}
		case errors.Is(err, ErrUnknown) && !c.cfg.FailFast:
			if unknowns > 0 {
				p.seen = time.Time{} // an outage kills nobody: it is no time in which a sign was missed
			}
			p.probe.Answered(c.tables.now(), mark, waitqueue.Answer{Outcome: waitqueue.Unknown, Spread: rand.Float64()})
			if p.owned() { // a re-entry does not wait for the Probe, and a connection may be refused at once
				_ = wait.Pause(ctx, c.closing, wait.Backoff(unknowns))
			}
			unknowns++
		default:
			return nil, err
		}
	}
}

// due is how long the waiter sleeps until it tries again. It does not if its owner has
// the lock.
func (p *fairPlace) due() time.Duration {
	if p.owned() {
		return 0
	}
	now := p.m.c.tables.now()
	p.probe.Hear(now, p.m.c.tables.heard(&p.listener))
	return time.Duration(p.probe.Due(1) - now)
}

// owned reports whether its owner has the lock, so that it can re-enter.
func (p *fairPlace) owned() bool {
	return (mutexes{}).held(&p.m.c.tables, p.m.name, p.a.owner) != nil
}

// answer is what the last try said of when to try again: for a sign of life or, of the
// first in the queue, when the holder's lease is over. A TTL is rounded down, so the key
// is gone a millisecond after it. The others need not look then, nor when the lock is
// free: it is the first's.
func (p *fairPlace) answer() waitqueue.Answer {
	a := waitqueue.Answer{TTL: -1}
	if p.first == p.a.field() && p.others >= 0 {
		a.TTL = p.others + time.Millisecond
		if p.foreign { // nobody tells the first when it is released
			a.Within = foreignPoll
		}
	}
	return a
}

// enter re-enters, if another goroutine of the owner has taken the lock, or
// tries.
func (p *fairPlace) enter(ctx context.Context) (*Held, error) {
	var gone *hold
	for {
		if h := p.m.c.tables.lookup(p.m.name); h != nil && h != gone && h.owner == p.a.owner {
			if h.kind != fairKind {
				return nil, errOtherKind(p.m.name)
			}
			held, err := h.reenter(ctx, p.a.lease, p.a.renewed)
			if err == nil {
				p.end(false) // its place is another's now
			}
			if err != errGone {
				return held, err
			}
			gone = h
		}
		if held, err := p.a.ask(ctx, p.try); err != errAgain {
			return held, err
		}
	}
}

// sleep waits until p is woken, at most d.
func (p *fairPlace) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.listener.Wake():
	case <-t.C:
	case <-ctx.Done():
	case <-p.m.c.closing:
	}
}

// end gives up what p may have in Redis, but for the field of its hold, if held.
func (p *fairPlace) end(held bool) {
	p.listener.Leave()
	if !held && p.sent {
		p.m.c.owe(fairKind, p.m.name, p.a.field(), p.a.lease)
	}
	p.settle()
	p.sent = false
}

// try sends the script once.
func (p *fairPlace) try(ctx context.Context) (*Held, error) {
	c, a, f := p.m.c, p.a, p.a.field()
	sign := ""
	if a.wait {
		p.signs++
		sign = wire.Sign(p.signs, p.m.signPeriod())
	}
	dead, deadSign := "", ""
	if p.missed >= fairMissed {
		dead, deadSign, p.missed = p.first, p.sign, 0
	}
	counter, least := c.scripts.counterOf(fairKind, a.name)
	call := wire.FairTake{
		Name: a.name, Counter: counter, Field: f, Lease: a.lease, Least: least, Now: time.Now(), Sign: sign, Dead: dead, DeadSign: deadSign,
		Queue: (fairMissed+2)*p.m.signPeriod() + c.cfg.IOTimeout, Grace: fairGraceOf(c.cfg.IOTimeout), Publish: c.scripts.publish(a.name), Past: p.past,
	}.Call().With(c.owed(fairKind, a.name))
	name, lease := a.name, a.lease
	late := func(ans pipe.Answer) { // a waiter has its place, whatever the answer
		switch token, _, err := readFair(&c.scripts, name, ans); {
		case mayHaveRun(ans, err) && !ans.Taken:
			c.oweUnanswered(fairKind, name, f, lease, ans.Open)
		case a.wait || token > 0 || ans.Taken:
			c.owe(fairKind, name, f, lease)
		}
	}
	c.counts.tries.Add(1)
	p.sent, a.beside = true, a.wait
	ans := c.sender.Send(ctx, a.name, call, late)
	token, other, err := readFair(&c.scripts, a.name, ans)
	switch {
	case err != nil:
		switch unknown := ans.Taken || mayHaveRun(ans, err); {
		case unknown && a.wait:
			p.open.Note(ans)
			p.retire()
		case unknown:
			c.oweUnanswered(fairKind, name, f, lease, ans.Open)
		}
		return nil, err
	case token == 0:
		p.settle()
		p.look(other)
		ttl := other.TTL
		if ttl == wire.FairFree {
			ttl = 0 // nothing but those in the queue is to be waited for
		}
		c.tables.doubtName(a.name)
		return nil, &HeldError{Name: a.name, TTL: ttl, Foreign: other.Foreign}
	}
	p.settle()
	return a.grant(ctx, ans, wire.Granted{Token: token})
}

// retire takes a new field, which is to have the place of this one: a copy of the
// request may still arrive, and must not be taken for a later one.
func (p *fairPlace) retire() {
	p.past = append(p.past, p.a.field())
	if len(p.past) > orphans.MaxNamed {
		p.m.c.oweUnanswered(fairKind, p.m.name, p.past[0], p.a.lease, p.open.Until())
		p.past = p.past[1:]
	}
	p.a.seq = p.m.c.seqs.Add(1)
}

// settle leaves the earlier fields, whose place f has now, to the orphans: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.m.c.oweUnanswered(fairKind, p.m.name, old, p.a.lease, p.open.Until())
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
	case o.First != p.first || o.Sign != p.sign || o.Sign == "" || o.First == p.a.field():
		p.first, p.sign, p.missed, p.seen = o.First, o.Sign, 0, now
	case p.seen.IsZero():
		p.seen = now
	case now.Sub(p.seen) >= wire.PeriodOf(o.Sign, fairPeriod):
		p.missed++
		p.seen = now
	}
}
