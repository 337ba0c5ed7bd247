// Package quorum makes one lock of several members. Its first part has the rules. They say when
// a hold of a majority is valid, which answer of a member is a vote, and when a member that was
// lost may come back. The second part is how calls wait for a majority ([Line]). The package has
// no goroutine and sends nothing. Package lock asks the members and keeps their holds.
//
// # Why no two owners have a majority
//
// A vote lasts from the positive answer of a member until the member's hold is no longer safe.
// Renewals extend it. Two votes of one member, for different owners, never overlap. As long as a
// vote lasts, the server has the key and refuses other owners. A server that was restarted after
// its answer may not vote before it was up for the longest lease. By then every vote that it can
// have forgotten has ended ([MayVote]). The server of a durable member forgets no vote.
// This holds for a vote at any time in the life of a hold. So it also holds for the vote of a
// retake, which is an answer and then a vote like the first one ([Ask], [Retake]).
//
// A hold is valid at the moments at which the votes of a majority for it last ([CountValid]). If
// two holds were valid at one moment, their majorities would share a member, and the votes of
// that member would overlap. So it does not matter when the votes were given, or whether the
// majority is always the same one. But a hold that was not valid for a moment must stay lost,
// because another hold may have been valid then. So [MayAdmit] counts once more, and adds no
// member to a hold that has ended.
//
// A key that was deleted by hand breaks that rule, because the vote lasts and the server has no
// key. No lock can prevent that, but this package does not make it worse. A member whose key was
// deleted does not come back. The key was deleted if the server answers that the key is gone, and
// the server is durable or has run since before its vote. If the member's hold is no longer safe,
// or its whole lease has ended when the server answers that, the key has expired.
//
// The tests let fake members answer, forget, restart, expire and be deleted in every order.
//
// # How a call waits
//
// The calls of one process for one lock wait in a [Line]. The first call asks all members at
// once ([Call], Attempt). If the lock was refused, the call listens to the releases of all
// members. It then asks once more, because a release may have come before it listened. From then
// on it asks when one of these things has happened:
//
//   - a member that had refused was released, as a message or the end of a lease says;
//   - this process has unlocked the lock ([Line.Nudge]);
//   - the owner has got one more member through another lock of several members;
//   - the client of a member has begun to close;
//   - MaxPoll is over.
//
// A release of the lock comes member by member. So a call that has slept waits for some
// milliseconds before it asks. The time is random. It is longer the more often in a row the call
// has asked after a release and got some of the members but no majority. So two processes that
// take members from each other stop doing that. Other attempts do not count. Each poll takes the
// members that a holder lacks, and delays no other process.
//
// An owner that already has a member re-enters it, so its call asks although others wait. Two
// calls of one owner never ask at the same time. Each would count the members that the other has
// just got as its own, and might release them.
package quorum
