package lock

// FencedMutex returns a Mutex whose fencing tokens come from Redisson's counter, so
// that holders in Go and in Java get tokens of one sequence: the format of
// RFencedLock, a counter redisson_lock_token:{name} beside the lock's hash. Its Lock is
// Redisson's lockAndGetToken(). It does no I/O and keeps nothing; a bad name is
// reported by the first call that uses it.
//
// The token rises by at least one at each fresh acquisition, never at a
// re-entry; a request that was sent twice leaves a gap. The counter has no TTL:
// tokens must go on rising after a lock was long out of use. Unlike those of a
// plain Mutex they start again if Redis loses its data. ForceUnlock leaves the counter.
func (c *Client) FencedMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: fencedKind}
}
