package lock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// FairMutex is a Mutex that is given to its waiters in the order in which they
// came, over all processes, in the format of Redisson's RFairLock: beside the
// lock's hash a list of those who wait, and a sorted set of times until when each
// may stand there. All methods are safe for concurrent use.
//
// Each waiter has a place in Redis and gives a sign of life each 2 s, or each
// Config.MaxPoll if that is less. A first waiter of this package that gives none
// for three of these periods is passed over, so one that died costs some
// seconds; a live one whose process stood still for that long goes to the end.
// One of Redisson's is waited for as Redisson does, for up to 300 s after its
// turn came; those times are times of day by the clients' clocks. A waiter that
// leaves gives up its place at once, and a queue of the dead ends by itself.
//
// The lock is never handed on inside a process, so a FairMutex is slower than a
// Mutex under contention; a Mutex is fair enough for most.
type FairMutex struct {
	m Mutex // immutable
}

const (
	// fairPatience is how long the first waiter is waited for, Redisson's
	// threadWaitTime.
	fairPatience = 300 * time.Second
	// fairPeriod is the longest time between two signs of life.
	fairPeriod = 2 * time.Second
	// fairMissed is how many missing signs make a waiter dead.
	fairMissed = 3
)

// FairMutex returns the fair lock of that name. It does no I/O and keeps
// nothing. A bad name is reported by the first call that uses it.
func (c *Client) FairMutex(name string) *FairMutex {
	return &FairMutex{m: Mutex{c: c, name: c.key(name), kind: fairKind}}
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (f *FairMutex) Name() string { return f.m.Name() }

// Lock is Mutex.Lock; all who came before have their turn first. This is
// Redisson's lock().
func (f *FairMutex) Lock(ctx context.Context) (*Held, error) { return f.m.Lock(ctx) }

// LockFor is Mutex.LockFor. This is Redisson's lock(leaseTime).
func (f *FairMutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return f.m.LockFor(ctx, d)
}

// TryLock takes the lock if nobody holds it and nobody waits, and otherwise
// returns a *HeldError at once. This is Redisson's tryLock().
func (f *FairMutex) TryLock(ctx context.Context) (*Held, error) { return f.m.TryLock(ctx) }

// TryLockFor is TryLock with a lease of d that is not renewed.
func (f *FairMutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return f.m.TryLockFor(ctx, d)
}

// Do is Mutex.Do.
func (f *FairMutex) Do(ctx context.Context, do func(context.Context) error) error {
	return f.m.Do(ctx, do)
}

// HeldBy is Mutex.HeldBy.
func (f *FairMutex) HeldBy(ctx context.Context) bool { return f.m.HeldBy(ctx) }

// Inspect is Mutex.Inspect.
func (f *FairMutex) Inspect(ctx context.Context) (Info, error) { return f.m.Inspect(ctx) }

// IsLocked is Mutex.IsLocked.
func (f *FairMutex) IsLocked(ctx context.Context) (bool, error) { return f.m.IsLocked(ctx) }

// TTL is Mutex.TTL.
func (f *FairMutex) TTL(ctx context.Context) (time.Duration, error) { return f.m.TTL(ctx) }

// ForceUnlock is Mutex.ForceUnlock. The queue stays, and its first has its turn.
func (f *FairMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return f.m.force(ctx, "is a hash of other things than owners and counts", command{script.FairForce, 2, f.m.c.publishing([]any{f.m.name, fairQueue(f.m.name), channel(f.m.name)})})
}

// The names beside the lock's, the first two as Redisson has them.
func fairQueue(name string) string  { return derived("redisson_lock_queue", name) }
func fairScores(name string) string { return derived("redisson_lock_timeout", name) }
func fairSigns(name string) string  { return suffixed(name, "wheellock_waiters") }

// fairChannel is where the waiter of that field is woken, as Redisson names it.
func fairChannel(name, field string) string { return channel(name) + ":" + field }

// fairRelease releases a hold, but for the count that remains, or a place in the
// queue.
func (c *Client) fairRelease(name, field string, remaining int, lease time.Duration) command {
	return command{script.FairRelease, 4, c.publishing([]any{
		name, fairQueue(name), fairScores(name), fairSigns(name),
		field, remaining, ms(lease), channel(name), time.Now().UnixMilli(), ms(fairPatience),
	})}
}

// fairPlace is what a waiter keeps in mind of its place in the queue.
type fairPlace struct {
	m     *Mutex
	a     *attempt
	past  []string // fields that it had before, with outcomes that are not known: it takes their place
	sent  bool     // it may stand in the queue
	signs uint64   // given

	// the first in the queue, as last seen
	first, sign string
	missed      int       // periods in which its sign stayed the same
	seen        time.Time // when missed was last counted

	ear    ear // of the waiter's own channel
	others time.Duration
}

// period is the longest time between two signs of life.
func (m *Mutex) period() time.Duration { return min(m.c.cfg.MaxPoll, fairPeriod) }

// takeFair is take for a FairMutex, when it is no re-entry.
func (m *Mutex) takeFair(ctx context.Context, a *attempt) (held *Held, err error) {
	p := &fairPlace{m: m, a: a, ear: ear{wake: make(chan struct{}, 1)}}
	if !a.wait {
		return p.try(ctx)
	}
	m.c.fair.Add(1)
	began := time.Now()
	defer func() {
		m.c.fair.Add(-1)
		p.end(held != nil)
		if hook := m.c.cfg.Hooks.Waited; hook != nil && p.signs > 1 {
			e := Event{Name: m.name, Waited: time.Since(began), Err: err}
			if held != nil {
				e.Token = held.Token()
			}
			m.c.callHook(hook, e)
		}
	}()
	return p.wait(ctx)
}

// wait tries until it has the lock, or is to leave.
func (p *fairPlace) wait(ctx context.Context) (*Held, error) {
	c, m := p.m.c, p.m
	var last error
	var tried time.Time
	for unknowns := 0; ; {
		switch {
		case ctx.Err() != nil:
			return nil, waitErrorOf(ctx, m.name, last)
		case c.ended():
			return nil, ErrClosed
		}
		if pause(ctx, c.closing, pace-time.Since(tried)) != nil {
			continue
		}
		tried = time.Now()
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
			p.ear.listen(c.node(m.name).sub, fairChannel(m.name, p.a.field()))
			if !p.ear.missed() && p.missed < fairMissed {
				p.sleep(ctx)
			}
		case errors.Is(err, ErrUnknown) && !c.cfg.FailFast:
			_ = pause(ctx, c.closing, backoff(unknowns))
			unknowns++
		default:
			return nil, err
		}
	}
}

