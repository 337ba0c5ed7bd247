// Package twin explores what can become of the requests of two clients on one
// Redis: it has a model of the server, which is held against the Lua files, and of
// what a client does. It is all in test files, because no other package uses it.
//
// # The server
//
// A server is a value: keys, what they have, and when they end. run carries out one
// script at one time and returns a new server, the reply and what was published.
// The scripts' twins are the slow and obvious versions of what the first lines of
// the Lua files promise. TestScriptsAreTheirTwins sends random calls to a real
// redis-server and to the twins, with wrong types in the way, and compares replies,
// keys, TTLs and messages after every call. So what is explored is what the Lua
// files do.
//
// A script that is refused changes nothing. Three are exceptions, at keys that
// somebody else has put there: rw_write has taken the lock when it finds that the
// key of the writers that wait is no hash, semaphore_undo and permit_release have
// noted the end of permits when they find that their counter is no number.
package twin
