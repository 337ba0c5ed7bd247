// Package lock is a Redis lock engine in the manner of Redisson's RLock: a
// re-entrant lock whose holds are kept renewed by a watchdog, in Redisson's wire
// format, so that Go and Java processes share locks on one Redis.
//
//	client, err := lock.New(pool, lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//	ctx = held.Context(ctx) // ends when the lock is lost
//	...
//	err = held.Unlock(ctx)
//
// Goroutines that share an owner do not exclude each other. An owner is made by
// Lock if its context carries none, travels in held.Context, and can be named by
// WithOwner; it takes the place of Java's thread.
//
// # What it promises
//
//   - Two owners do not hold a lock at once, as long as Redis keeps the key: a
//     holder is told of its loss before Redis' own expiry (package renewal).
//   - Any request may be lost, doubled or delayed without harm. Each outermost
//     acquisition has a hash field of its own, <client uuid>:<owner>:<seq>, never
//     used again; scripts set counts, never add; none lowers a TTL.
//   - "Redis said no" (ErrNotAcquired, ErrNotHeld, ErrLost) and "we do not know"
//     (ErrUnknown) are different errors.
//   - Fencing tokens rise from holder to holder, and over expiry too. Over a
//     failover and an emptied Redis they do as long as client clocks differ by
//     less than the time between two acquisitions. In a Cluster each slot has a
//     counter. While lock and counter are apart, because their slot is on its way
//     to another server, the token is minted by a second script once the lock is
//     taken, with the same promise: only who has the lock mints.
//
// # What it does not
//
// It cannot protect what a holder does after it was told, or while its process
// stands still: that is what Token is for. Data loss in Redis, failover, eviction,
// a step of the server's clock and DEL take a lock from its holder at once; the
// holder is told within a renewal interval and a round trip.
//
// What ends by a time of day needs clocks that agree. The holder of a permit is told
// before another can have it only if no client's clock is ahead of the holder's by
// more than the margin (PermitSemaphore). A Java process whose clock is 8 s ahead
// takes a waiter of a FairMutex that lives for dead; that costs its place.
//
// # States of a hold
//
//	         acquire: yes, in time                 last Unlock
//	attempt ───────────────────────▶ held ─────────────────────────▶ leaving
//	   │                             │  ▲ │                             │ release answered
//	   │ unknown, or a yes too late  │  └─┘ re-entry, partial Unlock    ▼
//	   ▼                             │ not owner, trust ended,       released
//	retired: the janitor releases    ▼ max hold, expired, closed
//	the field until its TTL is over lost
//
// # Waiting
//
// A newcomer tries once. If another holds the lock it joins the lock's gate, the
// queue of this client's waiters, first come first served; TryLock never passes
// them. A waiter whose owner gets the lock through another call re-enters it,
// wherever it stands. Only the head of the queue talks to Redis: it listens to the
// lock's channel, tries again when the subscription is confirmed (a release may
// have come before), and then sleeps until a message, the end of the holder's lease
// or MaxPoll. Pub/sub only makes waiting shorter: cut, dead or forbidden, it costs
// at most MaxPoll.
//
// While this client holds the lock there is no head. The last Unlock hands the
// lock to the first waiter in one script that releases and acquires: a new field,
// a new token, a lease of its own. After as many hand-offs as there are waiters
// (at least 16, at most 64), or 100 ms, the run ends with a real release. The
// client then counts the releases that it hears and, until every client that
// waited at its own has had a turn, tries some milliseconds later than the others
// do. A granted waiter that has left passes the grant on.
//
// # Several mutexes, several masters
//
// A MultiLock takes its members one after the other, with nothing in its hands
// when it waits: what it has it gives back, waits for the member that it did not
// get, and goes on from there, so two of them cannot wait for each other. If that
// fails three times, for others take the members alone all the time, it waits
// for each with the others in its hands, at most 25 ms to 1.5 s.
//
// A RedLock asks all members at once, for at most RedLockConfig.MemberTimeout. A
// member counts if it said yes and, asked afterwards, has been up for longer than
// the longest lease: one that was restarted empty may have forgotten another's
// hold. The attempt has the lock if a quorum counts and is still trusted when the
// last has answered, a hundredth of the lease and 2 ms taken off for clocks that
// run apart. Else all is given back. Who waits listens to the members that
// refused; in one process only the first of the line does.
//
// A MultiHeld stands on the holds of its members, each renewed by its own
// watchdog. It ends when too few of them are left, and then the rest is renewed no
// more. A member that was lost is never taken again for the same MultiHeld.
//
// # Goroutines, connections, locks
//
// Every server has pipelined connections for commands (Config.Connections, a name
// always takes the same one), connections of its own for renewal, which never queues
// behind callers, and one that subscribes; packages pipe, carrier and pubsub have the
// goroutines of these. A hold's lease is in the lane of the server that has its key.
// The table of holds, the gates and the janitor belong to the Client, which finds the
// server of a key anew for every request. The wheel's driver and the lanes'
// dispatchers belong to package renewal. Others come and go: one gives back what a
// caller has left, one takes lost holds out of the tables once their holders were
// told, one calls the Lost hook, one asks each member of a RedLock. There is no
// goroutine per lock or per waiter. Close ends them all.
//
// Package servers knows which server has a key, follows the Topology in one goroutine,
// and opens, replaces and closes servers. Package lock adds a lane to each, and does
// what follows for holds:
//
//	a server was replaced     its connections for renewal are given up, and all its
//	                          holds are looked up on the new one
//	slots have moved          the holds whose keys are elsewhere now go to that
//	                          server's lane, and are looked up there
//	a renewal is answered     the hold goes along to that server's lane; while a slot
//	MOVED or ASK              is on its way (ASK), such a hold is asked for with ASKING
//	                          until its slot has arrived
//	a key has moved while     it is put right once the hold is among the Client's
//	it was being acquired
//	renewal is connected      with a Topology, all holds of that server are looked up:
//	again after a failure     it may have lost what it knew
//	a server is no more       its lane closes; no hold was in it
//
// Client.mu guards the table of holds and the gates, hold.mu one hold and its
// Helds, watch.mu what a Held gave out, janitor.mu the retired fields, MultiHeld.mu
// what became of its members, line.mu who waits for a RedLock, backlog.mu what is
// still to be done after a loss; packages servers, pipe, carrier and pubsub say what
// theirs do. None is held during I/O, closing included, nor while a hook runs, and
// none nests in another; under Client.mu only a lease's deadline and state are read.
// Scripts of one hold go out one after the other (hold.enter).
//
// # Failure
//
// A connection whose oldest request is older than Config.IOTimeout is closed, its
// requests become unknown, and the next request dials anew. Lock retries what is
// unknown under a new field; the old field goes to the janitor and is named to the
// next acquire script, which removes it. NOSCRIPT is repaired by sending the text.
// READONLY closes the connection, so that the next dial can find the new master.
// A server that hangs makes its own requests unknown and its own holds end in time;
// other servers share nothing with it. A dial function that does not heed
// its context is left behind: the place that dialled waits for it, before it dials
// again, and uses what it brings. A caller that leaves before its
// answer breaks no connection: the answer is still read, and a lock that it brings
// is given back.
//
// # The family
//
//	Mutex           RLock                        hash; tokens; hand-off inside the client
//	FencedMutex     RFencedLock                  the same, tokens from Redisson's counter
//	FairMutex       RFairLock                    the same, a queue in Redis, no hand-off
//	RWMutex         RReadWriteLock               hash with a mode, a key for each reader
//	PermitSemaphore RPermitExpirableSemaphore    counter and sorted set of deadlines
//	Semaphore       RSemaphore                   counter
//	CountDownLatch  RCountDownLatch              counter
//
// All but the last two give Helds: holds of other kinds than Mutex differ in the
// scripts that take, keep and release them, and share the rest. A renewal batch
// of several kinds is one pipelined call for each script. Semaphores and latches
// have no owner. Each of their requests writes what it brought under a key of its
// own, for 30 s and in the same script, so that a copy of it gets the first
// answer; it is sent again for 20 s. What a caller has left is undone, and a copy
// that comes later takes nothing.
//
// The waiters of a client at one semaphore, latch or RWMutex stand in line, and
// only the first talks to Redis. Those of a FairMutex each stand in Redis' queue.
//
// The formats are Redisson's; the scripts are our own, see package script.
//
// # Cost
//
// Lock and Unlock are a script and a round trip each, pipelined with what other
// goroutines send; so is a hand-off, which is both. Re-entry and an inner Unlock
// are a round trip too. A held lock takes some 300 bytes with a short name, no
// goroutine and no timer of its own; a Held allocates a channel or a context only
// when it is asked for one. A renewal costs the client some microseconds of CPU,
// and the less the more locks there are. A client of one server has four
// goroutines and no connection before its first request, and some ten and at most
// five when it is used. bench/BENCHMARKS.md has measurements.
//
// # What it logs
//
// What nobody else could tell, to Config.Logger; the keys are stable.
//
//	a Held was dropped without Unlock      warning  name
//	a hook panicked                        error    name, panic, stack
//	no connection to Redis                 warning  server, error; once until there is one
//	connected to Redis again               info     server
//	the server was replaced (a failover)   warning  old, new
//	pub/sub failed                         warning  server, error; once until it works again
//	pub/sub works again                    info     server
//	renewal is refused                     warning  server, error; once until one works again
//	PUBLISH is refused                     warning  server, error; once
//	still waiting for a lock that this
//	client itself holds                    warning  name, waited
//	this Redis evicts keys                 warning  maxmemory_policy, maxmemory
//	this Redis ends connections that ask
//	for INFO, or does not answer           warning  server, error; once
//
// server is an address. A pool does not tell its own: there it is that of the last
// dial that failed, if that says so. Losses are told to the holder, and to
// Hooks.Lost; Stats counts them.
package lock
