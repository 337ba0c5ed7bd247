package servers

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// leastSharded is the first version of Redis that has sharded pub/sub. Valkey says a
// version of Redis, too.
const leastSharded = 7

// Choice says how releases are published at one server, and what those who wait there
// listen for. It only decides: it has no I/O, goroutine, clock or lock.
//
// Where keys have slots, a message is of use on the one server that has its key. So
// every server has a Choice of its own, and all clients that know that server's version
// agree, whatever the other servers are and whether they can be reached.
//
//	                 Greeted                      Greeted: another version
//	unknown ───────────────────────▶ PUBLISH ◀──────────────────────────────▶ SPUBLISH
//	PUBLISH, and SPUBLISH is heard      ▲                                         │
//	                                    └──────────────── Refused ────────────────┘
//
// After a change both are heard for a time, because others may learn of it later. Both
// are heard for good where others may publish in another way: if the version is not
// told, or the user may not do what others may.
type Choice struct {
	setting topology.PubSub
	overlap time.Duration // after a change

	by      topology.PubSub // Auto while it is not known
	version string          // of the server; "" while it is not known
	refused bool            // the server would do with SPUBLISH, but not for this user
	deaf    bool            // it refuses SSUBSCRIBE
	changed time.Time
}

// NewChoice returns the Choice of a server without slots, or of one that has them.
func NewChoice(t topology.Traits, overlap time.Duration) Choice {
	c := Choice{setting: t.PubSub, overlap: overlap}
	if !t.Slots {
		c.setting = topology.PubSubPlain
	}
	return c
}

// Asks reports whether the server's version matters.
func (c *Choice) Asks() bool { return c.setting == topology.PubSubAuto }

// Greeted notes what a new connection found out: the server's version, "" if it was not
// told, and whether SPUBLISH is refused. It reports whether the choice has changed.
func (c *Choice) Greeted(now time.Time, version string, refused bool) bool {
	if !c.Asks() || version == "" {
		return false // what was known is still the best guess
	}
	by := topology.PubSubPlain
	if Shards(version) && !refused {
		by = topology.PubSubSharded
	}
	c.version, c.refused = version, refused && Shards(version)
	return c.become(now, by)
}

// Refused notes that the server has refused SPUBLISH, and that it will next time. It
// reports whether the choice has changed.
func (c *Choice) Refused(now time.Time) bool {
	if !c.Asks() || c.by != topology.PubSubSharded {
		return false
	}
	c.refused = true
	return c.become(now, topology.PubSubPlain)
}

// Deaf notes that the server refuses SSUBSCRIBE. It reports whether Hearing says how to
// do without it.
func (c *Choice) Deaf() bool {
	c.deaf = c.Asks()
	return c.deaf
}

func (c *Choice) become(now time.Time, by topology.PubSub) bool {
	if c.by == by {
		return false
	}
	c.by, c.changed, c.deaf = by, now, false
	return true
}

// By is how releases are published.
func (c *Choice) By() topology.PubSub {
	switch {
	case !c.Asks():
		return c.setting
	case c.by == topology.PubSubSharded:
		return c.by
	}
	return topology.PubSubPlain
}

// Hearing is what is to be listened for.
func (c *Choice) Hearing(now time.Time) pubsub.Hearing {
	if c.Asks() && (c.by == topology.PubSubAuto || c.refused || c.deaf || now.Sub(c.changed) < c.overlap) {
		return pubsub.Hearing{Plain: true, Sharded: true}
	}
	sharded := c.By() == topology.PubSubSharded
	return pubsub.Hearing{Plain: !sharded, Sharded: sharded, Certain: true}
}

// Shards reports whether a server of that version has sharded pub/sub.
func Shards(version string) bool { return major(version) >= leastSharded }

// major is the number before the first dot; 0 if there is none.
func major(version string) (n int) {
	for i := 0; i < len(version) && version[i] >= '0' && version[i] <= '9' && n < 1000; i++ {
		n = 10*n + int(version[i]-'0')
	}
	return n
}
