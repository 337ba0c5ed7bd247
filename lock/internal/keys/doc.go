// Package keys names everything that package lock has in Redis: the keys and
// channels that belong to a lock's name, the hash slot of a key, and which names a
// lock may not have. A name here is the same in every client and version, and in
// Redisson where Redisson has one.
//
// A derived name shares the hash slot of its lock, because scripts touch both. So
// Redisson puts braces round the lock's name (prefix:{name}, {name}:suffix),
// unless the name has some already, which then mark the part that decides.
//
// The functions are pure. They do not check the name: see Check and CheckSlot.
package keys
