package servers

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// leastSharded is the first version of Redis that has sharded pub/sub. Valkey also tells
// a version of Redis.
const leastSharded = 7

// Choice says how releases are published at one server, and in which way waiters listen
// there. It only decides. It has no I/O, no goroutine, no clock and no lock.
//
// If keys have slots, a message is useful only on the server that has its key. So
// every server has a Choice of its own. All clients that know the version of that server
// agree, whatever versions the other servers have and whether they can be reached.
//
//	                 Greeted                      Greeted: another version
//	unknown ───────────────────────▶ PUBLISH ◀──────────────────────────────▶ SPUBLISH
//	PUBLISH, and SPUBLISH is heard      ▲                                         │
//	                                    └──────────── SPublishRefused ────────────┘
//
// After a change, waiters listen in both ways for a time, because other clients may learn
// of the change later. While a slot moves to another server, SPUBLISH of a key that has moved
// is sent there, but SSUBSCRIBE is still redirected here. So for a time after the last ASK no
// waiter counts on messages. They always listen in both ways if others may publish differently.
// That is so if the server does not tell its version, or refuses a command to this user.
type Choice struct {
	setting topology.PubSub
	overlap time.Duration // after a change

	by           topology.PubSub // the command for publishing; Auto while the version is not known
	version      string          // of the server; "" while it is not known
	noSPublish   bool            // the server has SPUBLISH, but refuses it to this user
	noSSubscribe bool            // the server refuses SSUBSCRIBE
	changed      time.Time       // when by last changed
	asked        time.Time       // when the server last answered ASK
}

// NewChoice returns the Choice of a server without slots, or of one that has them.
func NewChoice(t topology.Traits, overlap time.Duration) Choice {
	c := Choice{setting: t.PubSub, overlap: overlap}
	if !t.Slots {
		c.setting = topology.PubSubPlain
	}
	return c
}

// NeedsVersion reports whether the server's version matters.
func (c *Choice) NeedsVersion() bool { return c.setting == topology.PubSubAuto }

// Greeted records the answers on a new connection. version is the server's version, or ""
// if the server does not tell it. refused says that SPUBLISH is refused. Greeted reports
// whether the choice has changed.
func (c *Choice) Greeted(now time.Time, version string, refused bool) bool {
	if !c.NeedsVersion() || version == "" {
		return false // the earlier answer is still the best guess
	}
	by := topology.PubSubPlain
	if Shards(version) && !refused {
		by = topology.PubSubSharded
	}
	c.version, c.noSPublish = version, refused && Shards(version)
	return c.setBy(now, by)
}

// SPublishRefused records that the server has refused SPUBLISH, and will refuse it again. It
// reports whether the choice has changed.
func (c *Choice) SPublishRefused(now time.Time) bool {
	if !c.NeedsVersion() || c.by != topology.PubSubSharded {
		return false
	}
	c.noSPublish = true
	return c.setBy(now, topology.PubSubPlain)
}

// SSubscribeRefused records that the server refuses SSUBSCRIBE. It reports whether waiters can
// now listen without SSUBSCRIBE.
func (c *Choice) SSubscribeRefused() bool {
	c.noSSubscribe = c.NeedsVersion()
	return c.noSSubscribe
}

// Asked records that the server has answered ASK. It reports whether that changes SubscribeMode.
func (c *Choice) Asked(now time.Time) bool {
	before := c.SubscribeMode(now)
	c.asked = now
	return c.SubscribeMode(now) != before
}

// setBy sets how releases are published from now on, and reports whether that is a change.
func (c *Choice) setBy(now time.Time, by topology.PubSub) bool {
	if c.by == by {
		return false
	}
	c.by, c.changed, c.noSSubscribe = by, now, false
	return true
}

// By returns how releases are published.
func (c *Choice) By() topology.PubSub {
	switch {
	case !c.NeedsVersion():
		return c.setting
	case c.by == topology.PubSubSharded:
		return c.by
	}
	return topology.PubSubPlain
}

// SubscribeMode returns in which ways waiters listen.
func (c *Choice) SubscribeMode(now time.Time) pubsub.SubscribeModes {
	if c.NeedsVersion() && (c.by == topology.PubSubAuto || c.noSPublish || c.noSSubscribe || now.Sub(c.changed) < c.overlap) {
		return pubsub.SubscribeModes{Plain: true, Sharded: true}
	}
	sharded := c.By() == topology.PubSubSharded
	return pubsub.SubscribeModes{Plain: !sharded, Sharded: sharded, Certain: !sharded || now.Sub(c.asked) >= c.overlap}
}

// Shards reports whether a server of that version has sharded pub/sub.
func Shards(version string) bool { return major(version) >= leastSharded }

// major returns the number before the first dot, or 0 if there is none.
func major(version string) (n int) {
	for i := 0; i < len(version) && version[i] >= '0' && version[i] <= '9' && n < 1000; i++ {
		n = 10*n + int(version[i]-'0')
	}
	return n
}
