// Package faults tests the promises of package lock on real servers, while faults
// happen to the network, to the holders and to Redis. The tests of package integration
// run its matrix of faults; a row of the matrix is one kind of fault.
//
//	parent                                   each of three processes
//	  Row: inject, heal, await progress        workload ── library or flawed client
//	  proxy ◀──────────────────────────────────┘  │  │
//	    │                                          │  └─▶ register, never hurt
//	    ▼                                          ▼
//	  server under faults                      events on stdout
//	                history ◀──────────────────────┘
//	                   └ checks, porcupine ─▶ Result ─▶ Table
//
// # A run
//
// Run starts a server, a proxy before it, and three processes. These are the
// test binary again (IsWorker, RunWorker). When all hold locks and every contended
// key has been locked, the parent injects the row's fault, as often as the row
// says. After each fault every contended key must be locked again. At the end the
// processes release everything and report the holds and goroutines that are left, and the
// parent looks for keys that are left. A seed repeats the plan of a run, but not its timing.
//
// # The work of the processes
//
// Load says how much of each they do, all at once:
//
//   - mutexes that all processes want: some are re-entered, some are tried, some are
//     awaited only briefly; they are held for a moment, or so long that they are renewed
//   - readers and writers
//   - keys of their own that are held all the time
//
// The processes have different MaxPolls. Under each mutex they read and write a number
// in the register with the token.
//
// Every step is an event. It is written before a call and after its return, in
// one write each, so the history of a killed process has all its calls.
// Time stamps are CLOCK_MONOTONIC, which the processes of a machine share (the
// time of day on other systems than Linux).
//
// # Invariants
//
//   - The times in which holders rely on a key do not overlap, except the times of
//     readers (checkExclusion). Such a time begins with the return of Lock. It ends with
//     the call of Unlock, the end of Done or the last Deadline, whichever is first.
//   - A holder that loses a lock is told before the server's expiry, a margin after
//     Deadline, and before another gets it (checkLoss, checkToldFirst). Workers also
//     compare Deadline with PTTL (checkTrust).
//   - A hold has a lower token than all holds asked for after it (checkTokens). Where
//     locks are taken from holders, their client may hand one on without the server for
//     100 ms more, with tokens that were reserved before (findHandedOn).
//   - A waiter gets a lock that is free, or abandoned and past its lease, within MaxPoll,
//     and no waiter that waited longer leaves without it (checkWaits).
//   - The server does not have a lock that was released (release). In the end no
//     goroutine, no hold and no key is left (checkReports, checkNothingLeft).
//   - The operations on a key are linearizable as those of a lock with a register
//     (checkOrder). Without losses it is a lock that is held until it is given back.
//     Otherwise its leases end by themselves, once their holder no longer relies on them.
//   - The number in the register is the sum of all additions, in every case (checkSums).
//
// Rows that take locks from live holders (Row.Loses) are exempt from the first
// two while that happens. There the holder is told within a renewal interval
// and a round trip, and the register refuses it.
//
// # On a busy machine
//
// Durations are compared with leases and large parts of them. A process that did not
// run for a while notices that (pulse) and counts as stopped, as after SIGSTOP. Events that
// it saw late for this reason are excused. The clients under test have a margin of a fifth
// of the lease, so that a loss told in time is also seen in time.
//
// # The checks find faults
//
// A flawed client is a small one with a flaw. It does the same work under the same
// faults, and the checks must refute it. Without the flaw they must not.
//
// # When a run fails
//
// Result.Kept names a directory with the events, the violations with the seed,
// porcupine's picture of each key whose operations have no order, and what the processes
// printed.
//
// # Goroutines
//
// All goroutines, processes and servers end before Run returns.
package faults
