// Package memredis is a Redis server in the memory of a test's own process. It
// runs in real time or in the virtual time of a testing/synctest bubble. Most
// tests need package locktest, which uses this package. Use memredis for a test
// that needs only the server. It imports miniredis
// (github.com/alicebob/miniredis), which runs the same scripts as Redis does.
// So this package is for tests only.
//
//	Start   behind connections in memory, also in a synctest bubble
//	Listen  behind a TCP listener, for programs that dial
//
// # TTLs
//
// In miniredis, TTLs do not run by themselves. This package moves them before
// every command, by the time that has passed. That needs no goroutine, because
// only commands can see TTLs.
//
// In virtual time TTLs are exact. In real time that would cost too much, because
// miniredis sorts all its keys at each move. So in real time TTLs are moved in
// steps. A step is as short as it can be while the moves take at most a
// twentieth of the time, and at most 50 ms. On a server with thousands of keys a
// key may therefore expire up to 50 ms early or late. If the command that sets a
// TTL waits for other commands, the key may also expire early by that wait.
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
// A paused server accepts bytes and does not read them, like a stopped process.
// Kill cuts the connections and loses the data. Restart also takes a running or
// paused server down first. A stopped server stays stopped.
//
// # What it does not have
//
// It has one database, no replicas, no Sentinel and no Cluster. miniredis does
// not know SSUBSCRIBE, CLIENT TRACKING, ROLE and ACL. WAIT does nothing. INFO
// has only the sections clients and stats.
//
// # Goroutines
//
// A Server of Listen has one goroutine that accepts. Every connection has two.
// All of them have ended when Stop has returned and the connections are closed.
package memredis
