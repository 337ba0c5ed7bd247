package renewal

import (
	"math"
	"math/bits"
	"time"
)

// slots decides when the leases of a lane are renewed. It has no clock, no lock and
// no lease. The lane's lock guards it, and tests step it.
//
// A slot is a moment that comes once in every interval. A lease joins a slot when it
// is taken and keeps the slot, so the leases of a slot go out as one batch. There are
// as many slots as full batches are needed. The slots' places in the interval are
// those of van der Corput's sequence, which spreads any number of slots evenly. The
// first 2^n slots are equally far apart, and the next ones halve the gaps.
type slots struct {
	// immutable
	interval time.Duration // a whole number of ticks
	tick     time.Duration
	size     int32  // the most leases of a slot
	most     int    // the most slots; more would share ticks
	phase    uint64 // of the first slot in the interval, in 1/2^64 of it

	all    []slot
	free   []uint16 // a stack: it has every open slot with room, and may have others
	open   int      // so many slots, from the first one, take leases; the others are being emptied
	leases int
	turn   int     // the slot that was joined last when all were full
	rest   instant // no slot is emptied before, so that a lease seldom changes its slot
}

// slot is one slot of slots, which are numbered from 1.
type slot struct {
	offset instant // its first moment
	leases int32
	listed bool // in slots.free
}

const (
	// maxSize is the most leases of a slot. A larger batch would cost little less for
	// each lease, and a large lane has enough slots of this size for an even load.
	maxSize = 1024
	// restIntervals is for how many intervals no slot is emptied after some were. A
	// lease that leaves its slot is renewed once or twice too early, by one interval
	// in all. So its mean interval stays above 10/11.
	restIntervals = 10
)

func newSlots(cfg Config, phase uint64) slots {
	interval := cfg.interval()
	return slots{
		interval: interval, tick: cfg.Tick, phase: phase,
		size: int32(min(cfg.MaxBatch, maxSize)),
		most: int(min(interval/cfg.Tick, math.MaxUint16)),
	}
}

// join chooses a slot for one more lease.
func (b *slots) join() uint16 {
	k := b.choose()
	b.all[k-1].leases++
	b.leases++
	return k
}

func (b *slots) choose() uint16 {
	for last := len(b.free) - 1; last >= 0; last-- {
		k := b.free[last]
		if b.takes(k) {
			return k
		}
		b.all[k-1].listed = false
		b.free = b.free[:last]
	}
	for b.open < b.most {
		b.open++
		if b.open > len(b.all) {
			part, _ := bits.Mul64(b.phase+bits.Reverse64(uint64(len(b.all))), uint64(b.interval))
			at := time.Duration(part).Truncate(b.tick)
			b.all = append(b.all, slot{offset: instant(at)})
		}
		if k := uint16(b.open); b.takes(k) {
			b.list(k)
			return k
		}
	}
	b.turn = b.turn%b.most + 1
	return uint16(b.turn)
}

// takes reports whether another lease may join slot k.
func (b *slots) takes(k uint16) bool { return int(k) <= b.open && b.all[k-1].leases < b.size }

func (b *slots) list(k uint16) {
	if one := &b.all[k-1]; !one.listed {
		one.listed = true
		b.free = append(b.free, k)
	}
}

// leave removes a lease from slot k that is not renewed any more, or will join
// another slot.
func (b *slots) leave(k uint16) {
	b.all[k-1].leases--
	b.leases--
	if b.takes(k) {
		b.list(k)
	}
}

// keep returns the slot to which a lease of slot k belongs from now on. It is k, unless
// the other slots have room for all leases of k.
func (b *slots) keep(k uint16, now instant) uint16 {
	if size := int(b.size); b.leases <= (b.open-1)*size && now >= b.rest {
		b.open = (b.leases-1)/size + 1
		b.rest = now.plus(restIntervals * b.interval)
	}
	if int(k) <= b.open {
		return k
	}
	b.leave(k)
	return b.join()
}

// next is the first moment of slot k after t.
func (b *slots) next(k uint16, t instant) instant {
	at, interval := b.all[k-1].offset, instant(b.interval)
	if t >= at {
		at += (t-at)/interval*interval + interval
	}
	return at
}

// after returns when a lease of slot k is renewed next whose last renewal was sent at
// t. It is at least half an interval and at most one interval after t. As a rule it is
// the slot's next moment, one interval after the last one. If that is too early, the
// lease is renewed once halfway between t and the moment after the next.
func (b *slots) after(k uint16, t instant) instant {
	next := b.next(k, t)
	interval, tick := instant(b.interval), instant(b.tick)
	if next-t >= interval/2 {
		return next
	}
	half := t + (next+interval-t)/2
	return half + (tick-half%tick)%tick
}
