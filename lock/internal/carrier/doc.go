// Package carrier carries batches of renewals to one server: each lease of a batch
// is answered renewed, gone or unknown, in one round trip, on connections that
// nothing else uses, so renewal never queues behind callers.
//
// A batch goes out as several script calls of at most 128 leases, which hold the
// server for half a millisecond each, and is answered as a whole. In a Cluster a
// call has leases of one slot. Leases whose key is on another server go to that
// one's lane.
//
// A link that goes dead without a word (a firewall that drops packets, a host that
// is gone) is not waited out. While a dial or an answer is slow, another connection
// is dialled beside it and asked for a PING; once that is answered, what has waited
// longer is cut off and goes on over the new connection. So renewal resumes a hedge
// and a dial after the link is back, whatever TCP and Config.Timeout think. A hedge
// is a thirtieth of the lease, or four round trips if that is longer.
//
// # States of a batch
//
//	          Conns are in use        dialled, or idle            all answered
//	waiting ───────────────────▶ sent ──────────────────▶ read ────────────────▶ done
//	                              ▲                        │  │
//	                              │ a probe was answered,  │  └─ the rest, as text, or one by one
//	                              └─ or Drop: sent again ──┘     (NOSCRIPT, TRYAGAIN), at most 4 times
//
// # Goroutines and locks
//
// A Carrier has no goroutine of its own but probes, at most 3 at once, which Close
// awaits; batches run on those of package renewal. Carrier.mu guards its idle
// connections and what waits; it is never held during I/O, nor while a function of
// Config runs.
//
// # Failure
//
// A connection that fails makes what it carried unknown, and is closed. So does an
// answer that is none. A refusal of Redis is the refusal of the leases that it names;
// the others are renewed.
package carrier
