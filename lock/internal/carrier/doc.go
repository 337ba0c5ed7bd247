// Package carrier sends batches of renewals to one server. In one round trip
// each lease of a batch is answered renewed or gone, or stays unknown.
//
// It has connections of its own, so renewals never queue behind callers. A
// [Carrier] is the renewal.Renewer of one server's lane.
//
// # What it promises
//
//   - A lease is reported renewed, or gone, only if the server said so in
//     answer to a request that named it. Everything else leaves it unknown, and
//     package renewal sends it again.
//   - A lease that is refused does not affect the others of its batch.
//   - Renew returns soon after its context has ended.
//   - A connection of an earlier epoch than Config.Epoch's is not used.
//
// # Calls
//
// A batch is sent as several script calls of at most 128 leases, because 128
// occupy the server for half a millisecond. A hold of permits counts as many; one of
// more than 128 has a call of its own. The calls are written together and
// answered together, but no more than 4096 permits at once: then the next are written.
// The leases of one call have the same script (Class) and,
// in a Cluster, the same slot.
//
// # How an answer is read
//
// pipe.VerdictOf says what an error reply to a call means. The carrier then
// does this:
//
//	Final      the leases of the call stay unknown
//	Demoted    so do they, and the connection is closed
//	AsText     what is not yet known of the batch is sent again, as text
//	Late       the call came after its time limit (package pipe): what is not yet known
//	           of the batch is sent again with another limit
//	Parted     what is not yet known of the batch is sent again, one call per lease;
//	           a call of one lease stays unknown
//	Elsewhere  MOVED: the leases go to the lane of the server that has them, where
//	           they are due at once. ASK: the same for a call of one lease, which is
//	           sent there behind ASKING; a call of several is sent again, one call
//	           per lease, because the answer is not true of all of them.
//	           Without slots it is Final
//	Broken     the connection is closed
//
// A reader's lock has a second key, which the script finds by itself. Behind
// ASKING that key may not have arrived, so "gone" is not believed there.
//
// # States of a batch
//
//	         a connection is free          written             all are answered
//	waiting ─────────────────────▶ sent ────────────▶ read ─────────────────────▶ done
//	   ▲                            ▲                 │  │
//	   │                            └─────────────────┘  │ AsText, Late, Parted: at most
//	   │                              the rest, again    │ 6 sendings in all
//	   └─────────────────────────────────────────────────┘
//	     a hedge was answered, Drop was called, or the connection had been idle
//	     and has ended: over another connection
//
// Trust counts from the first sending (renewal.Batch.Send).
//
// # Hedges
//
// A connection can die without notice: a firewall drops packets, or a host is
// gone. The carrier does not wait for the timeout then. When a dial or an
// answer is slow, it dials another connection, a hedge, and sends a PING over
// it. If the PING is answered, everything that has waited longer is cut off and
// sent again over the new connection.
//
// An answer is slow after a thirtieth of the lease, or after four round trips
// if that is longer. So renewal continues about that time and a dial after the
// network is back, whatever TCP and Config.Timeout say.
//
// # Goroutines and locks
//
// Batches run on the goroutines of package renewal. The carrier's own
// goroutines are the one of Open and the hedges: at most 3 at once. Close waits
// for them.
// Connections that are in use when Close is called are closed when their batch
// ends.
//
// Carrier.mu guards the idle connections and the waits. It is never held during
// I/O, including closing, nor while a function of Config runs. No other lock is
// taken under it.
//
// # Failure
//
// If a connection fails, the leases whose calls it had answered keep their
// answers. The others are unknown, and the connection is closed. The same holds
// for an answer that the script cannot have given. A connection that was cut
// off is not used again, although its last answer may have come before. If the
// connection was idle before and has ended, which servers do to idle ones that
// are told to, what is not yet known of the batch goes over another one.
//
// Two servers may each say that the other one has a key. Package renewal makes
// pauses then (Lease.Move).
//
// The carrier trusts the order of answers: the first answer belongs to the
// first call. It cannot detect a surplus answer. Redis sends one only before it
// closes a connection.
package carrier
