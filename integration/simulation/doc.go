// Package simulation runs the product itself under a scheduler, in virtual time,
// and looks for a promise that it breaks.
//
// # What is done
//
// Weave writes an overlay for the go command in which every sync.Mutex of the
// packages lock and renewal is one of package points: a goroutine that holds no
// mutex stops before it locks one and after it has unlocked one. Not a line of the
// product is changed for that. A scheduler lets one goroutine go on, waits until
// everything else in the bubble of testing/synctest is blocked, and chooses again.
//
// A world is some clients of one server in memory, and goroutines that use their
// exported API: locks that are waited for, tried, entered again, extended,
// guarded, unlocked, deleted from outside; contexts that end; clients that close.
// Requests and answers are delayed, arrive after their connection has failed, or
// never. The scheduler holds goroutines up for virtual time.
//
// While everything stands still an oracle compares what clients say with what
// the server has: one holder at a time, trust that ends before the key does,
// holders who are told, tokens that rise, commands of Guard in their holder's
// time, nobody who sleeps beside a free lock, and nothing that is left at the end.
//
// # How the scheduler chooses
//
// Mostly by PCT (Burckhardt et al., A Randomized Scheduler with Probabilistic
// Guarantees of Finding Bugs, ASPLOS 2010): goroutines have random priorities, the
// first one that can goes on, and at a few random steps it becomes the last.
//
// In some worlds only goroutines in one function are held up, for about a lease: a bug
// between two steps of a hand-over is met in seconds then.
//
// # What a seed is not
//
// A seed decides what a world does and how its scheduler chooses. It does not
// repeat a run: several goroutines run between two choices, and the runtime
// chooses too. So a bug is found at a rate, in runs and seconds, and a find should
// become a test of its own.
//
// # What is not seen
//
// Sequences of atomic operations are not split. Nothing stops within a critical
// section. Virtual time goes on only when no goroutine is ready, or when one is
// held up.
//
// # How to run it
//
//	go test ./integration/simulation -v                              # half a minute
//	WHEELLOCK_SIMULATE=10m go test ./integration/simulation -v -timeout 20m
//	WHEELLOCK_PLANTED=all go test ./integration/simulation -v -timeout 60m
//
// The last one plants small bugs in the product, says after how many worlds each
// was found, and fails if a common one is not. The variable may be a regular
// expression of their names.
package simulation
