package renewal

import (
	"math"
	"math/bits"
	"time"
)

// beats decides when the leases of a lane are renewed. It has no clock, no lock and
// no lease: the lane's lock guards it, and tests step it.
//
// A beat is a moment that comes once in every interval. A lease joins a beat when it
// is taken and keeps it, so the leases of a beat go out as one batch. There are as
// many beats as full batches are needed. The beats' places in the interval are those
// of van der Corput's sequence, which spreads any number of them: the first 2^n are
// equally far apart, and the next ones halve the gaps.
type beats struct {
	// immutable
	interval time.Duration // a whole number of ticks
	tick     time.Duration
	size     int32  // leases of a beat
	most     int    // beats; more would share ticks
	phase    uint64 // of the first beat in the interval, in 1/2^64 of it

	all    []beat
	free   []uint16 // a stack: it has every open beat with room, and may have others
	open   int      // the first so many beats take leases; the others are being emptied
	leases int
	turn   int     // the beat that was joined last when all were full
	rest   instant // none is to be emptied before, so that a lease is seldom moved
}

// beat is one of them; they are numbered from 1.
type beat struct {
	offset instant // its first moment
	leases int32
	listed bool // in beats.free
}

const (
	// maxSize is how many leases a beat has at most: a batch of so many costs little
	// more for each than a larger one, and the beats of a large lane are many enough
	// for an even load.
	maxSize = 1024
	// restIntervals is how many intervals the beats rest when some have been given up.
	// A lease that leaves its beat is renewed once or twice too early, by an interval
	// in all. So its mean interval stays above 10/11.
	restIntervals = 10
)

func newBeats(cfg Config, phase uint64) beats {
	interval := cfg.interval()
	return beats{
		interval: interval, tick: cfg.Tick, phase: phase,
		size: int32(min(cfg.MaxBatch, maxSize)),
		most: int(min(interval/cfg.Tick, math.MaxUint16)),
	}
}

// join chooses a beat for one more lease.
func (b *beats) join() uint16 {
	k := b.choose()
	b.all[k-1].leases++
	b.leases++
	return k
}

func (b *beats) choose() uint16 {
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
			b.all = append(b.all, beat{offset: instant(at)})
		}
		if k := uint16(b.open); b.takes(k) {
			b.list(k)
			return k
		}
	}
	b.turn = b.turn%b.most + 1
	return uint16(b.turn)
}

// takes reports whether another lease may join beat k.
func (b *beats) takes(k uint16) bool { return int(k) <= b.open && b.all[k-1].leases < b.size }

func (b *beats) list(k uint16) {
	if one := &b.all[k-1]; !one.listed {
		one.listed = true
		b.free = append(b.free, k)
	}
}

// leave is called for a lease of beat k that is not renewed any more, or is to join
// another beat.
func (b *beats) leave(k uint16) {
	b.all[k-1].leases--
	b.leases--
	if b.takes(k) {
		b.list(k)
	}
}

// keep returns the beat of a lease of beat k from now on: k, unless the others have
// room for all of its leases.
func (b *beats) keep(k uint16, now instant) uint16 {
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

// next is the first moment of beat k after t.
func (b *beats) next(k uint16, t instant) instant {
	at, interval := b.all[k-1].offset, instant(b.interval)
	if t >= at {
		at += (t-at)/interval*interval + interval
	}
	return at
}

// after is when a lease of beat k is renewed that was last renewed by a request that
// was sent at t: half an interval later at least, and one at most. That is the beat's
// next moment, as a rule one interval after the last. If that is too early, the lease
// is renewed halfway to the one after it, once.
func (b *beats) after(k uint16, t instant) instant {
	next := b.next(k, t)
	interval, tick := instant(b.interval), instant(b.tick)
	if next-t >= interval/2 {
		return next
	}
	half := t + (next+interval-t)/2
	return half + (tick-half%tick)%tick
}
