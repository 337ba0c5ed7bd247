package wheel

import (
	"math"
	"sync/atomic"
)

// movable is the bit of a deadline's word that lets anybody postpone it.
const movable = math.MinInt64

// deadline is when a timer is due, in ns from the wheel's start. It is never for a delay beyond the clock's range.
//
// A deadline is fixed or movable. A fixed deadline is written only under the lock of the timer's shard. A movable deadline
// belongs to a timer that is pending and filed no later than the deadline. Any goroutine may make it later without the
// lock, by one compare-and-swap. When the driver comes to the place where the timer is filed, it finds the later deadline
// and files the timer anew. The driver also fixes a deadline by a compare-and-swap, before it takes the timer for due. So
// a postponement either comes first, and the driver sees it, or finds the deadline fixed and takes the lock. Stop and
// Next fix the deadline for the same reason.
//
// The first Reset or Touch of a pending timer to later makes its deadline movable, under the lock. Schedule does not,
// because a timer that is never moved then costs no further atomic operation when it is stopped or fires.
type deadline struct{ word atomic.Int64 }

// instant returns the deadline in a word.
func instant(word int64) int64 { return word &^ movable }

// at returns the deadline. A movable deadline may already be later when at returns.
func (d *deadline) at() int64 { return instant(d.word.Load()) }

// set makes the deadline at, and fixed. Needs the lock. A postponement that it overwrites came before it.
func (d *deadline) set(at int64) { d.word.Store(at) }

// setMovable makes the deadline at, and movable. The timer must be pending and filed no later than at.
func (d *deadline) setMovable(at int64) { d.word.Store(at | movable) }

// postpone makes the deadline at and reports whether it did. It does so if the word is still the one that was seen, which
// must be movable and not later than at. It needs no lock. The word may have changed and come back meanwhile, with another
// arming. That does no harm, because whenever the word is movable, the timer is pending and filed no later than the
// word's deadline.
func (d *deadline) postpone(seen, at int64) bool {
	return seen < 0 && at >= instant(seen) && d.word.CompareAndSwap(seen, at|movable)
}

// fix makes the deadline fixed and returns it. Needs the lock.
func (d *deadline) fix() int64 {
	d.fixUntil(never)
	return d.word.Load()
}

// fixUntil makes the deadline fixed unless it is later than limit, and reports whether it is fixed. Needs the lock.
func (d *deadline) fixUntil(limit int64) bool {
	for {
		word := d.word.Load()
		if instant(word) > limit {
			return false
		}
		if word >= 0 || d.word.CompareAndSwap(word, instant(word)) {
			return true
		}
	}
}
