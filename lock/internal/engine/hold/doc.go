// Package hold is one acquisition of a lock, or of permits, from its first script to its last.
//
// An [Engine] has what the holds of a client share. [Engine.Take] returns a [Held] or an error. The
// Helds of one owner's re-entries share a [Hold]. A Hold has a field in the lock's hash, a lease
// with the watchdog, and the channels and contexts that tell of its end. The package does not know
// the client or the objects of users. How a call ends is a wire.Outcome. At the public methods it
// becomes an error through [Errors]. Package hold reports through [Observer].
//
//	         acquired, in time                     last Unlock
//	attempt ───────────────────▶ held ───────────────────────────▶ leaving
//	   │                         │  ▲ │                              │ answered
//	   │ unknown, or too late    │  └─┘ re-entry, partial Unlock     ▼
//	   ▼                         │ not the owner, not safe,        released, or
//	pending: the client releases ▼ MaxHold, expired, closed        handed over
//	the field, again when its    lost
//	acquisition has expired
//
// # What may happen to an answer
//
// If an acquisition is answered late, the goroutine that reads the answer releases it. If it is not
// answered, package orphans releases it, and once more when it can no longer be carried out. While
// another request of a hold may still be carried out, the only request of the hold that is sent is
// its release. A release is sent again until it is answered. That is safe, because only holds of
// the same run use its field, and a run does not continue while a request is open.
//
// Only a waiter of a FairMutex keeps its field after an unknown outcome, because another field would
// need a walk along the queue to get the same place. In the queue the number of its last sign of
// life refuses earlier requests. A hold with such a field knows until when an earlier request may be
// carried out. While the hold lasts, the field is no orphan. After the hold has ended, the field is an
// orphan until that time.
//
// # Who owns what
//
// The goroutine of a caller owns its attempt until the attempt returns. Every Held of a hold may
// use the hold. mu guards what several of them change, and is never held during I/O. The flags are
// atomic. Two of them make sure that a loss is reported once, and after the acquisition. The
// goroutine that ends a hold owns the tokens of its run, and the next holder gets them with the
// hold.
//
// # The files
//
//	kind.go     which kinds there are, and the field of each
//	calls.go    the scripts of each kind, and the meaning of their answers
//	take.go     an acquisition begins: a mutex, a side of a RWMutex, permits; fair.go: a FairMutex
//	            fairline.go: what the waiters of one FairMutex share
//	attempt.go  sends one script and makes a hold of its answer; late and lost answers: claim.go
//	hold.go     what a hold and a Held are, and what other packages ask a hold
//	held.go     what a user asks a Held, and what ends with it
//	extend.go   Extend, re-entry and Guard; renewing.go: who renews a hold, and whether
//	turn.go     the scripts of one hold, one after the other
//	unlock.go   one count less, and the end: run.go in memory, release.go by a script
//	loss.go     the end by a loss: in which order hooks, channels and waiters learn of it
//	longwait.go which holder a call has waited for
//	open.go     New and Close; onclose.go: the end of all holds, see Config.ReleaseOnClose
package hold
