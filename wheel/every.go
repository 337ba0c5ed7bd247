package wheel

import (
	"sync/atomic"
	"time"
)

// Every calls f with the returned timer once per period, the first time one
// period from now, until the timer or the wheel is stopped. Nothing else ends the
// calls. The timer does not drift, because its deadlines are whole periods after
// the first, as with [Timer.Next].
//
// Calls never overlap, not even in the Executor. A period is skipped if the last
// call has not returned, if the driver is late by more than a period, or if the
// Executor refuses the call. Stats.SkippedPeriods counts skipped periods. OnError
// is called if the Executor refuses a call, and if f panics or calls
// runtime.Goexit.
//
// While f runs, its timer is pending for the next call. So f, like any other
// caller, may stop the timer or Reset it, and Timer.Deadline is the time of the
// next call. After a Reset, the periods count from the new deadline. Reset also
// starts a stopped timer again. The timer counts as one of Config.MaxPending from
// the call of Every until it is stopped.
//
// The error is ErrPeriod, or one of AfterFunc's errors.
func (w *Wheel) Every(period time.Duration, f func(*Timer)) (*Timer, error) {
	if period <= 0 {
		return nil, errPeriod(period)
	}
	if f == nil {
		return nil, ErrNilTask
	}
	e := &every{period: period, f: f}
	if err := w.schedule(&e.timer, period, 0, e); err != nil {
		return nil, err
	}
	return &e.timer, nil
}

// every is the task of a periodic timer. The claim of the timer also arms it for the
// next period, under the same lock. So callers never see the timer as Fired, and no
// call that fails, hangs or is refused can end the periods.
type every struct {
	timer  Timer
	period time.Duration
	f      func(*Timer)

	// busy is true from the claim of a call until it has returned or was refused.
	busy atomic.Bool

	// Owned by the call that made busy true.
	shard *shard
	next  int64 // the deadline for which the claim of the call has armed the timer
}

// Fire is a call. The driver has claimed the timer, and made busy true.
func (e *every) Fire(t *Timer) {
	defer e.endCall(t) // even if f panics
	e.f(t)
}

// endCall ends a call. If the call has taken so long that the next deadline has
// passed, endCall skips that period and all others that have passed. So no call
// follows at once.
func (e *every) endCall(t *Timer) {
	if now := e.shard.wheel.now(); now >= e.next {
		if s := t.lock(); s == e.shard && t.state == Pending && t.deadline.word.Load() == e.next {
			deadline, skipped := followingPeriod(e.next, now, int64(e.period))
			t.deadline.set(deadline) // a later deadline needs no new place in the ring
			s.skipCount += skipped + 1
			s.mu.Unlock()
		} else {
			s.mu.Unlock()
		}
	}
	e.busy.Store(false)
}

// refuseCall ends a call that the Executor does not make.
func (e *every) refuseCall() {
	e.shard.mu.Lock()
	e.shard.skipCount++
	e.shard.mu.Unlock()
	e.busy.Store(false)
}

// followingPeriod returns the first deadline after now that is whole periods
// after last, and how many periods it skips.
func followingPeriod(last, now, period int64) (deadline, skipped int64) {
	deadline = deadlineAfter(last, time.Duration(period))
	if deadline <= now {
		skipped = (now - last) / period
		deadline = deadlineAfter(last+skipped*period, time.Duration(period))
	}
	return deadline, skipped
}

// claimPeriodic claims the timer of an Every and arms it for its next period. It
// returns nil if a caller has stopped or moved the timer first, or if the last call
// has not returned. It takes mu.
func (s *shard) claimPeriodic(slot *dueSlot, now int64) *Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := slot.claim()
	if t == nil {
		return nil
	}
	e := slot.task.(*every)
	deadline, skipped := followingPeriod(t.deadline.fix(), now, int64(e.period))
	calls := !e.busy.Swap(true)
	if calls {
		e.shard, e.next = s, deadline
	} else {
		skipped++
	}
	s.skipCount += skipped
	s.armCount++
	s.file(t, deadline)
	if !calls {
		slot.task = nil
		return nil
	}
	return t
}
