// Package pubsub has one connection to a server that hears messages for everybody
// who waits there: a listener hears every message of its channel, or learns that it
// may have missed some.
//
// A Listener that was refused the lock listens, and is woken when its channel is
// confirmed: a message that came before was not heard, so it tries once more. From
// then on every message wakes it. When the connection fails it is dialled anew, all
// channels are subscribed again, and confirmed again.
//
// A channel is heard in one of two ways or in both: what PUBLISH sends, and what
// SPUBLISH sends, where channels have slots. Config.Hearing says in which, and may say
// otherwise at any time: Retune subscribes and unsubscribes what differs. A channel is
// confirmed when each way is. A server that refuses SSUBSCRIBE is heard in the other
// way over the same connection, if Config.Deaf agrees.
//
// Pub/sub only makes waiting shorter. Whoever waits also looks by himself from time
// to time, so a connection that is cut, dead or forbidden costs time, never a lock.
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
// A Subscriber has none before its first listener, and then two: one dials, writes
// and pings, one reads. Close ends them. Subscriber.mu guards all channels; it is
// never held during I/O, nor while a function of Config runs.
//
// A server that is silent for longer than the period of pings, 2 s, and
// Config.Timeout is dead. A failure is logged once until it works again; the pause
// before a dial grows from 50 ms to 5 s. An error reply to a ping says that the
// connection lives; one to SUBSCRIBE ends it.
package pubsub
