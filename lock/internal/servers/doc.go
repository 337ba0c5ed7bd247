// Package servers says which server has a key now, and owns the servers. A
// request that is put at that server is completed, whatever becomes of the
// server or of the place of the key. The package opens servers, notices that
// one was replaced, and closes those that are not used any more.
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
// server is an [Attachment]: this package knows nothing of locks and their
// renewal. It does not find out where servers are; the Topology does. It
// repeats no request; package pipe says which ones are sent to another server.
//
// # What it promises
//
//   - A name has one Server until that is retired. Server.Epoch counts which
//     servers have been behind the name.
//   - A slot belongs to the server that was named last, by a Layout or by a
//     redirection with MOVED. A slot that no server has any more stays with its
//     last one.
//   - When another server is behind a name (topology.Server.Instance), the
//     epoch ends and every connection to the old server is closed. Nothing that
//     the old one says later counts as an answer of the new one.
//   - A server that no Layout names any more is kept for Config.Lease and a
//     minute, and longer while a slot or the Attachment needs it, because
//     requests may be on the way to it. Then it is closed with its connections
//     and goroutines.
//   - Config.Moved is called after each Layout, if a slot has another server
//     than at the last call. What redirections changed counts too, and makes
//     the Topology look again soon.
//   - The user is told once of each server that is opened, before anything is
//     sent to it. When Close has returned, none is open and none is opened.
//   - While no server has a key, Put fails at once with ErrNoServer and the
//     last error of the Topology. Send waits for the first Layout, at most
//     Config.IOTimeout.
//   - Where keys have slots, a release is published in the way that the server of
//     the key is known to take ([Router.Publisher], [Choice]). Its Subscriber
//     listens for that way and, for Config.Overlap after a change, for both.
//   - The log has one warning while a server cannot be reached, one for each
//     server that is replaced or has lost all its slots, and one per server that
//     refuses to publish, that evicts keys, or that does not answer a question
//     about eviction, its time or its version. A change of how releases are
//     published is logged too.
//
// # States of a server
//
//	        named, or asked for          Config.Opened has returned
//	(none) ─────────────────────▶ opening ─────────────────────────▶ open ◀─┐
//	                                 │                               │  │   │ another Instance:
//	                                 │ Opened failed                 │  └───┘ the epoch ends
//	                                 ▼                               │
//	                              unknown                            ▼
//	                                                   closed: retired, or Router.Close
//
// All requests for an unknown server fail. Every slot begins with a server in
// this state, which has no connections.
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
// the table before it is open: the first goroutine that needs it opens it, and
// others wait for that server alone (Server.opened). Close waits in the same
// way, so that it also closes a server which is being opened. Whether a retired
// server is idle is asked without the lock; if the server is wanted in the
// meantime, it is kept (Server.wanted). The server of a slot is read without a
// lock.
//
// # Failure
//
// A connection or a dial that fails makes the Topology look again, because it
// may know more. A Layout that is an error changes no server and no slot. If
// the Instance of a server changes while it is dialled, the connection is
// closed and the dial fails, unless it began after the change.
//
// A connection for commands or renewal first asks for the server's time, which
// the time limits of requests need (package pipe). A server that does not tell
// it is used without limits. If the server answers that it wants a password, the
// dial fails. If its version matters, a connection for commands asks for that
// next, and tries SPUBLISH. A restart, or a failover behind one name, ends
// connections, so what the last one has learned is true for what is written. A
// server that ends two connections because of these questions, or does not
// answer three times, is not asked for a minute; what was known before still
// counts.
package servers
