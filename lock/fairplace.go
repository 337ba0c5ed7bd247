package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/script"
)

// fairPlace is what a waiter keeps in mind of its place in the queue.
type fairPlace struct {
	m     *Mutex
	a     *attempt
	past  []string // fields that it had before, with outcomes that are not known: it takes their place
	sent  bool     // it may stand in the queue
	open  open     // until when a request with one of those fields may still be carried out
	signs uint64   // given

	// the first in the queue, as last seen
	first, sign string
	missed      int       // periods that its sign names, in which it stayed the same
	seen        time.Time // when missed was last counted

	pacing   waitqueue.Pacing // immutable
	probe    waitqueue.Probe
	listener pubsub.Listener // of the waiter's own channel
	others   time.Duration   // what is left of the holder's lease, fairNoTTL or fairFree
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
		case isClosed(c.closing):
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
			unknowns++
			p.probe.Answered(c.tables.now(), mark, waitqueue.Answer{Outcome: waitqueue.Unknown, Spread: rand.Float64()})
		default:
			return nil, err
		}
	}
}

// due is how long the waiter sleeps until it tries again. It does not if its owner has
// the lock.
func (p *fairPlace) due() time.Duration {
	if (mutexes{}).held(&p.m.c.tables, p.m.name, p.a.owner) != nil {
		return 0
	}
	now := p.m.c.tables.now()
	p.probe.Hear(now, p.m.c.tables.heard(&p.listener))
	return time.Duration(p.probe.Due(1) - now)
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
		p.m.c.orphans.add(fairKind, p.m.name, p.a.field(), p.a.lease)
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
		sign = p.m.signOf(p.signs)
	}
	dead, deadSign := "", ""
	if p.missed >= fairMissed {
		dead, deadSign, p.missed = p.first, p.sign, 0
	}
	counter, least := c.scripts.counterOf(fairKind, a.name)
	args := []any{
		a.name, keys.FairQueue(a.name), keys.FairScores(a.name), keys.FairSigns(a.name), counter,
		f, ms(a.lease), least, time.Now().UnixMilli(), ms(fairPatience), sign, dead, deadSign,
		ms((fairMissed+2)*p.m.signPeriod() + c.cfg.IOTimeout), keys.Channel(a.name), c.scripts.publish(a.name), ms(fairGraceOf(c.cfg.IOTimeout)), len(p.past),
	}
	for _, old := range p.past {
		args = append(args, old)
	}
	for _, owed := range c.orphans.fields(fairKind, a.name) {
		args = append(args, owed)
	}
	name, lease := a.name, a.lease
	late := func(ans pipe.Answer) { // a waiter has its place, whatever the answer
		switch token, _, err := parseFair(&c.scripts, name, ans); {
		case mayHaveRun(ans, err) && !ans.Taken:
			c.orphans.addUnanswered(fairKind, name, f, lease, ans.Open)
		case a.wait || token > 0 || ans.Taken:
			c.orphans.add(fairKind, name, f, lease)
		}
	}
	c.counts.tries.Add(1)
	p.sent, a.beside = true, a.wait
	ans := c.scripts.callKeys(ctx, a.name, script.FairTake, 5, late, args...)
	token, other, err := parseFair(&c.scripts, a.name, ans)
	switch {
	case err != nil:
		switch unknown := ans.Taken || mayHaveRun(ans, err); {
		case unknown && a.wait:
			p.open.note(ans)
			p.retire()
		case unknown:
			c.orphans.addUnanswered(fairKind, name, f, lease, ans.Open)
		}
		return nil, err
	case token == 0:
		p.settle()
		p.look(other)
		ttl := other.ttl
		if ttl == fairFree {
			ttl = 0 // nothing but those in the queue is to be waited for
		}
		return nil, &HeldError{Name: a.name, TTL: ttl, Foreign: other.foreign}
	}
	p.settle()
	return a.grant(ctx, ans, granted{token: token})
}

// retire takes a new field, which is to have the place of this one: a copy of the
// request may still arrive, and must not be taken for a later one.
func (p *fairPlace) retire() {
	p.past = append(p.past, p.a.field())
	if len(p.past) > maxOwed {
		p.m.c.orphans.addUnanswered(fairKind, p.m.name, p.past[0], p.a.lease, p.open.until())
		p.past = p.past[1:]
	}
	p.a.seq = p.m.c.seqs.Add(1)
}

// settle leaves the earlier fields, whose place f has now, to the orphans: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.m.c.orphans.addUnanswered(fairKind, p.m.name, old, p.a.lease, p.open.until())
	}
	p.past, p.open = nil, open{}
}

// look notes who is the first in the queue. It counts the signs of life which
// that waiter did not give, one for each period that its last sign names. Only
// periods in which Redis answered us count.
func (p *fairPlace) look(o fairAnswer) {
	p.others, p.foreign = o.ttl, o.foreign
	now := time.Now()
	switch {
	case o.first != p.first || o.sign != p.sign || o.sign == "" || o.first == p.a.field():
		p.first, p.sign, p.missed, p.seen = o.first, o.sign, 0, now
	case p.seen.IsZero():
		p.seen = now
	case now.Sub(p.seen) >= periodOf(o.sign):
		p.missed++
		p.seen = now
	}
}
