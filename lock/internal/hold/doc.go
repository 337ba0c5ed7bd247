// Package hold is one acquisition of a lock, or of permits, from its first script to its last.
//
// A [Keeper] is what the holds of a client share. [Keeper.Take] brings a [Held], or an error. The
// Helds of one owner's re-entries share a [Hold]: a field in the lock's hash, a lease with the
// watchdog, and what was given out to be told by. The package knows neither the client nor the
// objects that users have: it makes errors by [Errors] and tells users by [Observer].
//
//	         acquired, in time                     last Unlock
//	attempt ───────────────────▶ held ───────────────────────────▶ leaving
//	   │                         │  ▲ │                              │ answered
//	   │ unknown, or too late    │  └─┘ re-entry, partial Unlock     ▼
//	   ▼                         │ not the owner, trust ended,     released, or
//	owed: the client releases    ▼ MaxHold, expired, closed        handed over
//	the field, again when its    lost
//	acquisition has expired
//
// # Where what stands
//
//	kind.go     which kinds there are, and the field of each
//	calls.go    which script of a kind does what, and what its answer says
//	take.go     an acquisition begins; mutexes.go, fair.go, rw.go, permits.go: what each kind asks
//	attempt.go  one script is sent; its yes becomes a hold; late and lost answers are owed (owe.go)
//	hold.go     what a hold and a Held are, and what other packages ask a hold
//	held.go     what its user asks a Held
//	reenter.go  one more count; extend.go, guard.go, renewing.go: what else is done while it is held
//	turn.go     the scripts of one hold, one after the other
//	unlock.go   one count less, and the end: handover.go and run.go in memory, release.go by a script
//	loss.go     the other end: who is told, and in which order (told.go)
//	lane.go     on which server a hold is renewed
//	onclose.go  the end of all, see Config.ReleaseOnClose
//
// # Who owns what
//
// A caller's goroutine owns its attempt until it returns. A hold belongs to whoever has a Held of
// it; mu guards what several of them change, and is never held during I/O. What marks say is
// atomic: two of them see to it that a loss is told once, and after the acquisition. The goroutine
// that ends a hold owns the tokens of its run, and the next holder gets them with the hold.
//
// # What may happen to an answer
//
// An acquisition that is answered late is given back by whoever reads the answer. One that is
// not answered is released by the orphans, again when it cannot be carried out any more. While
// another request of a hold may still be carried out, no request of the hold is sent but its
// release. A release is sent again until it is answered: no other hold uses its field, but those
// of its run, and a run does not go on while a request is open.
package hold
