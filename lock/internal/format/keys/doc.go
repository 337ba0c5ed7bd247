// Package keys names everything that package lock has in Redis: the keys and
// channels that belong to a lock, and the hash slot of a key. It also says
// which names a lock may not have. A name is the same in every client and
// version, and in Redisson where Redisson has one.
//
// A derived name is in the hash slot of its lock, because scripts use both. So
// Redisson puts braces around the lock's name (prefix:{name}, {name}:suffix). If
// the name already has braces, those mark the part that decides the slot.
//
// With braces a name of a lock could be a derived name of another lock. Check
// refuses such names, so two names that it accepts have no key in common.
//
// The functions are pure. Only Check and CheckSlot check a name.
package keys
