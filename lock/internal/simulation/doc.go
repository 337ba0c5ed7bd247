// Package simulation runs the product itself under a scheduler, in virtual time, and looks for a
// promise that it breaks.
//
// # What is done
//
// Weave writes an overlay for the go command, in which the product is as it is but for this: every
// sync.Mutex of the packages lock and renewal is one of package points, where a goroutine stops
// before it locks and after it has unlocked, unless it holds another one; a goroutine that was
// woken stops before it goes on; goroutines have names; and of the ready cases of a select, the
// scheduler says which is taken. Not a line of the product is there for it. A scheduler lets one
// goroutine go on, waits until everything else in the bubble of testing/synctest is blocked, and
// chooses again.
//
// A world is some clients, and actors that use their exported API: locks of all kinds that are
// waited for, tried, entered again, extended, guarded, unlocked, deleted from outside; contexts
// that end; networks that fail; rights that are taken away; servers that are restarted, whose
// clocks jump, or that fail over and lack the last writes; the three of a RedLock; a Cluster whose
// slots move; clients that close; clients of Redisson, and of libraries that know SET NX alone. A
// scenario says what happens in a world (scenario_test.go).
//
//	small   the real clients over link_test.go and store_test.go: a script is one event, and its
//	        answer another. What is carried out is the twin of the script (package twin).
//	large   the real clients, with their connections, over a server in memory that runs the Lua
//
// While everything stands still an oracle compares what clients say with what the servers have
// (oracle_test.go): one holder at a time; trust that ends before the key does; a key that ends
// before anybody has asked for; holders who are told of losses and of Close; tokens that rise;
// commands of Guard in their holder's time; permits that add up; an Unlock that says so when Redis had
// the lock no more; nothing in Redis for long that nobody has; nobody who sleeps beside what is free,
// and nobody who runs in a circle; nothing that is left at the end.
//
// # How the scheduler chooses
//
//   - Mostly by PCT (Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of
//     Finding Bugs, ASPLOS 2010): goroutines have random priorities, the first one that can goes
//     on, and at a few random steps it becomes the last. It also holds goroutines up for some
//     virtual time.
//   - In some worlds only goroutines in one function are held up, for about a lease: a bug between
//     two steps of a hand-over is met in seconds then.
//   - Some very small worlds are simulated in all orders that differ from one by a few delays
//     (Emmi, Qadeer, Rakamaric, Delay-Bounded Scheduling, POPL 2011). Each run says by how many,
//     and whether these were all.
//
// # What a seed is
//
// In a small world a seed is a history: TestASeedIsAHistory simulates 200 of them twice and compares
// all steps. A find says its seed and its shortest story, as a test that can be pasted: what is not
// needed for it was taken away piece by piece.
//
// In a large world it is not. Several goroutines run between two choices there, and the runtime
// chooses too. So a bug is found at a rate.
//
// # What is not seen
//
// Sequences of atomic operations are not split. Nothing stops within a critical section. Virtual
// time goes on only when no goroutine is ready, or when one is held up. In small worlds there are
// no connections, so what is between a request and its bytes is seen in large ones alone; a slot of
// a Cluster moves at once, and messages are those of PUBLISH. DropForgotten is left to its own tests,
// because the collector decides there.
//
// # How to run it
//
//	go test ./lock/internal/simulation -v
//	WHEELLOCK_SIMULATE=10m go test ./lock/internal/simulation -run InEveryOrder -v -timeout 60m
//	WHEELLOCK_EXPLORE=10m go test ./lock/internal/simulation -run AllOrders -v -timeout 3h
//	WHEELLOCK_SIMULATE_SEED=123 go test ./lock/internal/simulation -run TestASeed$ -v
//	WHEELLOCK_PLANTED=all go test ./lock/internal/simulation -v -timeout 60m
//
// The last one plants small bugs in the product, says after how many worlds each was found, and
// fails if a common one is not. The variable may be a regular expression of their names.
package simulation
