package lock

import (
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// kind says what sort of object a hold is one of, and with it which scripts
// take, keep and release it.
type kind uint8

const (
	mutexKind  kind = iota
	fencedKind      // a mutex whose tokens come from a counter of its own
	fairKind        // a mutex with a queue in Redis
	readKind        // a RWMutex held for reading
	writeKind       // a RWMutex held for writing
	permitKind      // permits of a PermitSemaphore; their names stand in the place of the owner
)

// exclusive kinds have one hold a name, found by the name.
func (k kind) exclusive() bool { return k <= fairKind }

// renewalClass groups the kinds whose holds one script renews, in one call. The
// scripts' arguments are those of script.Renew.
type renewalClass uint8

const (
	renewFields renewalClass = iota
	renewReaders
	renewPermits
)

func (k kind) renewalClass() renewalClass {
	switch k {
	case readKind:
		return renewReaders
	case permitKind:
		return renewPermits
	}
	return renewFields
}

func (r renewalClass) script() *script.Script {
	switch r {
	case renewReaders:
		return script.RwRenew
	case renewPermits:
		return script.PermitRenew
	}
	return script.Renew
}

// key is the key that the script gets for h.
func (r renewalClass) key(h *hold) string {
	if r == renewPermits {
		return permitsTaken(h.name)
	}
	return h.name
}

// lease is what the script gets for a lease that begins now: its length, or for
// permits its end, by the clock, in milliseconds.
func (r renewalClass) lease(ttl time.Duration) int64 {
	if r == renewPermits {
		return time.Now().UnixMilli() + ms(ttl)
	}
	return ms(ttl)
}

// counterOf returns the key of the counter that mints the tokens of a lock, and
// the least token.
func (c *Client) counterOf(k kind, name string) (string, int64) {
	if k == fencedKind {
		return fencedCounter(name), 1
	}
	return c.counter(name), leastToken(time.Now())
}

// command is a script with its arguments, the first of which are its keys.
type command struct {
	script *script.Script
	keys   int
	args   []any
}

// releaseOf releases a hold, but for the count that remains.
func (c *Client) releaseOf(k kind, name, field string, remaining int, lease time.Duration) command {
	switch k {
	case readKind:
		return command{script.RwReadRelease, 2, c.publishing([]any{name, rwTimeout(name, field), field, remaining, ms(lease), rwChannel(name), slotPrefix(name)})}
	case writeKind:
		return command{script.RwWriteRelease, 2, c.publishing([]any{name, rwWriters(name), field, remaining, ms(lease), rwChannel(name), slotPrefix(name)})}
	case fairKind:
		return c.fairRelease(name, field, remaining, lease)
	case permitKind:
		return command{script.PermitRelease, 2, c.publishing([]any{name, permitsTaken(name), field, semaphoreChannel(name)})}
	}
	return command{script.Release, 1, c.publishing([]any{name, field, remaining, ms(lease), channel(name)})}
}

// reentry sets the count of a hold, which must be there, and its least lease.
func (h *hold) reentry(count int32, lease time.Duration) command {
	switch h.kind {
	case readKind:
		return command{script.RwReadReenter, 2, []any{h.name, rwTimeout(h.name, h.field()), h.field(), count, ms(lease)}}
	case permitKind:
		return command{script.PermitExtend, 1, []any{permitsTaken(h.name), h.field(), time.Now().UnixMilli() + ms(lease)}}
	}
	return command{script.Reenter, 1, []any{h.name, h.field(), count, ms(lease)}}
}

// kinKey finds the holds of those kinds that are not exclusive.
type kinKey struct {
	name  string
	owner owner
	kind  kind
}

// kinOf returns the hold that an owner can re-enter, or nil.
func (c *Client) kinOf(name string, o owner, k kind) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.kin[kinKey{name, o, k}] {
		if !h.is(leaving) {
			return h
		}
	}
	return nil
}

// addLocked makes h known.
func (c *Client) addLocked(h *hold) {
	if h.kind.exclusive() {
		c.holds.set(h)
		return
	}
	if c.kin == nil {
		c.kin = make(map[kinKey][]*hold)
	}
	key := kinKey{h.name, h.owner, h.kind}
	c.kin[key] = append(c.kin[key], h)
	c.kinHeld++
}

// removeLocked makes h unknown, and reports whether it was known.
func (c *Client) removeLocked(h *hold) bool {
	if h.kind.exclusive() {
		return c.holds.remove(h)
	}
	key := kinKey{h.name, h.owner, h.kind}
	i := slices.Index(c.kin[key], h)
	if i < 0 {
		return false
	}
	c.kinHeld--
	if c.kin[key] = slices.Delete(c.kin[key], i, i+1); len(c.kin[key]) == 0 {
		delete(c.kin, key)
	}
	return true
}

// heldLocked is how many holds there are.
func (c *Client) heldLocked() int { return c.holds.n + c.kinHeld }

// allLocked returns all holds.
func (c *Client) allLocked() []*hold {
	holds := make([]*hold, 0, c.heldLocked())
	for h := range c.holds.all() {
		holds = append(holds, h)
	}
	for _, kin := range c.kin {
		holds = append(holds, kin...)
	}
	return holds
}
