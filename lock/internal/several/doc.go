// Package several is the rule by which several members are one lock: when a hold of a majority
// is valid, which answer of a member is a vote, and when a member that was lost may come back.
// It does no I/O of its own and has no goroutine: package lock asks the members, keeps what
// they gave, and calls these functions under its own mutexes.
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
package several
