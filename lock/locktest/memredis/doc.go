// Package memredis is a Redis server in the memory of a test's own process, in
// real time or in the virtual time of a testing/synctest bubble. Package locktest
// is made of it, and most tests want that one; this one is for a test that
// needs the server by itself. It is for tests: it brings miniredis
// (github.com/alicebob/miniredis), which runs the same scripts as Redis does.
//
//	Start   behind connections in memory, for a synctest bubble too
//	Listen  behind a TCP listener, for programs that dial
//
// # TTLs
//
// TTLs of miniredis do not move by themselves. Here every command is preceded by
// moving them by the time that has passed. That needs no goroutine, because only
// commands see TTLs. In virtual time it is exact. In real time the cost counts,
// because miniredis sorts all its keys for it: it takes a twentieth of the time
// at most, or is done every 50 ms if that is more often. So on a server with
// thousands of keys a key may go up to 50 ms early or late, and early by as long
// as the command that set its TTL had to wait for others.
//
// # States
//
//	           Pause             Kill
//	running ---------> paused ---------> dead
//	   ^ \____________/   |              |  |
//	   |     Resume       |              |  |
//	   +------------------|--- Restart --+  |
//	                      v                 v
//	running ---Stop---> stopped <-----------+
//
// A paused server accepts bytes and does not look at them, as a stopped process
// does. Kill cuts connections and loses the data. Restart also takes a running
// or paused server down first. A stopped server stays stopped.
//
// # What it is not
//
// It has one database, no replicas, no Sentinel and no Cluster. miniredis knows
// no SSUBSCRIBE, CLIENT TRACKING, ROLE and ACL; WAIT does nothing; INFO has the
// sections clients and stats only.
//
// # Goroutines
//
// A Server of Listen has one that accepts, and every connection has two. All of
// them have ended when Stop returns and the connections are closed.
package memredis
