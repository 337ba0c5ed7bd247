// Package run measures the rows of bench, each in a process of its own, so that
// no row inherits another's heap, goroutines or connections.
//
// A Plan says what is measured, a Target on which Redis. A Parent, in the command's
// process, starts one row at a time with the command's own program, in which RowMain
// then takes over. The row acquires its locks with the Holder of its Driver, settles,
// holds them while the holder renews them, looks at every lock on the server with
// connections that share no code with the holder, and releases them all. What it has
// measured is a report.Row.
//
//	Parent                    row's process
//	  settings ──── stdin ───────▶ acquire, settle, hold, watch, check,
//	  Progress ◀─── stdout ─────── release, look
//	  Row      ◀─── stdout ───────
//
// Settings, events and the result are lines of JSON. Standard input stays open as
// long as the row is wanted. Its end, also by the parent's death, makes the row
// release its locks and leave. A row that shows no progress is killed, and its locks
// are left to their lease.
//
// # Holders
//
// A Meter stands on all connections of a holder and counts renewals, lateness and
// missed locks from what it sees there: the same code for every row.
//
//	timer ──fires──▶ queue of the lock's master ──▶ goroutine with a connection
//	  ▲                                                     │
//	  └────────── armed when the renewal is answered ───────┘
//
// timed is the loop of the four rows with timers. An alarm is one time.AfterFunc or
// one wheel.Timer per lock, and all that differs between two rows that renew in the
// same way. A timer does nothing but put its lock into the queue. There are 64
// goroutines for each master where renewals are a round trip each, and 2 where they
// share round trips; each has one connection, and at most 64 more serve acquiring and
// releasing. sweep renews its locks in the order in
// which they were acquired, with one goroutine for each master. Both use a keeper:
// the records of the locks, how a lock is acquired and released, and how some are
// renewed in one round trip. library is lock.Client as its users have it.
//
// Where Redisson's sweep leaves a choice, this one has the better: our batch size, a
// fixed period instead of a pause after each sweep, arguments made once.
//
// What is not handled: slots that move in a Cluster while a row runs. The locks in
// them count as missed or lost.
//
// The parent's process also runs the control lock, which proves that the server lets
// go of what nobody renews, and samples the server's CPU while a row watches, after
// all else is measured.
//
// # Goroutines
//
// A row's Workers end with the phase in which they acquire or release. Those of a
// Holder are ended by Close, the CPU sampler's by the end of the phase watch. Those
// that wait for the end of standard input or for SIGTERM end with the process.
package run
