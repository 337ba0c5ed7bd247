// Package twin explores every order in which the requests of two clients can reach
// one Redis, be lost, and come late. It has a model of the server, which is held
// against the Lua files, and a model of the rules that a client keeps. Everything
// is in test files, because no other package needs it.
//
// # The server
//
// A server is a value: keys, what they hold, and when they end. run carries out one
// script at one time and returns a new server, the reply and the messages that were
// published. The twins of the scripts are the slow and obvious versions of what the
// first lines of the Lua files promise. TestScriptsAreTheirTwins sends random calls
// to a real redis-server and to the twins, with keys of other types in the way, and
// compares replies, keys, TTLs and messages after every call. -rapid.checks makes
// it longer.
//
// A script that takes or changes something has a time of the server's clock after
// which it is not carried out, its last argument: see the function late.
//
// A script that is refused changes nothing.
//
// # The clients
//
// Each caller carries out a short program, such as lock, guard, guard, unlock.
// These are the rules that callers and janitors keep:
//
//   - A request expires IOTimeout after it was sent, by the server's clock as the
//     client estimates it. One that is LATE is sent again with a better estimate. A
//     connection that is dialled asks for the time first.
//   - An acquisition that is not answered is tried again with a new field. The
//     janitor releases the old one at once. "Not there" is its last answer only
//     when the server's time is past that of the acquisition; otherwise it asks
//     again then.
//   - A request of a hold that ended unknown is open until its time is over. Until
//     then no other script of that hold is sent but a full release.
//   - A re-entry that is not answered is sent again as a re-entry.
//   - A hold that is lost is released if a request that may have prolonged it was
//     not answered, or if another hold keeps its key.
//   - A force reads the fields and deletes exactly those.
//   - A request of a semaphore or a latch is sent again under the same result key,
//     never runs later than a fixed time after its first sending, and its result is
//     remembered for longer than that.
//
// Left out are the line of one client's callers (package waitqueue), pub/sub that
// fails, tokens, replicas and Clusters. Only a mutex's renewals are ever
// unanswered.
//
// # The network and the clocks
//
// At every point the next event is one of these: a caller sends its next request, a
// request arrives and is answered, it is given up and stays under way, one that was
// given up arrives, renewals are no longer answered, a caller leaves, the server's
// clock is set forward or back, or time passes until the next moment at which
// anything is due. An answer that is lost is the same as a request that is given up
// and arrives at once. A request that never arrives is one that stays under way.
// What is rare has a budget for each story, so that the number of states is finite.
//
// # What is true in every state
//
//   - At most one caller believes that it has an exclusive lock. Holds that a force
//     has ended do not count.
//   - A field that nobody has, waits for, or is about to release does not stay
//     locked for longer than IOTimeout.
//   - Guards of one hold run in the order in which they were sent.
//   - A reader is kept out only by a writer that writes or waits.
//   - A latch has as many to go as count-downs are missing. Permits that are free
//     and permits that are held add up to what there was.
//   - From every state the end can be reached, in which all are served and nothing
//     is owed. Where not, somebody waits for ever.
//
// TestEveryStateIsRight visits all states of all scenarios, breadth first, each
// once. TestFaultsAreFound switches off one rule after the other, or builds an old
// mistake into a script, and must find the shortest story of what comes of it.
// WHEELLOCK_STATES=1000000 explores that many states of every scenario with larger
// budgets.
//
// # What the rules do not cover
//
// TestWhatIsNotCovered finds these, so that nobody believes otherwise:
//
//   - The server's clock is set back while a request is late: it is in time again.
//   - The server's clock is set back by more than a lease: the janitor ends its
//     work before the request has expired.
//   - A request that was answered arrives once more. TCP excludes that. A proxy
//     that repeats requests breaks acquisitions and guards, but no semaphores and
//     latches.
//
// A clock that is set forward ends leases early; it is explored only where no lease
// is running. The ends of permits are times of day, which a clock that is set moves, so
// permits are explored without that.
package twin
