package wheel

import (
	"fmt"
	"strings"

	"explored/sched"
)

// event is a call that concerns the timer x, or a callback of x, with its result.
type event struct {
	call   string
	d      int64 // the delay or period, ns
	before int64 // the clock when it began; the call reads the clock once, and may read before or after
	after  int64
	ok     bool // Reset: it was pending; Touch, Stop: true; Schedule, Next: no error; Wheel.Stop: x was among those returned
	gone   bool // ErrStopped
}

func (e event) String() string {
	return fmt.Sprintf("%s(%d) at %d to %d: %v, %v", e.call, e.d, e.before, e.after, e.ok, e.gone)
}

// history has the events of x by thread, each in its order: the driver and both callers.
type history [3][]event

// note runs a call of x and notes it for the thread whose number is given.
func (h *history) note(thread int, call string, d int64, do func() (ok bool, err error)) (ok bool) {
	e := event{call: call, d: d, before: sched.Time()}
	sched.See(uint64(e.before))
	ok, err := do()
	e.ok, e.gone, e.after = ok, err == ErrStopped, sched.Time()
	sched.See(uint64(e.after))
	h[thread] = append(h[thread], e)
	return ok
}

// model is x as the documentation describes it, if one call comes after the other.
type model struct {
	state    State
	deadline int64
	gone     bool // Wheel.Stop was called
}

// after returns the models that are possible after e. It returns none if e cannot have this result.
func (m model) after(e event) []model {
	pending := m.state == Pending
	armed := func(was bool, deadline func(now int64) int64) (ms []model) {
		if e.gone || m.gone {
			if e.gone && m.gone && !e.ok {
				return []model{m}
			}
			return nil
		}
		if e.ok != was {
			return nil
		}
		for _, now := range []int64{e.before, e.after} {
			ms = append(ms, model{Pending, deadline(now), false})
		}
		return ms
	}
	ahead := func(now int64) int64 { return now + e.d }
	switch e.call {
	case "Reset":
		return armed(pending, ahead)
	case "Touch":
		if !pending {
			if e.ok {
				return nil
			}
			return []model{m}
		}
		return armed(true, ahead)
	case "Next":
		return armed(true, func(now int64) int64 {
			deadline := m.deadline + e.d
			for deadline <= now {
				deadline += e.d
			}
			return deadline
		})
	case "Schedule elsewhere":
		if pending || !m.gone {
			if e.ok {
				return nil
			}
			return []model{m}
		}
		m.gone = false
		return armed(true, ahead)
	case "Schedule":
		if pending && !e.ok && !e.gone {
			return []model{m}
		}
		return armed(!pending, ahead)
	case "Stop":
		if e.ok != pending {
			return nil
		}
		if pending {
			m.state = Stopped
		}
		return []model{m}
	case "Wheel.Stop":
		if e.ok != pending {
			return nil
		}
		if pending {
			m.state = Stopped
		}
		m.gone = true
		return []model{m}
	case "fire":
		if !pending || m.deadline > e.after {
			return nil
		}
		m.state = Fired
		return []model{m}
	}
	panic(e.call)
}

// explains reports whether the calls, one after the other, each thread's in its own order, lead from one model to another.
func (h history) explains(from, to model) bool {
	left := false
	for i, events := range h {
		if len(events) == 0 {
			continue
		}
		left = true
		rest := h
		rest[i] = events[1:]
		for _, m := range from.after(events[0]) {
			if rest.explains(m, to) {
				return true
			}
		}
	}
	return !left && from == to
}

func (h history) String() string {
	var lines []string
	for i, events := range h {
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("%s: %v", []string{"driver", "caller 1", "caller 2"}[i], e))
		}
	}
	return strings.Join(lines, "; ")
}
