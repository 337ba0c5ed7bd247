// Package locktest lets a service that uses package lock be tested without a
// Redis server: a small one runs in the test's own process, behind connections
// in memory, and in a testing/synctest bubble in virtual time.
//
//	func TestTheJobStopsWhenItsLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			srv := locktest.NewServer(t)
//			job := service.Start(srv.Client(lock.Config{}))
//			time.Sleep(time.Hour) // 360 renewals, in no time
//			srv.Delete("job:7")
//			<-job.Stopped()
//		})
//	}
//
// It is for tests: the package brings miniredis, which a program that imports
// only lock does not link.
//
// # What a test can do
//
//	two processes that compete      two clients of one Server
//	a lock that is taken away       Server.Delete; the holder is told at its next renewal
//	a lease that ends               LockFor and time.Sleep; or Link.Cut
//	a client that is cut off        Link.Cut, Link.Mend
//	a server that hangs             Server.Pause, Server.Resume
//	a server that comes back empty  Server.Restart
//	nothing is left held            Server.Locks
//	anything else                   Server.Do
//
// # Time
//
// The server's clock is time.Now: TTLs run as the clock of the test does. In a
// synctest bubble time.Sleep moves it, so an hour of renewals takes less than
// a second, on however busy a machine; make the Server and the clients inside the
// bubble. Outside of one everything works too, in real time. There is
// nothing to advance by hand: a server whose clock went ahead of its clients'
// would be one whose clock was set, which no lock survives.
//
// # What it is not
//
// The server is miniredis (github.com/alicebob/miniredis), which runs the same
// scripts. It has one database and no replicas, so Config.Replicas counts none,
// and it is no Sentinel and no Cluster. It knows no ACL. What a real server does
// under load is for a test on a real server.
//
// It does not tell how long it has been up, which a RedLock asks of its members.
// In tests make the RedLock, of a Server for each member, with
// lock.RedLockConfig{Durable: true}. Code that is tested so takes the config as an
// argument.
//
// # Goroutines
//
// miniredis has two for each connection, and a client its own. All of them have
// ended when the functions that NewServer and Client gave to TB.Cleanup have run:
// clients close first, without waiting for locks that are still held. A
// Server, a Link and what they return are safe for concurrent use; those that
// fail the test by TB.Fatalf are for the test's own goroutine.
package locktest
