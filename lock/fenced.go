package lock

import (
	"context"
	"fmt"

	"github.com/wheellock/wheellock/lock/internal/keys"
)

// FencedMutex returns a Mutex whose fencing tokens come from Redisson's
// counter, so holders in Go and in Java get tokens of one sequence. It has the
// format of RFencedLock: besides the lock's hash there is a counter
// redisson_lock_token:{name}. Its Lock is Redisson's lockAndGetToken().
// FencedMutex does no I/O and keeps nothing; the first call that uses a bad
// name returns an error.
//
// The token rises by at least one at each acquisition and stays the same at a
// re-entry. A request that was sent twice leaves a gap. The counter has no TTL,
// because tokens must go on rising even if the lock is unused for a long time.
// Unlike those of a plain Mutex, the tokens start again if Redis loses its
// data. ForceUnlock leaves the counter as it is.
func (c *Client) FencedMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: fencedKind}
}

// Token returns the token of the last acquisition of a FencedMutex, whoever
// made it, or 0 if there was none. Other kinds have no counter of their own and
// return an error; use Held.Token for them. This is Redisson's getToken.
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
