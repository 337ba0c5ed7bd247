// Package locktest is for tests of services that use package lock. It needs no
// Redis server: a small one runs in the test's own process, behind connections
// in memory. In a testing/synctest bubble it runs in virtual time.
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
// It imports miniredis, so it is for tests only. A program that imports package
// lock does not link miniredis.
//
// # What a test can do
//
//	two processes that compete      two clients of one Server
//	a lock that is taken away       Server.Delete; the holder is told at its next renewal
//	a lease that ends               LockFor and time.Sleep; or Link.Cut
//	a client that is cut off        Link.Cut, Link.Mend
//	a server that hangs             Server.Pause, Server.Resume
//	a server that comes back empty  Server.Restart
//	an answer that is lost          Link.CutAfter, Link.HangAfter: the server
//	                                carries the call out, and the client gets no
//	                                answer
//	no lock is left held            Server.Locks
//	how many calls Redis gets       Server.Calls, Link.Calls
//	anything else                   Server.Do
//
// # Time
//
// The server's clock is time.Now, so TTLs run as fast as the clock of the test.
// In a synctest bubble time.Sleep moves this clock, and an hour of renewals
// takes less than a second, even on a busy machine. Make the Server and the
// clients inside the bubble. A client whose Server was made outside fails the
// test. Outside a bubble everything works in real time.
//
// A test cannot move the server's clock alone. That would be a server whose
// clock was set, and no lock survives that.
//
// # What it does not have
//
// The server is miniredis (github.com/alicebob/miniredis), which runs the same
// scripts as Redis does. It has one database and no replicas, so
// Config.Replicas finds none. It is no Sentinel and no Cluster. It does not
// know ACL. To see what happens under load, test on a real server.
//
// A RedLock asks its members how long they have been up. The server does not
// tell that. So make the RedLock of a test with
// lock.RedLockConfig{Durable: true} and one Server per member. The code under
// test should therefore take the RedLockConfig as an argument.
//
// # Goroutines
//
// miniredis has two goroutines per connection, and a client has its own.
// NewServer and Client give functions to TB.Cleanup. When these functions have
// run, all goroutines have ended. Clients are closed first, without waiting for
// locks that are still held.
//
// Servers, links and the clients and pools that they return are safe for
// concurrent use. Functions that may fail the test by TB.Fatalf must be called
// on the test's own goroutine.
package locktest
