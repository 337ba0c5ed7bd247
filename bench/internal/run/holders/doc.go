// Package holders holds the locks of a row of bench and counts their renewals.
// A Driver is one way to keep locks renewed, and a Target is the Redis that the
// locks are on. Hold returns a Holder, which acquires, renews and releases the
// locks, and a Meter on its connections.
//
// Package run starts the rows and checks their locks. It imports this package,
// never the other way round.
//
// # Meter
//
// A Meter watches all connections of a holder and counts renewals, lateness and
// missed locks there. It is the same code for every driver.
//
// # Drivers
//
//	timer ──fires──▶ queue of the lock's master ──▶ goroutine with a connection
//	  ▲                                                     │
//	  └────────── armed when the renewal is answered ───────┘
//
// timed is the loop of the four drivers with timers. Its timerSet is one
// time.AfterFunc or one wheel.Timer per lock. That is the only difference
// between two rows that renew in the same way. A timer only puts its lock into
// the queue. Per master there are 64 goroutines if every renewal is a round
// trip, and 2 if renewals share round trips. Each has one connection. At most
// 64 more connections serve acquiring and releasing.
//
// sweep renews its locks in the order in which they were acquired, with one
// goroutine per master. Where Redisson's sweep leaves a choice, this one takes
// the faster way: our batch size, a fixed period instead of a pause after each
// sweep, and arguments that are made once.
//
// timed and sweep use a lockSet: the records of the locks, how a lock is
// acquired and released, and how several are renewed in one round trip. library
// is lock.Client as its users have it.
//
// # Goroutines
//
// Close ends the goroutines of a Holder.
package holders
