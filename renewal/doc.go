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
//	                 │   └──────────── renewed: its beat comes again ───────────┤
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
// A beat is a moment that comes once in every interval (a third of the TTL). A lease
// joins a beat when it is taken and keeps it, so the leases of a beat share a
// wake-up and go out as one batch. There are as many beats as batches of
// min(MaxBatch, 1,024) leases are needed, and at least one; their places in the
// interval are spread, also when very many leases are taken at once. A new lease
// joins a beat with room; if all are full there is one more. When enough leases have
// left, the last beats are given up and their leases join the others, but seldom:
// the mean interval of a lease stays above nine tenths of a third of the TTL.
// beats.go decides all this and has no clock.
//
// The first renewal comes with the beat, at any time in the first interval. Each
// later one comes at most an interval after the last was sent, and half an interval
// early at most. A lease that would come too early at its beat, because it was
// renewed late or has joined another, is renewed halfway once. So an outage changes
// no place, and the load afterwards is as even as before.
//
// A cohort is what waits for the same moment: a beat, or the end of a backoff. It has
// one wheel timer, armed at the earlier of that moment and the earliest end of trust
// of its members. A batch in flight is a cohort too, so trust is watched while I/O
// is slow.
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
