// Package pubsub has one connection to a server, over which all waiters for locks on
// that server hear messages. A listener hears every message of its channel, or learns
// that it may have missed some.
//
// A waiter that was refused the lock listens. It is woken when its channel is
// confirmed. A message that came before was not heard, so it tries once more. From
// then on every message wakes it. When the connection fails it is dialled again, all
// channels are subscribed again, and confirmed again.
//
// A channel is heard in one of two ways or in both: what PUBLISH sends, and, where
// channels have slots, what SPUBLISH sends. Config.Hearing says in which way, and its
// answer may change at any time; Retune then subscribes and unsubscribes what differs.
// A channel is confirmed when each way is. If a server refuses SSUBSCRIBE it is heard in
// the other way over the same connection, provided that Config.Deaf agrees.
//
// Pub/sub is an optimisation. Every waiter also tries by itself from time to time, so
// a connection that fails, or is not permitted, costs time and never a lock.
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
// the connection works. An error reply to SUBSCRIBE ends the connection.
package pubsub
