// Package simulation runs the product itself under a scheduler, in virtual time, and looks for
// broken promises.
//
// # What is done
//
// Weave writes an overlay for the go command. The overlay changes the product mainly in these points.
// Every sync.Mutex of the packages lock and renewal is one of package points. There a goroutine
// stops before it locks and after it has unlocked, unless it holds another mutex. A goroutine that
// was woken stops before it goes on. Goroutines have names. The scheduler chooses among the ready
// cases of a select, and other random choices depend on the seed. The product has no code for the
// simulation. The scheduler lets one goroutine
// run, waits until every other goroutine in the bubble of testing/synctest is blocked, and chooses
// again.
//
// A world has some clients, and actors that use the exported API of these clients. A scenario says
// what happens in a world (scenario_test.go). Locks of all kinds are waited for, tried, re-entered,
// extended, guarded, unlocked, and deleted from outside. Contexts end, networks fail, and rights are
// taken away. Servers restart, their clocks jump, they lose the counter of tokens, or they fail over
// and lack the last writes. There are the three servers of a RedLock, a Cluster whose slots move,
// clients that close, clients of Redisson and of libraries with only SET NX, semaphores and latches.
// Helds are forgotten, and the world says when the garbage collector finds that.
//
// Clients may have a Keeper of the names of a world (keepers_test.go). Actors want and drop names,
// change Most and close Keepers. Some Keepers share the names.
//
//	small   the real clients over link_test.go and store_test.go: a script is one event, and its
//	        answer another. The twin of the script (package twin) is carried out.
//	large   the real clients, with their connections, over a server in memory that runs the Lua
//	nodes   the real clients over the nodes of a Cluster (node_test.go): a slot moves key by key, with
//	        ASK, ASKING and TRYAGAIN, and subscriptions at a shard end with its slot. No Lua runs
//	named   the real clients over one server behind a name (named_test.go). The server fails over, and
//	        lives on as a replica that does not hear its heir. No Lua runs
//
// While all goroutines stand still, oracles compare the state of the clients with the state of the
// servers (oracle_test.go). They check that
//
//   - there is one holder at a time, and a hold is no longer safe before its key ends
//   - no key ends before a client has asked for that
//   - holders are told of losses and of Close
//   - tokens rise, and commands of Guard run in the time of their holder
//   - hand-overs in memory come within 100 ms of the script that reserved their tokens (runs_test.go)
//   - permits and count-downs add up
//   - Unlock says so if Redis no longer had the lock
//   - no key without a holder stays in Redis for long
//   - no call sleeps while its object is free, and none runs in a circle
//   - readers wait for a writer that has the lock or wants it, and for nothing else
//   - a Keeper calls Taken and Ended in turn, at once, and keeps no more than Most or its share
//   - a name that is dropped ends, and so do all names at Close of a Keeper
//   - a Keeper sends few requests while its server cannot be reached
//   - after the faults each name is kept by one Keeper that wants it, if one has room
//   - nothing is left at the end
//
// # How the scheduler chooses
//
//   - Mostly by PCT (Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of
//     Finding Bugs, ASPLOS 2010). Goroutines have random priorities. The ready one with the highest
//     priority runs, and at a few random steps it gets the lowest priority. The scheduler also
//     delays goroutines for some virtual time.
//   - In some worlds only goroutines in one function are delayed, for about a lease. That finds a
//     bug between two steps of a hand-over in seconds.
//   - Some very small worlds are simulated in all orders that differ from one order by a few delays
//     (Emmi, Qadeer, Rakamaric, Delay-Bounded Scheduling, POPL 2011). Each run says by how many
//     delays, and whether all such orders were run.
//
// # What a seed is
//
// In a small world a seed determines the whole history. TestASeedIsAHistory simulates seeds twice
// and compares all steps. A found bug is reported with its seed and its shortest history, as a test
// that can be pasted. Everything that is not needed was removed step by step.
//
// In a large world a seed does not determine the history. Several goroutines run between two choices,
// and the runtime also chooses. So a bug is found at a rate.
//
// # What is not seen
//
// Sequences of atomic operations are not split. No goroutine stops within a critical section. Virtual
// time goes on only when no goroutine is ready, or when one is delayed. Small worlds have no
// connections, so only large worlds show what happens between a request and its bytes. In small
// worlds a slot of a Cluster moves at once, and all messages come from PUBLISH. In the nodes only
// a key that a call does not name can be missing in the middle of a script. The tests of package lock
// show that the garbage collector finds forgotten Helds.
//
// # How to run it
//
//	go test ./lock/internal/proof/simulation -v
//	WHEELLOCK_SIMULATE=1000 WHEELLOCK_SIMULATE_FROM=7 go test ./lock/internal/proof/simulation -run InEveryOrder -v
//	WHEELLOCK_SIMULATE=10m WHEELLOCK_SIMULATE_FROM=$(date +%s%N) go test ./lock/internal/proof/simulation -run InEveryOrder -v -timeout 60m
//	WHEELLOCK_EXPLORE=10m go test ./lock/internal/proof/simulation -run AllOrders -v -timeout 3h
//	WHEELLOCK_SIMULATE_SEED=123 go test ./lock/internal/proof/simulation -run TestASeed$ -v
//	go run ./integration/planted -simulate 1000
//
// WHEELLOCK_SIMULATE is the number of small worlds that each of two workers simulates, or for how long
// they do. WHEELLOCK_SIMULATE_FROM is the first seed. Nothing is drawn by the clock, so one commit has
// one result.
//
// The last command plants small bugs in the product. It says after how many worlds each bug was
// found, and by which oracle.
package simulation
