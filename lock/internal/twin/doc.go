// Package twin explores every order in which the requests of two clients can reach
// one Redis, be lost, and come late. It has a model of the server, which is held
// against the Lua files, and a model of the rules that a client keeps.
//
// # The server
//
// A server is a value: keys, what they hold, and when they end. run carries out one
// script and returns a new server, the reply and the messages. The twins of the
// scripts are slow and obvious. TestScriptsAreTheirTwins sends random calls to a real
// redis-server and to the twins, and compares replies, keys, TTLs and messages after
// every call. -rapid.checks makes it longer.
//
// A script that takes or changes something has a time of the server's clock after
// which it is not carried out: see the function late.
//
// A script that is refused changes nothing.
//
// # The clients
//
// Each caller carries out a short program, such as lock, guard, unlock. Callers and
// janitors keep these rules:
//
//   - A request expires IOTimeout after it was sent, by the server's clock as the
//     client estimates it. One that is LATE is sent again with a better estimate. A
//     connection that is dialled asks for the time first.
//   - An acquisition that is not answered is tried again with a new field. The
//     janitor releases the old one at once, and again when the acquisition has
//     expired if it was not there before.
//   - A request of a hold that ended unknown is open until its time is over. Until
//     then no other script of that hold is sent but a full release.
//   - A re-entry that is not answered is sent again as a re-entry, or given up.
//   - A hold that is lost is released if a request that may have prolonged it was
//     not answered, or if another hold keeps its key.
//   - A hold that is renewed may be handed over in memory: its field is the next
//     holder's then, and a loss is told to that one. It needs a yes of Redis that is
//     new, a reserved token, no request that went unanswered and none for a longer
//     lease.
//   - At the end of a run of hand-overs the script releases if others listen.
//   - A force reads the fields and deletes exactly those.
//   - A request of a semaphore or a latch is sent again under the same result key, for
//     a fixed time; its result is remembered for longer.
//
// Left out are the line of one client's callers (package waitqueue), pub/sub that
// fails, replicas and Clusters. Only a mutex's renewals are ever unanswered.
//
// # The network and the clocks
//
// The next event is one of these: a caller sends its next request, a request arrives
// and is answered, it is given up and stays under way, one that was given up arrives, a
// renewal is sent, renewals are no longer answered, a caller leaves, the counter of
// tokens is lost, the server's clock is set, or time passes until anything is due. An
// answer that is lost is the same as a request that is given up and arrives at once.
// What is rare has a budget for each story, so that the number of states is finite.
//
// # What is true in every state
//
//   - At most one caller believes that it has an exclusive lock. Holds that a force
//     has ended do not count.
//   - A field that nobody has, waits for, or is about to release does not stay
//     locked for longer than IOTimeout.
//   - Guards of one hold run in the order in which they were sent, and none after
//     the hold was handed over.
//   - Redis has the holder's count, unless a request of it was not answered.
//   - Nobody is told of the loss of a lock that another has.
//   - Tokens rise from holder to holder, also after their counter was lost.
//   - A reader is kept out only by a writer that writes or waits.
//   - A latch has as many to go as count-downs are missing; permits add up.
//   - From every state the end can be reached, in which all are served and nothing
//     is owed.
//
// TestEveryStateIsRight visits all states of all scenarios. With
// WHEELLOCK_STATES=1000000 it visits so many of each with larger budgets.
// TestFaultsAreFound switches off one rule after the other, or builds a mistake into a
// script, and must find the shortest story of what comes of it.
//
// # What the rules do not cover
//
// TestWhatIsNotCovered finds these, so that nobody believes otherwise:
//
//   - The server's clock is set back while a request is late: it is in time again.
//   - It is set back by more than a lease: the janitor ends its work too early.
//   - It is set back, and the counter of tokens is lost.
//   - A request that was answered arrives once more: that breaks acquisitions and
//     guards, but no semaphores and latches.
//
// A clock that is set forward ends leases early, so it is set where none is running,
// and never with permits, whose ends are times of day.
package twin
