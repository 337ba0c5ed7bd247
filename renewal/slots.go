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
// as many slots as full batches are needed. The slots lie in the interval as the
// numbers of van der Corput's sequence lie between 0 and 1, which spreads any number of
// slots evenly. The first 2^n slots are equally far apart, and the next ones halve the
// gaps.
type slots struct {
	// immutable
	interval  time.Duration // a whole number of ticks
	tick      time.Duration
	maxLeases int32  // the most leases of a slot
	maxSlots  int    // the most slots: one per tick
	phase     uint64 // of the first slot in the interval, in 1/2^64 of it

	all        []slot
	free       []uint16 // a stack of slots: every open slot with room, and perhaps slots that are full or not open any more
	openCount  int      // the first slots, up to this number, take leases; the others are being emptied
	leaseCount int
	lastShared int // the slot that was joined last when all were full
	// nextEmptying is the earliest time at which slots may be emptied again, so that a
	// lease seldom changes its slot.
	nextEmptying instant
}

// slot is one of the slots, which are numbered from 1.
type slot struct {
	offset     instant // its first moment
	leaseCount int32
	listed     bool // in slots.free
}

const (
	// maxSlotLeases is the most leases of a slot. A larger batch would cost little less for
	// each lease, and a large lane has enough slots of this size for an even load.
	maxSlotLeases = 1024
	// restIntervals is the number of intervals for which no slot is emptied after some were. A
	// lease that leaves its slot is renewed once or twice too early, by one interval
	// in all. So its mean interval stays above 10/11.
	restIntervals = 10
)

func newSlots(cfg Config, phase uint64) slots {
	interval := cfg.interval()
	return slots{
		interval: interval, tick: cfg.Tick, phase: phase,
		maxLeases: int32(min(cfg.MaxBatch, maxSlotLeases)),
		maxSlots:  int(min(interval/cfg.Tick, math.MaxUint16)),
	}
}

// join chooses a slot for one more lease.
func (s *slots) join() uint16 {
	k := s.choose()
	s.all[k-1].leaseCount++
	s.leaseCount++
	return k
}

// choose returns an open slot with room. If there is none, choose opens one more. If all
// slots are open and full, they take leases in turn.
func (s *slots) choose() uint16 {
	for last := len(s.free) - 1; last >= 0; last-- {
		k := s.free[last]
		if s.hasRoom(k) {
			return k
		}
		s.all[k-1].listed = false
		s.free = s.free[:last]
	}
	for s.openCount < s.maxSlots {
		s.openCount++
		if s.openCount > len(s.all) {
			part, _ := bits.Mul64(s.phase+bits.Reverse64(uint64(len(s.all))), uint64(s.interval))
			at := time.Duration(part).Truncate(s.tick)
			s.all = append(s.all, slot{offset: instant(at)})
		}
		if k := uint16(s.openCount); s.hasRoom(k) {
			s.list(k)
			return k
		}
	}
	s.lastShared = s.lastShared%s.maxSlots + 1
	return uint16(s.lastShared)
}

// hasRoom reports whether another lease may join slot k.
func (s *slots) hasRoom(k uint16) bool {
	return int(k) <= s.openCount && s.all[k-1].leaseCount < s.maxLeases
}

// list puts slot k on the stack of slots with room, once.
func (s *slots) list(k uint16) {
	if one := &s.all[k-1]; !one.listed {
		one.listed = true
		s.free = append(s.free, k)
	}
}

// leave removes a lease from slot k that is not renewed any more, or will join
// another slot.
func (s *slots) leave(k uint16) {
	s.all[k-1].leaseCount--
	s.leaseCount--
	if s.hasRoom(k) {
		s.list(k)
	}
}

// keepOrChange returns the slot to which a lease of slot k belongs from now on. If the
// leases need at least one slot less than are open, keepOrChange closes slots, and a
// lease of a slot that is closed joins an open one. Otherwise it keeps k.
func (s *slots) keepOrChange(k uint16, now instant) uint16 {
	if size := int(s.maxLeases); s.leaseCount <= (s.openCount-1)*size && now >= s.nextEmptying {
		s.openCount = (s.leaseCount-1)/size + 1
		s.nextEmptying = now.plus(restIntervals * s.interval)
	}
	if int(k) <= s.openCount {
		return k
	}
	s.leave(k)
	return s.join()
}

// nextMoment returns the first moment of slot k after t.
func (s *slots) nextMoment(k uint16, t instant) instant {
	at, interval := s.all[k-1].offset, instant(s.interval)
	if t >= at {
		at += (t-at)/interval*interval + interval
	}
	return at
}

// nextRenewal returns when a lease of slot k is renewed next, if its last renewal was sent
// at t. The result is at least half an interval and at most one interval after t. As a rule
// it is the slot's next moment. If that moment is less than half an interval away, the lease
// is renewed halfway between t and the moment behind it.
func (s *slots) nextRenewal(k uint16, t instant) instant {
	next := s.nextMoment(k, t)
	interval, tick := instant(s.interval), instant(s.tick)
	if next-t >= interval/2 {
		return next
	}
	half := t + (next+interval-t)/2
	return half + (tick-half%tick)%tick
}
