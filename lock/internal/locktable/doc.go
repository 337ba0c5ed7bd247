// Package locktable has the holds and the waiting calls of a client, by the names of their
// locks.
//
// A [Table] knows a hold from [Table.Adopt] or [Table.Deliver] to [Table.Forget]. Between
// them [Table.Leaving] is called, if the hold ends by its last Unlock. A call that takes
// something is a [Waiter]. It stands in the queue of its [Key], and its goroutine runs
// [Waiter.Run] until it has what it wants or gives up. What it takes, and by which script, is
// its [Acquisition]. Package waitqueue decides who is next, and when.
//
//	               Waiter.Run                          Table
//	                   │ look: what to do                │
//	                   │◀───────────────────────────────▶│ queue: Line, Probe
//	Acquisition.Try ◀──┤ ask Redis                       │
//	   Table.Adopt ────┼────────────────────────────────▶│ among the holds, out of the queue
//	Acquisition.Take ◀─┤ a hold of this client           │
//	                   │◀────────────────────────────────┤ Table.Deliver, by whoever unlocks
//
// The table is split into shards by a hash of the name, and shard.mu guards all that is in
// one. Nothing under it does I/O, calls a user's code, or takes long: what stands there at
// most is one shard's waiters that are woken, and Table.All, Counts and Close look at a shard
// at a time. Two things are read there that other mutexes guard: the deadline of a lease, and
// what was heard of a channel.
//
// A call that waits for a hold of its own client does not ask Redis. While there are such
// calls, the Table has their holds asked about, at most 128 at a time, once in every MaxPoll
// (confirm.go). What it knows of Redisson's clients that wait is in strangers.go.
//
// Close is a phase: Begin refuses acquisitions, waiters give up, and Idle is closed when the
// last hold and the last call have ended. A hold that is delivered then is passed on.
package locktable