// enter re-enters, if another goroutine of the owner has taken the lock, or
// tries.
func (p *fairPlace) enter(ctx context.Context) (*Held, error) {
	if h := p.m.c.lookup(p.m.name); h != nil && h.owner == p.a.owner && h.kind == fairKind {
		held, err := h.reenter(ctx, p.a.lease, p.a.renewed)
		if err == nil {
			p.end(false) // its place is another's now
		}
		if err != errGone {
			return held, err
		}
	}
	return p.try(ctx)
}

// sleep waits until the waiter is woken, or until it is time for a sign of life
// or, for the first in the queue, for the end of the holder's lease.
func (p *fairPlace) sleep(ctx context.Context) {
	d := p.m.period()
	if p.first == p.a.field() && p.others > 0 {
		d = min(d, p.others)
	}
	p.m.c.sleep(ctx, p.ear.wake, d)
}

// end gives up what p may have in Redis, but for the field of its hold, if held.
func (p *fairPlace) end(held bool) {
	p.ear.leave()
	if !held && p.sent {
		p.past = append(p.past, p.a.field())
	}
	for _, f := range p.past {
		p.m.c.janitor.owe(fairKind, p.m.name, f, p.a.lease)
	}
	p.past, p.sent = nil, false
}

// try sends the script once.
func (p *fairPlace) try(ctx context.Context) (*Held, error) {
	c, a, f := p.m.c, p.a, p.a.field()
	sign := ""
	if a.wait {
		p.signs++
		sign = strconv.FormatUint(p.signs, 10)
	}
	dead, deadSign := "", ""
	if p.missed >= fairMissed {
		dead, deadSign, p.missed = p.first, p.sign, 0
	}
	p.ear.begin()
	period := p.m.period()
	counter, least := c.counterOf(fairKind, a.name)
	args := []any{
		a.name, fairQueue(a.name), fairScores(a.name), fairSigns(a.name), counter,
		f, ms(a.lease), least, time.Now().UnixMilli(), ms(fairPatience), sign, dead, deadSign,
		max(ms((fairMissed+2)*period+c.cfg.IOTimeout), 1), channel(a.name), c.publish(), len(p.past),
	}
	for _, old := range p.past {
		args = append(args, old)
	}
	for _, owed := range c.janitor.fields(a.name) {
		args = append(args, owed)
	}
	name, lease := a.name, a.lease
	late := func(ans answer) { // a waiter has its place, whatever the answer
		if token, _, _, _, err := c.parseFair(name, ans); a.wait || token > 0 || ans.taken || ans.unknown(err) {
			c.janitor.owe(fairKind, name, f, lease)
		}
	}
	c.tries.Add(1)
	p.sent = true
	ans := c.callKeys(ctx, a.name, script.FairTake, 5, late, args...)
	token, ttl, first, seen, err := c.parseFair(a.name, ans)
	switch {
	case err != nil:
		switch unknown := ans.taken || ans.unknown(err); {
		case unknown && a.wait:
			p.retire()
		case unknown:
			c.janitor.owe(fairKind, name, f, lease)
		}
		return nil, err
	case token == 0:
		p.settle()
		p.look(first, seen, ttl)
		return nil, &HeldError{Name: a.name, TTL: ttl}
	}
	p.settle()
	return a.grant(ctx, ans, token)
}

