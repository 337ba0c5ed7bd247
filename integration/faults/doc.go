// Package faults tries the promises of package lock on real servers while
// faults happen to the network, to the holders and to Redis. It is for the tests
// of package integration, which run the matrix.
//
//	parent                                   each of three processes
//	  Row: inject, heal, await progress        workload ── library or twin
//	  proxy ◀──────────────────────────────────┘  │  │
//	    │                                          │  └─▶ register, never hurt
//	    ▼                                          ▼
//	  server under faults, MONITOR             events on stdout
//	    └─────────▶ history ◀───────────────────────┘
//	                   └─▶ checks, porcupine ─▶ Result ─▶ Table
//
// # A run
//
// Run starts a server, a proxy before it, and three processes: the test binary
// again, which sees from its environment that it is one (IsWorker, Work). Once
// all hold locks and every contended key was locked, the row's fault is
// injected, as often as the row says; after each time every contended key must be
// locked again. Then the processes give all back and report what they have left.
// A run has a seed, which decides what the parent and the workers pick; timing is
// the machine's, so a seed repeats the plan and not the run.
//
// # What the processes do
//
// Load says how much of what, all at once: contended mutexes, some of them
// re-entered, some tried, some waited for only briefly, held for a moment or so
// long that they are renewed; readers and writers; permits of both semaphores; and keys of their own
// held all the time (crowd). Under each mutex a number in the register is read
// and written with the token, and another one without.
//
// Each step is an event, written before a call and after its return with one
// write each, so that a process that is killed leaves what it may have done. Stamps
// are CLOCK_MONOTONIC, which processes of a machine share (on other systems than
// Linux the time of day).
//
// # What must hold
//
//   - The times in which holders believe in a key, from Lock's return to the
//     first of Unlock's call, the end of Done and the last Deadline, do not
//     overlap (exclusion). Readers may, and two permits.
//   - Who loses a lock is told before the server's own expiry, a margin after
//     Deadline, and before anybody else gets it (loss, toldFirst). Workers
//     also compare Deadline with PTTL (worker.trust).
//   - Nothing is renewed after its release or loss: MONITOR says what arrived
//     (noLateRenewal). What was released is gone (worker.release).
//   - Tokens rise from each hold to those that were asked for later.
//   - What is free, or abandoned and past its lease, is got within MaxPoll.
//   - Goroutines and connections are bounded; none of them, no subscription and no
//     key is left (bounded, nothingLeft, leftovers).
//   - An order of all operations on a key is one of a lock with a register
//     (model): without losses a lock that is held until it is given back,
//     otherwise one whose leases end by themselves, from the end of belief on.
//   - The fenced number is what was added to it, whatever happened; the one
//     without tokens is too, at keys where nothing was lost.
//
// Rows that take locks from holders that are alive (Row.Loses) are exempt from the
// first two for as long as it takes: there the holder is told within a renewal
// interval and a round trip, and the register refuses it.
//
// # What a busy machine may do
//
// Durations are compared with leases and generous parts of them. A process that
// did not run for a while notices that (pulse): it counts as stopped, as after
// SIGSTOP, and what it saw late because of that is counted as excused. The server
// is watched in the same way, by pings that no fault of the network meets. How
// soon a free lock is got counts from when anybody last stood still. The margin of
// the clients under test is a fifth of the lease, so that what is told in time is
// seen in time too.
//
// # The checks bite
//
// A twin is a small client with a flaw that lock clients have. It does the same
// work, under the same faults, before the same checks, and must be refuted; and
// without the flaw it must not be.
//
// # When a run fails
//
// Result.Kept names a directory with the history (a JSON line for each event),
// the violations with the seed, porcupine's picture of each key that has no order,
// and what the processes printed.
//
// # Goroutines
//
// A run has one for each process, those of its proxy (see package faultproxy), one
// that reads MONITOR and one that pings the server. All end before Run returns, and
// so do the processes and servers.
package faults
