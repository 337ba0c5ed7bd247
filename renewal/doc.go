// Package renewal is a watchdog for leases. A lease is a right that a store, for
// example Redis, grants for a time, its TTL. The lease ends after its TTL unless
// it is renewed. The package renews very many leases in batches from one timing
// wheel. It tells each holder that its lease is lost before the store can give
// the lease to somebody else.
//
// The package knows nothing of Redis. A [Renewer] sends a batch to the store and
// reports which leases were renewed and which were lost. The outcome of the
// remaining leases is unknown. The package decides everything about time, trust
// and retries.
//
// # The one rule
//
// A lease is trusted until
//
//	trustedUntil = stamp + TTL - margin
//
// The stamp is when the client began to send the request that the store
// confirmed. The store counts its TTL from a later moment. So the holder is told
// (Owner.Lost) before the lease expires in the store, whatever happens to the
// network, to an answer, or to the goroutine that waits for the answer. The wheel
// and [Lease.Valid] watch the end of trust. Neither of them needs I/O. A positive
// answer that arrives after its trust has ended is ignored. Trust that has ended
// never returns.
//
// The rule has two conditions. Clocks here and in the store must run equally
// fast, within the margin. The process must run, because a suspended process
// cannot be told. When it continues, Valid returns false.
//
// # States of a lease
//
//	        Hold                      due                   taken into a batch
//	new ───────────▶ waiting ───────────────────▶ queued ──────────────────▶ in batch
//	                 ▲   ▲                                                      │
//	                 │   └──────────── renewed: its slot comes again ───────────┤
//	                 └──────────────── unknown: now + backoff ──────────────────┤
//	                                                                            │ the store
//	waiting, queued, in batch, fixed ── Release ──▶ released (terminal)         │ said no
//	waiting, queued, in batch, fixed ── trust ended, Close ──▶ lost (terminal) ◀┘
//
// A fixed lease is not renewed. The package only watches the end of its trust.
// Every lease ends exactly once: Release returns true, or Owner.Lost is called.
//
// Call [Lane.Verify] for a server that was replaced, or may have lost data. It
// makes all leases of that server due at once, even fixed ones. Leases that the
// server does not have are lost. The other leases keep their due times. Call
// [Lease.Confirm] if you doubt that the store still has one lease.
//
// # When leases are renewed
//
// A lease is renewed every third of its TTL. This time is the interval. The
// interval has slots, which are moments that return once in every interval. Every
// lease belongs to a slot, and the leases of a slot are renewed in one batch. A
// slot has at most min(MaxBatch, 1,024) leases. There are only as many slots as
// full slots are needed, and they are spread over the interval. So the process
// wakes up seldom and the store has an even load. This is also true when very
// many leases are taken at once, and after an outage. slots.go makes these
// decisions.
//
// The first renewal of a lease comes at its slot, at any time in the first
// interval. Every later renewal comes at most one interval after the last one was
// sent, and at most half an interval early. The mean interval of a lease stays
// above nine tenths of a third of its TTL.
//
// # When something fails
//
// The outcome of a batch without an answer is unknown. The batch is sent again,
// after a pause. The pause grows while whole batches fail, up to a twenty-fourth
// of the TTL. When trust ends, the holder is told once. If a Renewer panics, the
// outcome of its batch is unknown. A server that hangs delays only its own leases.
//
// # Goroutines and locks
//
// A Watchdog has one [Lane] per server. It owns the goroutine of its wheel, and
// Config.Dispatchers goroutines per lane. A dispatcher takes the queued leases
// that are nearest to their end of trust and calls the Renewer. For a few
// batches, one dispatcher is woken. The other dispatchers help if there are more
// batches, or if the first one hangs. So more load makes larger batches and not
// more goroutines. Config.OnBatch runs on a goroutine of its own. Reports for
// which it is too slow are dropped. While there are leases, a timer looks whether
// the machine was suspended, because the monotonic clock stops meanwhile and the
// store's clock does not (clock.go). If the wall clock was set forward instead,
// the store is asked about all leases. Close ends all goroutines and waits for
// them.
//
// Lane.mu guards the leases of a lane. It is never held while a Renewer or an
// Owner is called. The wheel's locks are taken under Lane.mu. Watchdog.mu guards
// the table of lanes and is taken before a lane's lock. The wheel's goroutine
// never waits for I/O.
//
// # What it costs
//
// A renewal allocates nothing and costs a few list operations under the lane's
// lock. A Lease is a field of your own struct and takes about 100 bytes.
//
// The interval of a third of the lease is Redisson's (RedissonBaseLock,
// LockRenewalScheduler). Leader elections that use leases count trust from the
// start of the request, too.
package renewal
