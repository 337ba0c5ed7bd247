package faults

import "time"

// A stamp is an instant in nanoseconds of the machine's monotonic clock, the
// same in all its processes.
type stamp int64

// forever is later than every stamp that is taken.
const forever = stamp(1<<63 - 1)

func now() stamp { return stamp(monotonic()) }

func (s stamp) add(d time.Duration) stamp { return s + stamp(d) }

func (s stamp) sub(o stamp) time.Duration { return time.Duration(s - o) }

// clock turns this process' times into stamps.
type clock struct {
	base time.Time
	at   stamp // of base
}

func newClock() clock {
	var c clock
	best := time.Hour
	for range 100 { // the tightest pair of readings
		t := time.Now()
		at := now()
		if took := time.Since(t); took < best {
			best, c = took, clock{base: t, at: at}
		}
	}
	return c
}

func (c clock) of(t time.Time) stamp { return c.at.add(t.Sub(c.base)) }
