// Package waitqueue decides which caller of one client is next for an object in
// Redis, and when it asks Redis again. It only decides: it has no I/O, goroutine,
// clock, lock or randomness.
//
// A [Line] has the callers of one client for one object, in order, and the
// client's own holds of it. It gives every caller one instruction: wait, probe,
// re-enter a hold, take a hold, or return. To probe is to send Redis the script
// that takes the object. A [Probe] says when the first in line does so next.
//
// # What they promise
//
// In every state, whatever is lost and whoever is slow:
//
//   - Of the callers that wait for one object at most one probes, the first in
//     line. Callers that need not wait probe beside it: those of TryLock, readers
//     before whom no writer stands, semaphores with nobody in line, and readers
//     whose owner writes.
//   - Two probes of one owner are never under way together, because the second
//     would be refused by the hold of its own owner. A TryLock that came before
//     such a probe began is refused with it; one that came later probes next.
//   - A caller whose owner has a hold that it may re-enter is told so in the step
//     that makes it true, wherever it stands, also after an unknown answer. A
//     writer whose owner reads gives up, because it would wait for itself.
//   - Callers are served in the order in which they came, except re-entries and
//     readers that may pass. TryLock passes nobody that it would have to wait for.
//   - A hold that was handed over is taken by its caller, or is returned to be
//     passed on by the step in which that caller leaves or the Line closes. Others
//     of its owner may re-enter it before that.
//   - A run of hand-overs ends after Run.Length or Run.Time. Then the object is
//     handed over only by a script that releases it if another client waits.
//   - After Close every caller gives up, and nothing is handed over or kept.
//   - While the object is free for the first in line, as far as the client can
//     know, a probe is under way or due: at once after a message, a confirmation
//     of the subscription, or an own release; otherwise by the end of the known
//     lease, by MaxPoll or by the back-off after unknown answers, whichever is
//     first. After a run the client defers to others, for at most MaxPoll.
//   - A caller whose instruction changes is in Step.Wake, and so is the first in
//     line when an own release makes it due sooner.
//   - An event costs O(1), and one step for every caller whose instruction
//     changes. It allocates nothing but the growth of a map, in Lines of more than
//     eight owners.
//
// # What is not in it
//
// Scripts, fields, tokens, trust, the counts of holds and semaphores, the signs of
// life of a FairMutex, the votes of a RedLock, listening, and retries of a
// re-entry are the user's. A FairMutex has no Line, because its line is in Redis;
// each of its waiters has a Probe. What a late request brings is the user's to
// undo.
//
// # How package lock uses it
//
// A Line and its Probe are in a table of the client, sharded by name, from the
// first Join until Idle. Each event is told under the shard's lock, which is not
// held during I/O. Whoever told an event wakes the callers in Step.Wake, and unlocks
// the holds in Step.PassOn once. A Line of an Exclusive object is told of the hold
// that the client has already (Held), one of readers and writers of the holds of
// each owner that joins.
//
// The goroutine of a caller joins, and then reads its instruction again and again:
// after each wake-up, and after all I/O. Reading it and telling the event that
// answers it (Began, Take, Leave) is one step.
//
//	DoWait     sleep until woken
//	DoProbe    the first in line: Hear; sleep until Due, or Began and send
//	           others: Beside, Began and send; again only after Backoff
//	             Taken    Answered, but not for an Exclusive object, whose hold's
//	                      end says when to probe; then Took, or Opened for a
//	                      latch, or Leave where there are no holds
//	             Refused  Answered, Refused; listen from then on
//	             Unknown  Answered, Unanswered; the field is owed
//	DoReenter  send; answered: Leave; unknown: pause for Backoff
//	DoTake     Take
//	DoRefuse, DoReturn, DoGiveUp, and a context that ends: Leave
//
// The first in line is woken too when a message comes, and when another told an
// answer.
//
// The last Unlock of a hold calls Leaving. If that names a caller, the hold may be
// handed to it, in memory unless the run is over, or by a script, and Handed says
// that it was. Otherwise it is released. Before the I/O of either comes Releasing,
// unless others can have the object too. After a hold has ended come Freed, RunEnded
// if a run ended and others were told, and Gone.
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
//	         Handed │  │ Gone                Handed │
//	                ▼  │                            │
//	                granted ◀───────────────────────┘
//	                   └──────────────────── Take ──────────────────▶ (over)
//
// An own hold; one that is lost is gone from anywhere.
//
//	        Handed             Take, Leave, Close
//	(new) ──────────▶ granted ────────────────────▶ held ◀── Took, Held ── (new)
//	                     │                            │
//	                     │ Leaving                    │ Leaving
//	                     ▼                            ▼     Gone, Handed
//	                     └─────────────────────── leaving ──────────────▶ (gone)
package waitqueue
