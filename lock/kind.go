package lock

import (
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
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

// sharesKey reports whether holds of the two kinds are fields of one key in the
// same form, so that the scripts of one may remove fields of the other.
func (k kind) sharesKey(other kind) bool {
	if k.exclusive() || k == permitKind {
		return other.exclusive() == k.exclusive() && (other == permitKind) == (k == permitKind)
	}
	return other == readKind || other == writeKind
}

// counterOf returns the key of the counter that mints the tokens of a lock, and
// the least token.
func (c *Client) counterOf(k kind, name string) (string, int64) {
	if k == fencedKind {
		return keys.FencedCounter(name), 1
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
		return command{script.RwReadRelease, 3, c.publishing([]any{name, keys.RWReader(name, field), keys.RWWriters(name), field, remaining, ms(lease), keys.RWChannel(name), keys.Prefix(name)})}
	case writeKind:
		return command{script.RwWriteRelease, 2, c.publishing([]any{name, keys.RWWriters(name), field, remaining, ms(lease), keys.RWChannel(name), keys.Prefix(name)})}
	case fairKind:
		return c.fairRelease(name, field, remaining, lease)
	case permitKind:
		return command{script.PermitRelease, 2, c.publishing([]any{name, keys.PermitsTaken(name), field, keys.SemaphoreChannel(name)})}
	}
	return command{script.Release, 1, c.publishing([]any{name, field, remaining, ms(lease), keys.Channel(name)})}
}

// reentry sets the count of a hold, which must be there, and its least lease.
func (h *hold) reentry(count int32, lease time.Duration) command {
	switch h.kind {
	case readKind:
		return command{script.RwReadReenter, 2, []any{h.name, keys.RWReader(h.name, h.field()), h.field(), count, ms(lease)}}
	case permitKind:
		return command{script.PermitExtend, 1, []any{keys.PermitsTaken(h.name), h.field(), time.Now().UnixMilli() + ms(lease)}}
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
		if !h.is(leaving | lost) {
			return h
		}
	}
	return nil
}

// kinLocked reports whether an owner has a RWMutex for reading or for writing.
func (c *Client) kinLocked(name string, o owner) bool {
	for _, k := range [...]kind{readKind, writeKind} {
		for _, h := range c.kin[kinKey{name, o, k}] {
			if !h.is(leaving | lost) {
				return true
			}
		}
	}
	return false
}

// addLocked makes h known, to those above all who can re-enter it now.
func (c *Client) addLocked(h *hold) {
	c.wakeCallersLocked(h)
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
