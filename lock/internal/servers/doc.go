// Package servers says which server has a key now: a request that is put at
// that server is completed, whatever becomes of the server or of where the key
// is. It opens servers, notices that one was replaced, and closes those that
// are no more.
//
//	router, err := servers.New(cfg)
//	router.Send(ctx, key, request)       // waits until a server is known
//	router.Server(key).Put(request)      // does not wait
//	listener.Listen(router.Server(key).Subscriber(), channel)
//
// A [Router] has one [Server] without slots (a pool, or a Topology such as
// package sentinel's), and with slots (package cluster's) one for every server
// that a Layout or a redirection has named. A Server has the connections for
// commands and the one that subscribes. What the user has for a server beside
// them is an [Attachment]; this package knows nothing of locks and their
// renewal.
//
// # What it promises
//
//   - A name has one Server until that is retired. Server.Epoch counts which
//     servers stood behind the name.
//   - A slot is at the server that said so last: a Layout, or a redirection
//     with MOVED. A slot that no server has any more stays with its last one.
//   - When another server stands behind a name (topology.Server.Instance), the
//     epoch ends, and every connection to the old one is given up. Nothing that
//     the old one says later is taken for an answer of the new one.
//   - A server that no Layout names any more is kept for Config.Lease and a
//     minute, and longer while a slot or the Attachment needs it, because
//     requests may be on the way to it. After that it is closed with its
//     connections and goroutines.
//   - Config.Moved is called after each Layout, if a slot has another server
//     than it had when Moved was called last. What redirections changed counts
//     too, and makes the Topology look again soon.
//   - The user is told once of each server that is opened, before anything is
//     sent to it. After Close has returned none is opened, and none is open.
//   - While no server has a key, what is put fails at once with ErrNoServer and
//     what the Topology said last. Send waits for the first Layout, at most
//     Config.IOTimeout.
//   - Where keys have slots, what publishes a release ([Router.Publisher]) is what
//     the server that a script is written to is known to take, see [Choice]. Its
//     Subscriber listens for that and, for Config.Overlap after a change, for both.
//   - The log has one warning while a server cannot be reached, one for each
//     server that is replaced or has given all its slots away, and one per server
//     that refuses to publish, that evicts keys, or that does not answer when it is
//     asked whether it does, for its time or for its version. It says how releases
//     are published each time that this changes for the servers that have slots.
//
// It does not find out where servers are: the Topology does. It repeats no
// request; package pipe says which ones are sent on to another server.
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
// All requests for an unknown server fail. Every slot begins with the one that
// is called so; it has no connections.
//
// # Goroutines and locks
//
// The Router has one goroutine. It runs Topology.Follow, from the first time
// that a server is needed until Close, and takes over Layouts, calls Moved, and
// opens, replaces and retires servers. The other goroutines belong to packages
// pipe and pubsub, and to the Attachments; Server.close ends them, for Close or
// when a server is retired. Close may be called twice and by many goroutines,
// but not by a function of Config.
//
// Router.mu guards the table of servers. It is not held during I/O, closing
// included, nor while a function of Config, a method of an Attachment or the
// Topology runs; it nests in no other lock, and no other nests in it. So a
// server stands in the table before it is open: the first goroutine that needs
// it opens it, and others wait for that one server alone (Server.opened).
// Close waits in the same way, so that a server which is just being opened is
// closed too. Whether a retired server is idle is asked without the lock. If
// somebody wants the server meanwhile, it is kept (Server.wanted).
//
// Which server has a slot is read without a lock.
//
// # Failure
//
// A connection that fails makes the Topology look again, because it may know
// more; so does a dial that fails. A Layout that is an error changes no server
// and no slot. If the Instance of a server changes while it is being dialled,
// the connection is closed and the dial fails, unless it was begun after the
// change.
//
// A connection for commands or renewal asks for the server's time first, by which
// requests expire (package pipe). A server that does not tell is used without
// limits; one that ends two connections because of the question is not asked for a
// minute. The dial fails if the answer is that a password is wanted. If its version
// matters, a connection for commands asks for that next, and
// tries SPUBLISH. A restart, or a failover behind one name, ends connections, so what
// the last one has learned is true for what is written. A server that ends two
// connections because of these questions, or does not answer three times, is not
// asked for a minute; what was known before still counts.
package servers
