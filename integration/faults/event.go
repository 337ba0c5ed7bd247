package faults

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// kind is what is locked.
type kind string

const (
	mutex  kind = "mutex"
	read   kind = "read"
	write  kind = "write"
	permit kind = "permit" // one of two, with a lease
	count  kind = "count"  // one of two of a Semaphore, which has no leases
)

// permits is how many holds of kind permit or count a key has.
const permits = 2

// op is what happened.
type op string

const (
	opReady  op = "ready"  // the process holds what it holds all the time
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

// event is one line of a history. What is called is written before the call
// and what returned after it, so that a process that is killed in between
// leaves what it may have done.
type event struct {
	At     stamp   `json:"at"`
	Op     op      `json:"op"`
	Proc   int     `json:"proc"` // set by who reads
	ID     int64   `json:"id,omitempty"`
	Key    string  `json:"key,omitempty"`
	Kind   kind    `json:"kind,omitempty"`
	Token  int64   `json:"token,omitempty"`
	Until  stamp   `json:"until,omitempty"` // the hold's deadline as it stood
	Out    string  `json:"out,omitempty"`
	Why    string  `json:"why,omitempty"` // of a loss
	Write  bool    `json:"write,omitempty"`
	Value  int64   `json:"value,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// Report is what a process says of itself at its end.
type Report struct {
	Before  int `json:"before"`  // goroutines before the client was made
	After   int `json:"after"`   // goroutines when it was closed
	Held    int `json:"held"`    // after all was unlocked
	Waiting int `json:"waiting"` // the same

	// while it still held what it holds all the time
	Leases      int           `json:"leases"`
	Goroutines  int           `json:"goroutines"`
	HeapAtStart uint64        `json:"heap_at_start"` // bytes
	Heap        uint64        `json:"heap"`
	Lag         time.Duration `json:"lag"` // p99 of renewals, from due to sent

	Stack string `json:"stack,omitempty"`
}

// recorder writes events, each with one Write: a killed process loses none.
type recorder struct {
	clock clock

	mu sync.Mutex // guards out
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
	// Without a reader there is nobody to tell.
	_, _ = r.to.Write(append(line, '\n'))
}
