// Package locktable has the holds and the waiting calls of a client, by the names of their
// locks.
//
// A [Table] has a hold from [Table.Adopt] or [Table.Deliver] to [Table.Forget]. If the hold
// ends by its last Unlock, [Table.Leaving] is called in between. Redis has at most one exclusive
// hold of a name. If a key was deleted, the Table may have several, until Redis has said which of
// them are gone.
//
// A call that takes a lock is a [Waiter] in the queue of its [Key]. Its goroutine runs
// [Waiter.Run] until the call has the lock or gives up. The [Acquisition] of the call says what
// it takes, and by which script. Package waitqueue decides which call is next, and when.
//
//	               Waiter.Run                          Table
//	                   │ look: what to do                │
//	                   │◀───────────────────────────────▶│ queue: Line, Probe
//	Acquisition.Try ◀──┤ ask Redis                       │
//	   Table.Adopt ────┼────────────────────────────────▶│ among the holds, out of the queue
//	Acquisition.Take ◀─┤ a hold of this client           │
//	                   │◀────────────────────────────────┤ Table.Deliver, by whoever unlocks
//
// The table is split into shards by a hash of the name, and shard.mu guards everything in a
// shard. Code under shard.mu does no I/O, calls no code of users, and does not take long. At
// most it wakes the waiters of one shard, and Table.All, Counts and Close look at one shard at
// a time. Code under shard.mu reads two things that other mutexes guard: the deadline of a
// lease, and the messages received on a channel.
//
// A call that waits for a hold of its own client does not ask Redis. While there are such
// calls, the Table asks Redis about their holds once in every MaxPoll, at most 128 at a time
// (confirm.go). strangers.go has what the Table knows about waiting clients of Redisson.
//
// Close is a phase. Begin refuses acquisitions, waiters give up, and Idle is closed when the
// last hold and the last call have ended. A hold that is delivered in this phase is passed on.
package locktable
