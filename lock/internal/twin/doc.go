// Package twin explores every order in which the requests of two clients can
// reach one Redis, be lost, and come late. It has a model of the server, which
// tests compare with the Lua files, and a model of the rules that a client
// keeps.
//
// # The server
//
// A server is a value with keys, their contents and their ends. run carries out
// one script and returns a new server, the reply and the messages. A twin is the
// model of one script, slow and obvious. TestScriptsAreTheirTwins sends random
// calls to a real redis-server and to the twins, and compares replies, keys, TTLs
// and messages after every call. -rapid.checks makes it longer.
//
// A script that takes or changes something has a time limit on the server's
// clock, see the function late. After that time it changes nothing.
//
// # The clients
//
// Each caller carries out a short program, such as lock, guard, unlock. Callers
// and janitors (which release what no caller waits for) keep these rules:
//
//   - A request expires IOTimeout after it was sent, by the server's clock as
//     the client estimates it. A LATE request is sent again with a better
//     estimate. A new connection asks for the time first.
//   - An acquisition that is not answered is tried again with a new field (not
//     the request of a FairMutex' waiter, see package hold and the simulation). The
//     janitor releases the old field at once. If the field was not there, it
//     does so again when the acquisition has expired.
//   - A request of a hold that ended unknown is open until its time has passed.
//     Until then only a full release of that hold may be sent.
//   - A re-entry that is not answered is sent again as a re-entry, or given up.
//   - A lost hold is released if an unanswered request may have prolonged it,
//     or if another hold keeps its key.
//   - A renewed hold may be handed over in memory. Its field then belongs to the
//     next holder, which is told of a loss. The hand-over needs a recent positive
//     answer of Redis, a reserved token, no unanswered request and no request for
//     a longer lease.
//   - At the end of a run of hand-overs the script releases if others listen.
//   - A force reads the fields and deletes exactly those.
//   - A request of a semaphore or a latch is sent again under the same result
//     key, for a fixed time; its result is remembered for longer.
//
// The model leaves out the line of one client's callers (package waitqueue),
// pub/sub that fails, replicas and Clusters. Only a mutex's renewals are ever
// unanswered.
//
// # The network and the clocks
//
// The next event is one of these: a caller sends its next request; a request
// arrives and is answered; the client gives up a request that is still under way;
// such a request arrives; a renewal is sent; renewals are no longer answered; a
// caller leaves; the counter of tokens is lost; the server's clock is set; time
// passes until an event is due. A lost answer is the same as a request that is
// given up and arrives at once. Rare events have a budget in each history, so
// that the number of states is finite.
//
// # What is true in every state
//
//   - At most one caller believes that it has an exclusive lock. Holds that a
//     force has ended do not count.
//   - A field that no caller has, waits for, or is about to release does not stay
//     in Redis for longer than IOTimeout.
//   - Guards of one hold run in the order in which they were sent, and none
//     runs after the hold was handed over.
//   - Redis has the holder's count, unless a request of it was not answered.
//   - Only the caller that has a lock is told of its loss.
//   - Tokens rise from holder to holder, also after their counter was lost.
//   - A reader is kept out only by a writer that writes or waits.
//   - The count of a latch is the number of missing count-downs, and permits add
//     up.
//   - From every state the end can be reached, in which all callers are served
//     and no release is pending.
//
// TestEveryStateIsRight visits all states of the smaller scenarios, and with
// WHEELLOCK_STATES=all those of all scenarios. With WHEELLOCK_STATES=1000000
// it visits that many states of each scenario, with larger budgets.
// TestFaultsAreFound switches off one rule after the other, or builds a
// mistake into a script, and must find the shortest history that fails.
//
// # What the rules do not cover
//
// TestWhatIsNotCovered shows these gaps:
//
//   - The server's clock is set back while a request is late, so the request is
//     in time again.
//   - The clock is set back by more than a lease, so the janitor ends its work
//     too early.
//   - The clock is set back, and the counter of tokens is lost.
//   - A request that was answered arrives once more. That breaks acquisitions
//     and guards, but not semaphores and latches.
//
// A clock that is set forward ends leases early. So the model sets it only
// where no lease is running, and never with permits, whose ends are times of
// day.
package twin
