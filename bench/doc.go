// Command bench answers one question on the machine it runs on: what does a
// timing wheel save a process that holds very many locks?
//
//	go run ./bench
//	go run ./bench -out out   # and a page with charts: out/index.html
//	go run ./bench -redis redis://:secret@db.example:6379/2 -locks 10000 -lease 30s -duration 2m -json report.json
//	go run ./bench -cluster 10.0.0.1:6379,10.0.0.2:6379
//	go run ./bench -max     # how many locks does this machine keep?
//
// The first sentence of the report is the answer, in figures of this run. Then come
// what each row is, the table, and what it says in words.
//
// # What a row is
//
// A row is one way to keep locks renewed, a driver, at one number of locks, in a
// process of its own, so that no row inherits another's heap or connections. It
// acquires the locks, holds them while the driver renews them, looks at every lock on
// the server with connections that share no code with the driver, releases them all,
// and looks again that none is left. The rows run in random order.
//
//	afterfunc        one time.AfterFunc and one round trip per lock, the usual way by hand
//	wheel            the same loop and round trips, but the timers are those of one timing wheel
//	afterfunc-batch  one time.AfterFunc per lock; locks that fall due within a moment share a round trip
//	wheel-batch      the same loop and batches, but the timers are those of one timing wheel
//	library          lock.Client as its users have it
//	sweep            no timers: all locks, one script call after the other, every third
//	                 of the lease, as Redisson does
//
// The first four are one small loop. A timer that fires puts its lock into a queue.
// From there 64 goroutines, each with a connection, make a round trip per lock; or
// two goroutines, each with a connection, wait 5 ms for what else falls due and send
// at most 1,024 locks in one round trip, in script calls of at most 128. When a
// renewal is answered, the lock's timer is armed for the next. So wheel and
// afterfunc, and wheel-batch and afterfunc-batch, differ in the timers alone: a test
// compares what they send. All rows use the library's scripts.
//
// # What the columns say
//
// All but the heap are of the hold alone. Renewals, lateness and missed are counted
// on the row's connections, by the same code for every row. A renewal is due a third
// of the lease after the last one was due, or was written if that was earlier; it is
// late by the time from there to its answer, wherever the wait was: timer, queue,
// connection or server. missed are locks whose renewal was not answered before the
// end of trust, which lies a margin before the server's own expiry; lost are locks
// that the server does not have, or has as somebody else's. Peak RSS is the kernel's
// high-water mark (Linux only); peak goroutines is the largest of samples at random
// moments. Redis CPU is what INFO says, whoever caused it, so on a shared server it is
// no measure. How long one script call holds the server is from its commandstats and,
// on a server of our own from Redis 7 on, its latencystats. n/a cannot be had here.
//
// Before the rows a control lock that nobody renews must have gone by itself, and a
// hold is never shorter than the lease: otherwise "lost 0" could be said of a driver
// that does nothing.
//
// # How many locks
//
// -max finds how many locks this machine keeps renewed at a lease: it doubles their
// number until a row does not keep them, halves what lies between, to an eighth, and
// says what gave out first. A row keeps its locks if none is missed or lost, the 99th
// percentile of lateness is at most a sixth of the lease, and renewals are not far
// too few.
//
// # Redis
//
// -redis takes a URL or an address. auto is REDIS_ADDR if set, else a redis-server on
// PATH as a process of our own, else miniredis in this process ("embedded"), which is
// 10 to 30 times slower. There the capacity is measured first, and the load is chosen
// so that the slowest driver needs less than a third of it.
//
// -cluster runs the same rows on a Redis Cluster. Each master has a queue,
// goroutines and connections of its own, and a script call takes one lock, because
// keys of one call must share a slot. The report says how even the masters' load is.
//
// All names begin with "wheellock:bench:" and a random id, so runs do not meet. What
// stays in Redis are the library's fencing-token counters, "wheellock_token" and, in
// a Cluster, "wheellock_token:{n}".
//
// # What -out writes
//
// report.json, what -json writes; charts as SVG; and index.html, which has all of it
// and refers to no other file. The rows of the largest number of locks then go on for
// two thirds of a lease while the server's CPU is sampled, which shows bursts.
//
// # As Go benchmarks
//
//	go test ./bench -run '^$' -bench 'Renew$' -benchtime 1x -count 6 > renew.txt
//	benchstat -col /driver renew.txt
//
// are the same rows. Without 'Renew$' there is also the most that client and server do
// together.
//
// # How it ends
//
// Exit status 0: nothing missed, nothing lost (-max: some locks were kept). 1: a
// fault, or a row that missed or lost locks, or whose process died or hung; the report
// is printed all the same. 2: wrong usage. 130: interrupted; the first SIGINT or SIGTERM releases the locks and
// says so, the second quits at once and leaves them to their lease.
//
// # Where the code is
//
// bench/internal/run measures the rows; bench/internal/report is what they have
// measured and how it is shown.
package main
