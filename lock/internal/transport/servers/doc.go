// Package servers knows which server has a key now, and owns the servers. A
// request that is given to that server is completed, even if the server is
// replaced or the key moves. The package opens servers, notices when one was
// replaced, and closes servers that are no longer used.
//
//	router, err := servers.New(cfg)
//	router.Send(ctx, key, request)       // waits until a server is known
//	router.Server(key).Put(request)      // does not wait
//	listener.Listen(router.Server(key).Subscriber(), channel)
//
// Without slots (a pool, or a Topology such as package sentinel's) a [Router]
// has one [Server]. With slots (package cluster's) it has one for every server
// that a Layout or a redirection has named. A Server has the connections for
// commands and the one for subscriptions. Everything else that the user has per
// server is an [Attachment], because this package knows nothing about locks and
// their renewal. The Topology finds the servers. This package repeats no
// request. Package pipe says which requests are sent to another server.
//
// # What it promises
//
//   - A name has one Server until that Server is retired. Server.Epoch counts
//     how often the server behind the name was replaced.
//   - A slot belongs to the server that was named last, by a Layout or by a
//     redirection with MOVED. If no server has a slot any more, the slot stays
//     with its last server.
//   - When another server is behind a name (topology.Server.Instance), the
//     epoch ends and every connection to the old server is closed. No later
//     answer on these connections counts as an answer of the new server. A dial
//     does not ask for a run id or a node id. If a dial leads to the old server
//     nevertheless, ROLE (package sentinel), MOVED (package cluster, and one
//     server in cluster mode) or READONLY shows that.
//   - A server that no Layout and no redirection names any more is kept for
//     Config.Lease and a minute, and longer while a slot or the Attachment needs
//     it, because requests may be on the way to it. Then it is closed with its
//     connections and goroutines.
//   - Config.Moved is called after each Layout, if a slot has another server
//     than at the last call. Changes by redirections count too. They also make
//     the Topology look again soon.
//   - Config.Opened is called once for each server, before anything is sent to
//     it. When Close has returned, no server is open or will be opened.
//   - While no server has a key, Put fails at once with ErrNoServer and the
//     last error of the Topology. Send waits for the first Layout, at most
//     Config.DialTimeout.
//   - Without slots, the one server is dialled only after a Layout has named it,
//     so a connection to another server is not kept. If the Layouts were errors
//     so far, a dial makes the Topology look again and waits for its next Layout.
//   - Where keys have slots, a release is published in the way that was chosen
//     for the server of the key ([Router.Publisher], [Choice]). The Subscriber of
//     that server listens in the same way. For Config.Overlap after a change it
//     listens in both ways. For as long after the last ASK, it does not count on
//     SPUBLISH, because releases of keys that have moved are published elsewhere.
//   - Where keys have no slots, a connection for commands finds out within
//     Config.CheckMasterEvery of its use that its server has become a replica. The next
//     connection may find the new master. The Subscriber dials again after every
//     dial of a connection for commands, at most once in each period of pings.
//   - Package record has the table of what is logged, and how often. The log has one
//     warning while a server cannot be reached.
//
// # States of a server
//
//	      named         the first request         Config.Opened has returned
//	(none) ─────▶ known ─────────────────▶ opening ────────────────────────▶ open ◀─┐
//	                │                         │                              │  │   │ another Instance:
//	                │                         │ Opened failed                │  └───┘ the epoch ends
//	                │                         ▼                              │
//	                │                      unknown                           │
//	                └────────────────────────────────────────────────────────┴──▶ closed: retired,
//	                                                                              or Router.Close
//
// All requests for an unknown server fail. Router.unknown is such a server, without
// a name and connections. Every slot is at Router.unknown at first. A server that is
// only known has no goroutine. A Layout with more than MostServers is an error.
//
// # Goroutines and locks
//
// The Router has one goroutine, from the first time that a server is needed
// until Close. It runs Topology.Follow, applies Layouts, calls Moved, and
// opens, replaces and retires servers. The other goroutines belong to packages
// pipe and pubsub and to the Attachments. Server.close ends them, in Close or
// when a server is retired. Close may be called twice and by many goroutines,
// but not by a function of Config.
//
// Router.mu guards the table of servers. It is not held during I/O, including
// closing, nor while a function of Config, a method of an Attachment or the
// Topology runs. It is never held together with another lock. So a server is in
// the table before it is open. The first goroutine that needs a server opens it,
// and others wait only for that server (Server.opened). Close waits in the same
// way, so that it also closes a server that is being opened. Idle of a retired
// server is called without the lock. If the server is needed in the meantime, it
// is kept (Server.isWanted). The server of a slot is read without a lock.
//
// # Failure
//
// While no connection for commands can be made, or each one ends before it has
// answered a request or leads to a replica, all requests share one growing pause
// between dials (backoff.go). In the pause they fail at once, with the error of the
// last dial. Renewals share another pause, which is not longer than a twenty-fourth
// of the lease.
//
// A connection or a dial that fails makes the Topology look again, because it
// may know more. A Layout that is an error changes no server and no slot. If
// the Instance of a server changes while it is dialled, the connection is
// closed and the dial fails, unless it began after the change.
//
// A connection for commands or renewal first asks for the server's time, which
// the time limits of requests need (package pipe). A server that does not tell
// it is used without limits, once it has answered PING. If the server requires a
// password, or the connection ends before any answer, the dial fails.
// If the way to publish depends on the version of Redis ([Choice]), a connection
// for commands then asks for the version and tries SPUBLISH. A restart, or a
// failover behind one name, ends connections. So the answers on the last connection
// are true for all requests that are written. A server that ends two connections because of these
// questions, or does not answer three times, is not asked for a minute. Its
// earlier answers still count.
package servers
