// Command bench answers one question on the machine on which it runs: what does
// a timing wheel save a process that holds very many locks?
//
//	go run ./bench
//	go run ./bench -out out   # and a page with charts: out/index.html
//	go run ./bench -redis redis://:secret@db.example:6379/2 -locks 10000 -lease 30s -duration 2m -json report.json
//	go run ./bench -cluster 10.0.0.1:6379,10.0.0.2:6379
//	go run ./bench -max     # how many locks does this machine keep?
//
// The report begins with the answer. It compares what renewals cost by hand,
// with a timing wheel, and with the library, in client CPU, goroutines and
// lateness. Rows that lost locks follow, one on a line, and then the table.
//
// Other programs spoil the figures. On Linux the report gives the load average
// before the rows, and how much of the processors other programs used during the
// rows. It warns if that was much. Progress, warnings and faults go to standard
// error, and what the rows log is shown there after the last row.
//
// # Rows
//
// A row is one way to keep locks renewed (a driver), at one number of locks.
// Each row runs in a process of its own. The row acquires its locks and holds
// them while the driver renews them. Then it looks at every lock on the server,
// over connections that share no code with the driver, releases them all, and
// checks that none is left. The rows run in random order.
//
//	afterfunc        one time.AfterFunc and one round trip per lock, the usual way by hand
//	wheel            the same loop and round trips, with the timers of one timing wheel
//	afterfunc-batch  one time.AfterFunc per lock; locks that fall due together share a round trip
//	wheel-batch      the same loop and batches, with the timers of one timing wheel
//	library          lock.Client as its users have it
//	sweep            no timers; every third of the lease it renews all locks, one script
//	                 call after the other, as Redisson does
//
// wheel and afterfunc, and wheel-batch and afterfunc-batch, differ only in their
// timers; a test compares their requests. A batch has the locks that fall due within
// 5 ms, at most 1,024. All rows use the library's scripts.
//
// # Columns
//
// All columns except the heap are of the time in which the locks are held. That begins when
// renewals are in time again, but a lease after the last lock was taken at the latest, because to
// take millions of locks delays them. The same code counts renewals, lateness and missed locks for
// every row.
//
//	late        from when a renewal was due until it was answered. It is due a third of the
//	            lease after the one before was due, or was sent if that was earlier.
//	p99         the 99th percentile; "too few" if there are less than a hundred values
//	missed      locks whose renewal was not answered before the end of trust, which is a
//	            margin before the expiry on the server
//	lost        locks that the server does not have, or has for another owner. If a row could
//	            not acquire all of its locks, the locks that it acquired and did not keep.
//	peak RSS    the kernel's high-water mark (Linux only)
//	goroutines  the largest of samples at random moments
//	Redis CPU   from INFO: all of the server's, so it says nothing on a shared server
//	script      how long one call holds the server: commandstats and, on a server that
//	            bench started and that is Redis 7 or newer, latencystats
//	n/a         cannot be measured here
//
// Before the rows, a control lock that is not renewed must expire, and no hold
// is shorter than the lease. Otherwise a driver that does nothing would lose no
// locks.
//
// # How many locks
//
// -max finds how many locks this machine keeps renewed at a lease. It doubles
// the number until a row does not keep them, narrows it down to an eighth, and
// says what reached its limit first. A row keeps its locks if none is missed or
// lost, the 99th percentile of lateness (with few renewals, the largest) is at
// most a sixth of the lease, and the number of renewals is about as large as the
// lease demands.
//
// # Redis
//
// -redis takes a URL or an address. auto is REDIS_ADDR if set, else a
// redis-server from PATH that bench starts, else miniredis in its own process
// ("embedded"), which is 10 to 30 times slower. There bench first measures the
// capacity, and chooses a load for which the slowest driver needs less than a
// third of it.
//
// -cluster runs the same rows on a Redis Cluster. A script call then takes one
// lock, because its keys must be in one slot. The report says how evenly the
// load is spread.
//
// # What -out writes
//
// It writes report.json (as -json does), the charts as SVG, and index.html,
// which has the whole report and refers to no other file. With one number of locks the
// charts are bars, otherwise lines. With -out the rows of the largest number of
// locks continue for two thirds of a lease while the server's CPU is sampled,
// which shows bursts.
//
// # As Go benchmarks
//
//	go test ./bench -run '^$' -bench 'Renew$' -benchtime 1x -count 6 > renew.txt
//	benchstat -col /driver renew.txt
//
// These are the same rows.
//
// # Exit status
//
//	0    nothing missed, nothing lost (-max: some locks were kept)
//	1    a fault, or a row that missed or lost locks or whose process died or hung;
//	     the report is printed all the same
//	2    wrong usage
//	130  interrupted: the first SIGINT or SIGTERM releases the locks, the second one
//	     quits at once, and the locks expire with their lease
package main
