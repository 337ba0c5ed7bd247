// Command bench answers one question on the machine it runs on: what does a
// timing wheel save a process that holds very many locks?
//
//	go run ./bench
//	go run ./bench -redis redis://:secret@db.example:6379/2 -locks 10000 -lease 30s -duration 2m -json report.json
//
// # What a row is
//
// A row is one driver at one number of locks, in a process of its own, so that
// no row inherits another's heap, goroutines or connections. It takes the locks
// in random order through the API that users call (many goroutines), settles
// (garbage collected, memory given back), holds them for the duration while the
// driver renews them, looks at every lock on the server with a connection that
// shares no code with the engine, releases them all, and looks again that none
// is left. All names begin with "wheellock:bench:" and a random run id, so runs
// do not meet; what stays in Redis is the fencing-token counter,
// "wheellock_token". The rows run in random order.
//
//	wheel-batch      the library as it comes: one wheel, one script for many locks
//	wheel            one wheel, one round trip a lock, 64 goroutines that make them
//	afterfunc-batch  one time.AfterFunc a lock, one script for many locks
//	afterfunc        one time.AfterFunc and one round trip a lock, the usual way by hand
//	sweep            no timers: all locks one batch after the other, each third of the
//	                 lease, as Redisson does
//
// The first four are the same engine with another setting. Its wheel sends what
// falls due within a slack (lease/300, at most 100 ms, before the due point)
// together, in a batch or one by one; much of what a wheel saves is the wake-ups
// that this spares. sweep is bench's own and uses the same scripts. Where
// Redisson's sweep leaves a choice, this one has the better: our batch size, a
// fixed period instead of a pause after each sweep, arguments made once.
//
// # What the columns say
//
// All but the heap are of the hold alone. A renewal counts when its answer has
// arrived. It is late by the time from its due point to that answer; the due
// point is the last one and an interval (a third of the lease), wherever the
// wait was: timer, queue, connection or server. In a sweep all locks fall due
// when it starts. missed are locks whose renewal was not answered before the
// end of trust, which lies a margin before the server's own expiry; lost are
// locks that the server does not have, or has as somebody else's. Peak RSS is
// the kernel's high-water mark, reset when the hold begins (Linux only); peak
// goroutines is the largest of samples at random moments, 100 ms apart on
// average. Redis CPU is what INFO says of the server, whoever caused it, so on a
// shared server it is no measure. What cannot be had here prints n/a.
//
// Before the rows a control lock that nobody renews must have gone by itself,
// and a hold is never shorter than the lease: otherwise "lost 0" could be said of
// a driver that does nothing.
//
// # Redis
//
// -redis auto is REDIS_ADDR if set, else a redis-server on PATH as a process of
// our own, else miniredis in this process ("embedded"), which needs nothing but
// Go and is 10 to 30 times slower than Redis. There the capacity is measured
// first, and lease and counts are chosen so that the slowest driver needs less
// than a third of it; a load that is asked for and is more is said to be so.
//
// # How it ends
//
// Exit status 0: nothing missed, nothing lost. 1: a fault, or a row that missed
// or lost locks, or whose process died or hung; the table is printed all the
// same. 2: wrong usage. 130: interrupted; the first SIGINT or SIGTERM releases
// the locks and says so, the second quits at once and leaves them to their
// lease.
//
// # Processes
//
// The parent owns the server and starts one row at a time: the row's settings
// go to its standard input, events and the result come from its standard output
// as lines of JSON. Standard input stays open as long as the row is wanted; its
// end, also by the parent's death, makes the row release its locks and leave. A
// row that shows no progress is killed.
package main
