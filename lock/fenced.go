package lock

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/keys"
)

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

// Token returns the token of the last fresh acquisition of a FencedMutex, whoever's it
// was, 0 if there was none. Other kinds have no counter of their own, and return an
// error: there is Held.Token. This is Redisson's getToken.
func (m *Mutex) Token(ctx context.Context) (int64, error) {
	if err := m.c.checkName(m.name); err != nil {
		return 0, err
	}
	if m.kind != fencedKind {
		return 0, fmt.Errorf("lock: token of %q: only a lock of Client.FencedMutex has a counter of its own; the token of a hold is Held.Token", m.name)
	}
	n, err := m.c.readCount(ctx, "token", keys.FencedCounter(m.name))
	return n, err
}
