// Package redistest starts a Redis to test against: a real redis-server
// process, or miniredis over TCP where there is none, or miniredis in the
// virtual time of a testing/synctest bubble. It imports nothing of this module but
// lock/locktest/memredis, so that the tests of every other package, and bench, may
// use it.
//
//	Start         a redis-server process of its own: free port or unix socket, empty, nothing saved
//	StartMini     miniredis behind a TCP listener, its TTLs moving with the real clock
//	StartVirtual  miniredis behind in-memory connections, for a synctest bubble
//	Connect       a server that somebody else runs
//	Auto          REDIS_ADDR if set, else redis-server on PATH, else miniredis
//	Custom        what another package controls, as package container does
//
// All of them return a *Server, which differs only in Kind and in what it
// refuses: nothing can be done to an external server but to use it. StartSentinels
// and StartCluster start several processes that know each other, and take them
// down together; each of their Servers can be paused and killed by itself.
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
// Restart also takes a running or paused server down first. A stopped server
// stays stopped; Stop may be called in every state, and again.
//
// # A process
//
// The port is a random free one. Another process can take it between our look
// and the server's bind, so that a server that dies of "Address already in
// use" is started again on another port, and a server counts as started only
// once its own process id, not just anybody's PONG, has come back from the
// port. A server that dies before that is an error that ends in its log.
//
// No child outlives a parent that is killed: on Linux the kernel sends it
// SIGKILL (Pdeathsig). That signal is tied to the thread that forked, not to
// the process, and Go ends threads as it likes; so each child has a goroutine
// that locks its thread, forks, and waits there for the child's end. Only the
// temporary directory stays. Elsewhere a killed parent leaves its child behind
// as well. The child has a process group of
// its own: a Ctrl-C in the terminal reaches the program, which can still
// release its locks, and not the server beneath it.
//
// # miniredis
//
// The miniredis of StartMini and StartVirtual is that of package memredis, which
// says how its TTLs move and what it does not know. Pause, Kill and Restart work
// on it too.
//
// # Goroutines
//
// A process has one goroutine and one that copies its output; StartMini has one
// that accepts; each miniredis connection has two. All of them end in Stop.
// Server is safe for concurrent use; Pause, Resume, Kill, Restart and Stop
// queue behind each other.
//
// # Use
//
//	srv, err := redistest.Start(ctx, redistest.Options{})
//	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
//		t.Skip(err)
//	}
//	require.NoError(t, err)
//	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
package redistest
