// Package pubsub has one connection to a server, over which all waiters for locks on
// that server receive messages. A listener receives every message of its channel, or
// learns that it may have missed some.
//
// Pub/sub is an optimisation. Every waiter also tries by itself from time to time, so
// a connection that fails or is not permitted costs time, but never a lock.
//
// A waiter that was refused the lock listens. It is woken when its channel is
// confirmed. It then tries once more, because it has missed any earlier message. From
// then on every message wakes it. When the connection fails, it is dialled again, and
// all channels are subscribed and confirmed again.
//
// After a failover behind one name, the old master may live on as a replica that does
// not hear the new one. A subscription there misses all releases, although pings are
// answered. So the connection is replaced at the next ping after a connection for
// commands was made (Config.Dials), and News.Upto is never later than the last answer
// of a server that was no replica (Config.MasterSeen). A waiter that relies on Upto then
// tries, and its connection finds the new master.
//
// A listener receives what PUBLISH sends or, where channels have slots, what SPUBLISH
// sends, or both. Config.Modes says in which of these ways. Its answer may change at
// any time, and Retune then subscribes and unsubscribes what differs. A channel is
// confirmed when each of its ways is confirmed. If a server refuses SSUBSCRIBE, the
// Subscriber uses the other way over the same connection, provided that Config.SSubscribeRefused
// agrees.
//
// # States of a channel
//
//	          Listen            SUBSCRIBE sent            answered
//	unknown ─────────▶ pending ────────────────▶ asked ─────────────▶ confirmed
//	   ▲                  ▲   the connection fails  │                     │
//	   │                  └─────────────────────────┴─────────────────────┘
//	   └── nobody has listened for 2 s, or its slot is on another server: its
//	       listeners are woken, and ask where their key is before they sleep again
//
// Two servers may each say that a slot is on the other one. So a server sends the listeners of a
// channel away at most once in a period of pings. After that, and if the other server is not
// known, the channel stays asked, and the server is asked again at the next ping.
//
// A way that is added later takes a confirmed channel back to asked.
//
// # Goroutines and locks
//
// A Subscriber has no goroutine before its first listener, and then two: one dials,
// writes and pings, one reads. Close ends them. Subscriber.mu guards all channels; it is
// never held during I/O, nor while a function of Config runs.
//
// A connection counts as dead when the server is silent for longer than the period of
// pings, 2 s, and Config.Timeout. A failure is logged once until pub/sub works again.
// The pause before a dial grows from 50 ms to 5 s. An error reply to a ping shows that
// the connection works. An error reply to SUBSCRIBE is for all channels of the command,
// although one of them may be the reason, such as a channel that the user may not use.
// So each of them is then asked for alone. A channel that is refused alone stays asked,
// and its waiters poll. The server is asked for it again once a minute, or at the next
// ping if the refusal may pass. A connection that is not logged in is closed.
package pubsub
