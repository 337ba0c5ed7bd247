// Command bench answers one question on the machine it runs on: what does a
// timing wheel save a process that holds very many locks?
//
//	go run ./bench
//	go run ./bench -out out   # and a page with charts: out/index.html
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
// that this spares. sweep is bench's own and uses the same scripts.
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
// How long one call of a script holds the server, which does nothing else
// meanwhile, is said below the table, in microseconds: the mean by the server's
// commandstats, the 99th percentile and the longest by its latencystats (Redis 7
// and later). For those a server of our own is told to count anew when the hold
// begins; somebody else's is only read, so there they are n/a. Every EVALSHA
// counts, whoever sent it.
//
// Before the rows a control lock that nobody renews must have gone by itself,
// and a hold is never shorter than the lease: otherwise "lost 0" could be said of
// a driver that does nothing.
//
// # What -out writes
//
// report.json, what -json writes; a chart each in a file of its own, SVG, with
// the same colour for a driver in all of them; and index.html, which has the
// charts, the table and how to read them in it and refers to no other file. With
// -out, the rows of the largest number of locks go on for two thirds of a lease
// after all is measured; meanwhile the parent asks the server ten times a second
// for its CPU, which shows bursts. A directory that cannot be written to is an
// error before the first row. A run that is interrupted, or that failed, draws the
// rows it has; one that quits at once draws nothing.
//
// # Progress
//
// On standard error: on a terminal one line that says which row runs, how far
// it is and how long the rest will take, elsewhere a line a row. It is drawn when
// a row's process reports, once a second, and wakes up nobody by itself.
//
// # As Go benchmarks
//
//	go test ./bench -run '^$' -bench 'Renew$' -benchtime 1x -count 6 > renew.txt
//	benchstat -col /driver renew.txt
//
// are the same rows, in less than a minute a count; without 'Renew$' there is
// also the most that client and server do together, two minutes more.
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
// # Where the code is
//
// Here are the flags, the defaults, the signals, the exit status and what a
// terminal shows. bench/internal/run measures the rows; bench/internal/report is
// what they have measured and how it is shown.
package main
