package faults

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

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

// kind is the kind of a lock.
type kind string

const (
	mutex kind = "mutex"
	read  kind = "read"
	write kind = "write"
)

// op is what happened.
type op string

const (
	opReady  op = "ready"  // the process holds its own keys
	opTry    op = "try"    // Lock or TryLock is called
	opGot    op = "got"    // it returned a hold
	opNot    op = "not"    // it returned none
	opLost   op = "lost"   // the end of Done was seen, and it was a loss
	opFree   op = "free"   // the last Unlock is called
	opFreed  op = "freed"  // it returned
	opUse    op = "use"    // the register is asked
	opUsed   op = "used"   // it answered
	opStill  op = "still"  // the process had stood still, from Until to At
	opWrong  op = "wrong"  // a check that the process made itself failed: Out
	opReport op = "report" // the last word
)

// outcomes of opNot, opFreed and opUsed
const (
	outOK      = "ok"
	outHeld    = "held" // by another
	outGaveUp  = "gave up"
	outUnknown = "unknown"
	outLost    = "lost"
	outRefused = "refused" // by the register
)

// event is one line of a history. A process writes it before a call and after its
// return, so the history of a killed process has all its calls.
type event struct {
	At     stamp   `json:"at"`
	Op     op      `json:"op"`
	Proc   int     `json:"proc"` // set by the reader
	ID     int64   `json:"id,omitempty"`
	Key    string  `json:"key,omitempty"`
	Kind   kind    `json:"kind,omitempty"`
	Token  int64   `json:"token,omitempty"`
	Until  stamp   `json:"until,omitempty"` // the hold's deadline at that time; of opStill: when the process stopped
	Out    string  `json:"out,omitempty"`
	Why    string  `json:"why,omitempty"`  // of a loss
	Wait   bool    `json:"wait,omitempty"` // Lock, not TryLock
	Write  bool    `json:"write,omitempty"`
	Value  int64   `json:"value,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// Report is what a process says of itself when it has given everything back.
type Report struct {
	Before  int    `json:"before"`  // goroutines before the client was made
	After   int    `json:"after"`   // goroutines when it was closed
	Held    int    `json:"held"`    // Stats, after all was unlocked
	Waiting int    `json:"waiting"` // the same
	Stack   string `json:"stack,omitempty"`
}

// recorder writes events, each with one Write: a killed process loses none.
type recorder struct {
	mu sync.Mutex // guards to
	to io.Writer
}

// write stamps e, if it has no stamp yet, and sends it.
func (r *recorder) write(e event) {
	if e.At == 0 {
		e.At = now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic("faults: bug: " + err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Without a reader the event is lost, which does no harm.
	_, _ = r.to.Write(append(line, '\n'))
}