// retire takes a new field, which is to have the place of this one: a copy of the
// request may still arrive, and must not be taken for a later one.
func (p *fairPlace) retire() {
	p.past = append(p.past, p.a.field())
	if len(p.past) > maxOwed {
		p.m.c.janitor.owe(fairKind, p.m.name, p.past[0], p.a.lease)
		p.past = p.past[1:]
	}
	p.a.seq = p.m.c.seqs.Add(1)
}

// settle leaves the earlier fields, whose place f has now, to the janitor: a
// copy of a request with one of them may still arrive.
func (p *fairPlace) settle() {
	for _, old := range p.past {
		p.m.c.janitor.owe(fairKind, p.m.name, old, p.a.lease)
	}
	p.past = nil
}

// look notes who is the first in the queue. Only periods in which Redis answered
// us count, so that an outage kills nobody.
func (p *fairPlace) look(first, sign string, ttl time.Duration) {
	p.others = ttl
	now := time.Now()
	switch {
	case first != p.first || sign != p.sign || sign == "" || first == p.a.field():
		p.first, p.sign, p.missed, p.seen = first, sign, 0, now
	case now.Sub(p.seen) >= p.m.period()*3/4:
		p.missed++
		p.seen = now
	}
}

// parseFair reads the answer of fair_take: token is 0 if the lock is not
// acquired, and then first is who comes next and sign its sign of life.
func (c *Client) parseFair(name string, a answer) (token int64, ttl time.Duration, first, sign string, err error) {
	if a.err != nil {
		return 0, 0, "", "", c.callError("acquire", name, a)
	}
	values, ok := a.reply.([]any)
	if ok && len(values) == 2 {
		acquired, ok1 := values[0].(int64)
		value, ok2 := values[1].(int64)
		if ok1 && ok2 && acquired == 1 && value > 0 {
			return value, 0, "", "", nil
		}
	}
	if ok && len(values) == 4 {
		acquired, ok1 := values[0].(int64)
		pttl, ok2 := values[1].(int64)
		who, ok3 := values[2].([]byte)
		what, ok4 := values[3].([]byte)
		if ok1 && ok2 && ok3 && ok4 && acquired == 0 {
			switch pttl {
			case -1:
				ttl = -1
			case -2: // free, for the first in the queue
			default:
				ttl = time.Duration(pttl) * time.Millisecond
			}
			return 0, ttl, string(who), string(what), nil
		}
	}
	return 0, 0, "", "", c.badReply("acquire", name, a.reply)
}
