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
//	                   └ pieces ─▶ checks, porcupine ─▶ Result ─▶ Table
//
// # A run
//
// Run starts a server, a proxy before it, and three processes: the test binary
// again, which sees from its environment that it is one (IsWorker, Work). Once
// all hold locks and every contended key was locked, the row's fault is injected, as
// often as the row says. After each time every contended key must be locked again, and
// there is a quiet point. Then the processes give all back and report what they have
// left. A seed decides what the parent and the workers pick; timing is the machine's,
// so a seed repeats the plan and not the run.
//
// # What the processes do
//
// Load says how much of what, all at once: contended mutexes, some of them
// re-entered, some tried, some waited for only briefly or by many who leave together
// (throng), held for a moment or so long that they are renewed; mutexes that all
// goroutines of a process take as one owner; readers and writers; permits of both
// semaphores; and keys of their own held all the time (crowd). The processes have
// different MaxPolls. Under each mutex a number in the register is read and written
// with the token, and another one without.
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
//     overlap (exclusion). Readers may, two permits, and goroutines of one owner.
//   - Who loses a lock is told before the server's own expiry, a margin after
//     Deadline, and before anybody else gets it (loss, toldFirst). Workers
//     also compare Deadline with PTTL (worker.trust).
//   - Nothing is renewed after its release or loss: MONITOR says what arrived
//     (noLateRenewal). What was released is gone (worker.release).
//   - Tokens rise from each hold to those that were asked for later. Where locks are
//     taken from holders, their client may hand one on without the server for 100 ms
//     more: those tokens were reserved before (stale).
//   - What is free, or abandoned and past its lease, is got within MaxPoll by whoever
//     waits for it, and nobody who waited longer leaves without it (liveness).
//   - At a quiet point each process has what its Stats count, and a lock that nobody
//     counts is free within MaxPoll and IOTimeout (ghosts).
//   - Goroutines and connections are bounded; none of them, no subscription and no
//     key is left (bounded, nothingLeft, leftovers).
//   - An order of all operations on a key is one of a lock with a register
//     (model): without losses a lock that is held until it is given back,
//     otherwise one whose leases end by themselves, from the end of belief on.
//   - The fenced number is what was added to it, whatever happened; the one
//     without tokens is too, at keys where nothing was lost.
//
// Without processes, DeadFlow kills one connection of many for longer than requests
// are remembered, and compares the sums of a semaphore and a latch a minute later.
//
// Rows that take locks from holders that are alive (Row.Loses) are exempt from the
// first two for as long as it takes: there the holder is told within a renewal
// interval and a round trip, and the register refuses it.
//
// # Pieces and quiet points
//
// A run is checked while it goes on, because an hour has too much to remember. The
// history of a key is cut where nothing is under way there, and what was checked is
// dropped (line.cut, collect). A test compares the verdict on pieces with that on the
// whole.
//
// At a quiet point the processes give back what they share, rest and say what they
// count, until the parent has looked at the server (scene.quiet).
//
// # What a busy machine may do
//
// Durations are compared with leases and generous parts of them (live.go names them).
// A process that did not run for a while notices that (pulse): it counts as stopped,
// as after SIGSTOP, and what it saw late because of that counts as excused. Pings that
// no fault of the network meets watch the server in the same way. A wait for a free
// lock counts from when anybody last stood still for a round trip, less what is
// shorter. The clients under test have a margin of a fifth of the lease, so that what
// is told in time is seen in time too.
//
// # The checks bite
//
// A twin is a small client with a flaw that lock clients have. It does the same
// work, under the same faults, before the same checks, and must be refuted; and
// without the flaw it must not be.
//
// # When a run fails
//
// Result.Kept names a directory with the last events (a JSON line each), the
// violations with the seed, porcupine's picture of each piece that has no order, and
// what the processes printed.
//
// # Goroutines
//
// A run has one for each process, those of its proxy (see package faultproxy), and one
// each that reads MONITOR, pings the server, watches whether the parent runs, and
// checks. All end before Run returns, and so do the processes and servers.
package faults
