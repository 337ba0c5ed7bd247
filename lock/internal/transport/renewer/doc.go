// Package renewer sends batches of renewals to one server. One round trip tells
// for each lease of a batch whether it is renewed or gone. Without an answer the
// lease stays unknown.
//
// It has connections of its own, so renewals never queue behind callers. A
// [Renewer] is the renewal.Renewer of one server's lane.
//
// # What it promises
//
//   - A lease is reported renewed or gone only if the server said so in answer to
//     a request that named the lease. Otherwise the lease stays unknown, and
//     package renewal sends it again.
//   - A lease that is refused does not affect the others of its batch.
//   - Renew returns soon after its context has ended.
//   - A connection of an epoch before Config.Epoch is not used.
//
// # Calls
//
// A batch is sent as several script calls of at most 128 leases, because 128
// leases occupy the server for half a millisecond. A hold of permits counts once
// per permit. A hold of more than 128 permits has a call of its own. The calls are
// written together and answered together, but at most 4096 permits at once. The
// leases of one call have the same script (Class) and, in a Cluster, the same slot.
//
// # How an answer is read
//
// pipe.VerdictOf says what an error reply to a call means. The renewer then
// does this:
//
//	Final      the leases of the call stay unknown
//	Demoted    the leases stay unknown, and the connection is closed. Without slots
//	           the same holds for MOVED and MASTERDOWN, and for LOADING on a
//	           connection that was not made just now: the old master behind a
//	           name may load what the new one has
//	AsText     the unknown leases of the batch are sent again, with the script's text
//	Late       the call came after its time limit (package pipe), so the unknown
//	           leases of the batch are sent again with another limit
//	Parted     the unknown leases of the batch are sent again, one call per lease;
//	           the lease of a call with only one lease stays unknown
//	Elsewhere  MOVED: the leases go to the lane of the server that has them, where
//	           they are due at once. ASK: the same for a call of one lease, which is
//	           sent there behind ASKING; a call of several is sent again, one call
//	           per lease, because the answer is not true for all of them.
//	           Without slots ASK is like Final
//	Broken     the connection is closed
//
// The server that a slot is moving to knows nothing of a move that was taken
// back. The key may then be on the server that has the slot, which does not say
// ASK any more. So the first "gone" behind ASKING is not believed: the lease goes
// to that server's lane, where it is due at once (Owner.MoveIfAbsent). If it comes back
// with ASK, the next "gone" counts. Thus a holder is told of a loss two round
// trips later, and at the end of its trust at the latest.
//
// A reader's lock has a second key, which the script finds by itself. Behind
// ASKING that key may not have arrived, so "gone" is never believed there.
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
// A renewed lease counts from the first sending (renewal.Batch.Send).
//
// # Hedges
//
// A connection can die without notice, because a firewall drops packets or a host
// is gone. The renewer then does not wait for the timeout. When a dial or an
// answer is slow, it dials another connection, a hedge, and sends a PING over
// it. If the PING is answered, every call that has waited longer is cut off and
// sent again over the new connection.
//
// An answer is slow after a thirtieth of the lease, or after four round trips
// if that is longer. So renewal continues after the network is back within about
// that time and a dial, whatever the timeouts of TCP and Config.Timeout are.
//
// # Goroutines and locks
//
// Batches run on the goroutines of package renewal. The renewer's own goroutines
// are one of Open, at most 8 hedges at once, and one that waits to call
// Config.Resumed. Close waits for them. Connections that are in use when Close is
// called are closed when their batch ends.
//
// Renewer.mu guards the idle connections and the waits. It is never held during
// I/O, including closing, nor while a function of Config runs. No other lock is
// taken under it.
//
// # Failure
//
// A connection whose batch has waited for Config.Timeout is closed. The time is
// checked again after Timeout/16, because this process may be the slow one, and
// the answers may only wait to be read. Config.Timeout is at most a tenth of a
// lease, so this is at most a 160th of it.
//
// If a connection fails, the leases whose calls were answered keep their
// answers. The others are unknown, and the connection is closed. The same holds
// for an answer that the script cannot have given. A connection that was cut
// off is not used again, even if its last answer came before. A server may end
// connections that are idle. Then the unknown leases of the batch are sent over
// another connection.
//
// Two servers may each say that the other one has a key. Package renewal then
// makes pauses (Lease.Move).
//
// The renewer trusts the order of answers: the first answer belongs to the
// first call. It cannot detect a surplus answer. Redis sends one only before it
// closes a connection.
package renewer
