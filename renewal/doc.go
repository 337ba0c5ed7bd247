// Package renewal is the watchdog of held leases: it renews very many of them
// in batches from one timing wheel, and it tells each holder that its lease is
// gone before the store can give it to somebody else.
//
// The package knows nothing of Redis. A [Renewer] carries a batch to the store
// and says which leases were lost and which are unknown; everything else about
// time, trust and retries is decided here.
//
// # The one rule
//
// A lease is trusted until
//
//	trustedUntil = stamp + TTL - margin
//
// where stamp is taken before the first byte of the request that the store
// said yes to was written. The store counts its TTL from a later moment, so
// the holder is told (Owner.Lost) before the store's own expiry whatever
// happens to the network, to a reply, or to the goroutine that waits for it.
// Trust is enforced by the wheel and by [Lease.Valid], never by I/O. A yes
// that is read after its trust ended is no yes, and trust that has ended never
// comes back.
//
// # States of a lease
//
//	        Hold                      due                   taken into a batch
//	new ───────────▶ waiting ───────────────────▶ queued ───────────────────▶ flying
//	                 ▲   ▲                                                      │
//	                 │   └──────────── renewed: due + TTL/3 ────────────────────┤
//	                 └──────────────── unknown: now + backoff ──────────────────┤
//	                                                                            │ the store
//	waiting, queued, flying, fixed ── Release ──▶ released (terminal)           │ said no
//	waiting, queued, flying, fixed ── trust ended, Close ──▶ lost (terminal) ◀──┘
//
// A fixed lease is one that is not renewed; only the end of its trust is
// watched. Every lease ends exactly once: Release returned true, or
// Owner.Lost was called.
//
// Verify makes leases due at once, fixed ones too, when the server behind a lane
// has changed: those that it has not got are told lost, the others keep their due
// times. An answer to a request from before counts for trust, and is asked for
// once more.
//
// # Cohorts
//
// Leases that fall due in the same slack window (TTL/300, at most 100 ms) form
// a cohort. A cohort has one wheel timer, armed at the earlier of its due time
// and the earliest end of trust of its members, so a million leases cost a few
// hundred timers, and a wake-up, a batch and a re-arm are shared. A lease keeps
// its window from renewal to renewal (the interval is a whole number of
// windows), so lag does not bunch leases together. Due times are spread over the
// interval when leases are taken, and again after an outage, so that what was
// taken or resumed together does not stay together. The spread is by runs: a batch
// of neighbours at most is due together (spread.go). A batch in flight is a cohort too: a
// wheel timer of its own guards the trust of its members while I/O is slow.
//
// # Goroutines, locks, failure
//
// A Watchdog owns the wheel's driver goroutine; each [Lane] (one per server)
// owns Config.Dispatchers goroutines that take the queued leases nearest to
// their end of trust and call the Renewer. One is woken for a few batches; the
// others come if there are more, or if it hangs. Config.OnBatch is called on a
// goroutine of its own, and what it is too slow for is skipped. While there are
// leases a timer compares the clocks now and then: that of the wheel stands still
// while a machine is suspended, and the store's does not (clock.go). Close stops
// and awaits them all.
//
// There is one lock a lane, Lane.mu. It guards the states of the lane's leases
// and is never held while a Renewer or an Owner is called; the wheel's locks
// nest inside it. Watchdog.mu guards the table of lanes and is taken before a
// lane's. Nothing that runs on the wheel's driver waits for I/O, so a lane that
// hangs delays no other, and back-pressure makes batches larger, never goroutines
// more.
//
// Unknown outcomes are retried with a backoff that grows while whole batches
// fail (at most a twenty-fourth of the TTL) until trust ends; then the holder
// is told once. A Renewer that panics makes its batch unknown.
//
// # Cost
//
// A renewal costs no allocation and a few list operations under the lane's
// lock; a Lease is a field of the caller's record and takes about 100 bytes.
//
// The interval of a third of the lease is Redisson's (RedissonBaseLock,
// LockRenewalScheduler); trust anchored at the attempt's start is what leader
// elections on leases do.
package renewal
