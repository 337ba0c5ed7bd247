// Package several is what makes several members one lock. The first part is the rule: when a
// hold of a majority is valid, which answer of a member is a vote, and when a member that was
// lost may come back. The second part is how calls wait for a majority ([Line]). The package
// has no goroutine of its own and sends nothing: package lock asks the members, and keeps what
// they gave.
//
// # Why no two owners have a majority
//
// A vote lasts from the yes of a member until the trust in that yes ends, or in the last
// renewal of it. Two votes of one member, for different owners, never overlap. As long as one
// lasts, the server has the key and refuses others. If the server was restarted after its yes,
// it may not vote before it was up for the longest lease, and by then every vote that it can
// have forgotten has ended ([Standing.MayVote]). If the member is durable, its server forgets
// none. That is so whenever in the life of its hold a vote was given, so it is so of those that
// a retake gets: they are a yes and then a vote, like the first ([Ask], [Retake]).
//
// A hold is valid at the moments at which votes of a majority for it last ([CountValid]). If
// two holds were valid at one moment, their majorities would share a member, and its votes
// would overlap. So it does not matter when the votes were given, or whether it is the same
// majority all the time. But a hold that was not valid for a moment must stay lost, because
// another may have been valid then: [Admits] counts once more, and takes nothing into a hold
// that has ended.
//
// A key that somebody has deleted breaks that rule: the server has no key, and a vote lasts.
// No lock can prevent it, but nothing here makes it worse: a member whose key was deleted
// does not come back. It was deleted if the server says that the key is gone, and has run since
// before it voted, or is durable. If instead the trust in the member has ended, nothing says
// so: the key has expired.
//
// The tests let fake members answer, forget, restart, expire and be deleted in every order.
//
// # How a call waits
//
// The calls of one process for one lock stand in a [Line]. The first one asks all members at
// once ([Call], Attempt). If it was refused, it listens to the releases of all members, and asks
// once more, because a release may have come before it listened. From then on it asks when one
// of these things has happened:
//
//   - a member that had refused it was released, as a message says or the end of a lease;
//   - its own process has unlocked the lock ([Line.Nudge]);
//   - its owner has got a member that it had not before, by another lock of several members;
//   - the client of a member has begun to close;
//   - MaxPoll is over.
//
// A release of the lock comes member by member. So a call that has slept waits for some
// milliseconds before it asks. The time is random, and longer the more often in a row the call
// has got some of the members but no majority: two processes that take members from each other
// part that way.
//
// An owner that has a member already re-enters it, so its call asks although others wait. Two
// calls of one owner never ask at the same time. Each would take for its own what the other one
// has just got, and might give it back. Package waitqueue has these rules, and explores them.
package several
