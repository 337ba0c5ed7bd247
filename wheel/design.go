package wheel

// This file explains how the package works, for developers who change it. The
// promises are in doc.go.
//
// # States of a timer
//
//	          Schedule             the driver collects it
//	Idle ──────────────▶ Pending ─────────────────────────▶ due
//	                     ▲  ▲  │                            │ │ │
//	                     │  │  │ Stop                       │ │ │
//	  Schedule, Reset,   │  │  │ Wheel.Stop                 │ │ │
//	  Next               │  │  ▼      Stop, Wheel.Stop      │ │ │
//	                     │  │ Stopped ◀─────────────────────┘ │ │
//	                     │  │            Reset, Next, Touch   │ │
//	                     │  └─────────────────────────────────┘ │
//	                     │                                claim ▼
//	                     └──────────────────────────────────── Fired
//
// Schedule, Reset and Next also lead from Stopped back to Pending.
// [Timer.State] calls a due timer Pending until its claim.
//
// # Shards
//
// Timers are spread over 16 shards. A shard has a lock and a ring of buckets.
// The first Schedule gives a timer a shard that the calling processor uses
// anyway. The timer keeps that shard.
//
// The shard's lock guards the ring and the fields of the timers. It is never
// held while a callback, a hook or the Executor runs. Callers usually hold it
// for tens of nanoseconds. They hold it longer when 64 new timers are put into
// their buckets, and when a shard makes its ring. Two locks are held together
// only when a timer of a stopped wheel moves to another wheel. The lock of the
// stopped wheel is then taken first.
//
// # A timer that is moved to later takes no lock
//
// The first Reset or Touch that moves a pending timer to later makes its
// deadline movable. From then on, such a call is one compare-and-swap of the
// deadline, without the lock. The driver, Stop and Next also use a
// compare-and-swap to fix the deadline before they act on it. See deadline.go.
//
// # Collecting and claiming
//
// The driver collects up to 128 due timers under the lock, into slots, and then
// claims them one by one without the lock. Claiming, stopping and moving a due
// timer are one compare-and-swap each on the state of its slot. The first of
// them decides. The slot that was claimed last also shows which timer's callback
// runs now.
//
// # No wake-up is lost
//
// Before the driver sleeps, it publishes the tick at which it will wake up, and
// then looks at all shards once more. A caller first files its timer and then
// reads the published tick. So at least one of the two sees the step of the other.
// A ring files no timer at a tick that it has already let the driver collect.
// explore_test.go runs these steps in all orders.
//
// # The ring
//
// A bucket is a chain of chunks. A chunk has 16 entries, each a deadline and a
// *Timer side by side, because wheels are slow when they follow links through
// memory. The header of a chunk is apart from the chunk, in a table that stays in
// the cache. A bucket also has a lower bound of its deadlines, which tells whether
// the driver must visit the bucket at all. New timers wait in an inbox and are put
// into their buckets 64 at a time, because many are stopped before that. A later
// deadline is only written into the timer. The driver files the timer anew when it
// comes to the old place.
//
// A timer that is more than a revolution away is put into one of 64 far buckets.
// Each far bucket is for half a revolution of ticks. So there are few far buckets,
// and timers that were armed one after the other lie side by side in a bucket. Such
// a timer is often stopped long after it was armed. Then its entry is the only
// memory that is not in the cache, because the entry that fills the gap was armed
// last. When the first timer of a far bucket is due, the timers of the next 32nd of
// a revolution go to the buckets of their ticks. The bound of a far bucket is the
// deadline of its first timer, so the driver never wakes up for a far bucket alone.
