// Package twin is a model of a Redis that carries out this project's scripts. The simulation
// runs the product on it, and tests compare it with the Lua files.
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
// # What the time limit does not cover
//
// TestWhatIsNotCovered shows these gaps:
//
//   - The server's clock is set back while a request is late, so the request is
//     in time again. No caller has the lock that it takes, until the lease ends.
//   - The clock is set back, and the counter of tokens is lost: tokens fall.
//   - A request that was answered arrives once more. That breaks acquisitions
//     and guards, but not semaphores and latches.
package twin
