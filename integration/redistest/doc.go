// Package redistest starts a Redis to test against: a real redis-server
// process, or miniredis behind TCP where there is none, or miniredis in the
// virtual time of a testing/synctest bubble. Of this module it imports only
// lock/locktest/memredis, so the tests of every other package, and bench, can
// use it.
//
//	srv, err := redistest.Start(ctx, redistest.Options{})
//	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
//		t.Skip(err)
//	}
//	require.NoError(t, err)
//	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
//
// The ways to get a server:
//
//	Start         a redis-server process: free port or unix socket, empty, nothing saved
//	StartMini     miniredis behind a TCP listener, its TTLs run with the real clock
//	StartVirtual  miniredis behind connections in memory, for a synctest bubble
//	Connect       a server that somebody else runs
//	Auto          REDIS_ADDR if set, else redis-server on PATH, else miniredis
//	Custom        a server that another package controls, as package container does
//
// All of them return a *Server. Servers differ in their Kind and in the methods that
// they refuse. For example, an external server cannot be stopped. StartSentinels and StartCluster
// start several processes that know each other, and stop them together. Each of
// their Servers can be paused and killed alone.
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
// stays stopped. Stop may be called in every state, and again.
//
// # A process
//
// The port is a random free one. Another process can take it before the server
// does. So a server that dies of "Address already in use" is started again on
// another port. A server counts as started only when the port has answered with
// the process id of the child, because any server would answer PONG. If the
// server dies before that, the error ends with its log.
//
// On Linux no child outlives a parent that is killed: the kernel sends it
// SIGKILL (Pdeathsig). This signal depends on the thread that forked and not on
// the process, and Go ends threads when it likes. So every child has a
// goroutine that locks its thread, forks, and waits for the child's end. Only
// the temporary directory is left. On other systems a killed parent leaves its
// child behind as well.
//
// A child has its own process group. A Ctrl-C in the terminal reaches the
// program, which can still release its locks, and not the server.
//
// # miniredis
//
// StartMini and StartVirtual use package memredis, which says how TTLs run and
// what miniredis does not know. Pause, Kill and Restart work on it too.
//
// # Goroutines
//
// A process has one goroutine, and one that copies its output. StartMini has
// one that accepts. Every miniredis connection has two. All of them end in
// Stop. A Server is safe for concurrent use. Pause, Resume, Kill, Restart and
// Stop run one after the other.
package redistest
