// Package renewal is a watchdog for leases. A lease is a grant of a store, for
// example of Redis, that ends after its TTL unless it is renewed. The package
// renews very many leases in batches from one timing wheel. It tells each
// holder that its lease is lost before the store can give it to somebody else.
//
// The package knows nothing of Redis. A [Renewer] sends a batch to the store
// and reports which leases were renewed and which were lost; the rest are
// unknown. The package decides everything about time, trust and retries.
//
// # The one rule
//
// A lease is trusted until
//
//	trustedUntil = stamp + TTL - margin
//
// The stamp is the time just before the first byte was written of a request to
// which the store said yes. The store counts its TTL from a later moment. So
// the holder is told (Owner.Lost) before the lease expires in the store,
// whatever happens to the network, to an answer, or to the goroutine that waits
// for it. The wheel and [Lease.Valid] watch the end of trust; neither of them
// needs I/O. A positive answer that arrives after its trust has ended is
// ignored. Trust that has ended never returns.
//
// The rule needs clocks that run equally fast here and in the store, within the
// margin, and a process that runs. A suspended process cannot be told; when it
// continues, Valid is false.
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
// A fixed lease is not renewed; the package only watches the end of its trust.
// Every lease ends exactly once: Release returns true, or Owner.Lost is called.
//
// [Lane.Verify] is for a server that was replaced, or may have lost data. It
// makes all leases of that server due at once, fixed ones too. Leases that the
// server does not have are lost. The others keep their due times. [Lease.Confirm]
// is for a doubt about one lease.
//
// # When leases are renewed
//
// A lease is renewed every third of its TTL; this is the interval. A beat is a
// moment that returns once in every interval. Every lease belongs to a beat,
// and the leases of a beat are renewed in one batch. There are only as many
// beats as are needed for batches of min(MaxBatch, 1,024) leases, and they are
// spread over the interval. So the process wakes up seldom and the store has an
// even load, even when very many leases are taken at once, and after an outage.
// beats.go makes these decisions.
//
// The first renewal comes at the beat, at any time in the first interval. Every
// later one comes at most an interval after the one before was sent, and at
// most half an interval early. The mean interval of a lease stays above nine
// tenths of a third of its TTL.
//
// # When something fails
//
// A batch without an answer is unknown. It is sent again, with a pause that
// grows while whole batches fail, up to a twenty-fourth of the TTL. When trust
// ends, the holder is told once. If a Renewer panics, its batch is unknown. A
// server that hangs delays only its own leases.
//
// # Goroutines and locks
//
// A Watchdog has one [Lane] per server. It owns the goroutine of its wheel, and
// Config.Dispatchers goroutines per lane. A dispatcher takes the queued leases
// that are nearest to their end of trust and calls the Renewer. One dispatcher
// is woken for a few batches; the others help if there are more, or if it
// hangs. So more load makes larger batches and not more goroutines.
// Config.OnBatch runs on a goroutine of its own; reports for which it is too
// slow are dropped. While there are leases, a timer compares the monotonic
// clock with the wall clock, because the monotonic clock stops while the
// machine is suspended and the store's clock does not (clock.go). Close ends
// all goroutines and waits for them.
//
// Lane.mu guards the leases of a lane. It is never held while a Renewer or an
// Owner is called. The wheel's locks are taken inside it. Watchdog.mu guards
// the table of lanes and is taken before a lane's lock. Nothing that runs on
// the wheel's goroutine waits for I/O.
//
// # What it costs
//
// A renewal allocates nothing and costs a few list operations under the lane's
// lock. A Lease is a field of your own struct and takes about 100 bytes.
//
// The interval of a third of the lease is Redisson's (RedissonBaseLock,
// LockRenewalScheduler). Leader elections that use leases count trust from the
// start of the request as well.
package renewal
