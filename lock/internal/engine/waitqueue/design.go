package waitqueue

// How package lock uses a Line and its Probe, and their states.
//
// # Use
//
// A Line and its Probe are in a table of the client, sharded by name, from the
// first Join until Idle. The methods for events are called under the mutex of
// the shard, which is not held during I/O. The goroutine that called one then
// wakes the callers in Step.Wake, and unlocks each hold in Step.PassOn once. A
// new Line of an Exclusive object gets the hold that the client already has
// (AddHold). It also gets the run that led to that hold, which the Line before has
// left (SuspendRun, RestoreRun). A Line of readers and writers gets the holds of each
// owner that joins.
//
// The goroutine of a caller joins, and then reads its instruction after each
// wake-up and after all I/O. To read an instruction and to report the event that
// follows it (Began, Take, Leave) is one step.
//
//	DoWait     sleep until woken
//	DoProbe    the first in line and, by its own Probe, a caller that waits
//	           in QueueInRedis: Hear; sleep until Due, or Began and send
//	           others: BeganBeside, Began and send; again only after Backoff
//	             Taken    Probe.Took, but not for an Exclusive object, whose hold's
//	                      end says when to probe; then Line.Took, or Opened for a
//	                      latch, or Leave where there are no holds
//	             Refused  Probe.Refused, Line.Refused; listen from then on
//	             Unknown  Probe.Unanswered, Line.Unanswered; the field has to be released
//	DoReenter  send; answered: Leave; unknown: pause for Backoff
//	DoTake     Take
//	DoRefuse, DoReturn, DoGiveUp, and a context that ends: Leave
//
// The first in line is also woken when a message comes, and when another caller
// has reported an answer.
//
// The last Unlock of a hold calls Leaving. If Leaving names a caller, the hold
// may be handed to that caller, and Handed says that it was. This happens in
// memory, or by a script if the run has ended. If Leaving names no caller, the
// hold is released. Releasing comes before the I/O of a script or a release,
// unless others can have the object too. After a hold has ended come Freed,
// RunEnded (if a run ended and others were told), and HoldEnded.
//
// # States
//
// A caller that does not wait is refused instead of waiting again. Leave is
// possible everywhere.
//
//	        Join                Began
//	(new) ────────▶ waiting ────────────────▶ probing ──── Took ────▶ (over)
//	                │  ▲  ▲                   │     │
//	                │  │  └─ Refused, ────────┘     │
//	                │  │     Unanswered             │
//	         Handed │  │ HoldEnded           Handed │
//	                ▼  │                            │
//	                granted ◀───────────────────────┘
//	                   └──────────────────── Take ──────────────────▶ (over)
//
// An own hold; one that is lost is gone from anywhere.
//
//	        Handed             Take, Leave, Close
//	(new) ──────────▶ granted ────────────────────▶ held ◀── Took, AddHold ── (new)
//	                     │                            │
//	                     │ Leaving                    │ Leaving
//	                     ▼                            ▼     HoldEnded, Handed
//	                     └─────────────────────── leaving ──────────────▶ (gone)
