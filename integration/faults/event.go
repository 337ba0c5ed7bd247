package faults

import "time"

// kind is what is locked.
type kind string

const (
	mutex  kind = "mutex"
	read   kind = "read"
	write  kind = "write"
	permit kind = "permit" // one of two, with a lease
	count  kind = "count"  // one of two of a Semaphore, which has no leases
	shared kind = "shared" // a mutex that goroutines of one process hold together, as one owner
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
	opMark   op = "mark"   // nothing that is written later has a stamp of At or before
	opQuiet  op = "quiet"  // the process has given back all that others want, and rests: Quiet
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
	Why    string  `json:"why,omitempty"`  // of a loss
	Wait   bool    `json:"wait,omitempty"` // Lock, not TryLock
	Write  bool    `json:"write,omitempty"`
	Value  int64   `json:"value,omitempty"`
	Quiet  *Quiet  `json:"quiet,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// Quiet is what a process says of itself at a quiet point.
type Quiet struct {
	Round   int  `json:"round"`   // as the parent counts them
	Counts  bool `json:"counts"`  // the two that follow are known: twins have no Stats
	Held    int  `json:"held"`    // Stats
	Waiting int  `json:"waiting"` // the same
	Own     int  `json:"own"`     // keys of its own that it holds all the time
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
