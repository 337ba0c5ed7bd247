package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
)

var (
	both    = pubsub.SubscribeModes{Plain: true, Sharded: true}
	plain   = pubsub.SubscribeModes{Plain: true, Certain: true}
	sharded = pubsub.SubscribeModes{Sharded: true, Certain: true}

	uncertain = pubsub.SubscribeModes{Sharded: true}
)

// step is an event of a Choice, and what the Choice says afterwards.
type step struct {
	after   time.Duration // since the step before
	event   func(c *servers.Choice, now time.Time) bool
	changes bool
	by      topology.PubSub
	hearing pubsub.SubscribeModes
}

func greeted(version string) func(*servers.Choice, time.Time) bool {
	return func(c *servers.Choice, now time.Time) bool { return c.Greeted(now, version, false) }
}

// barred is a greeting by a server that refuses SPUBLISH to this user.
func barred(version string) func(*servers.Choice, time.Time) bool {
	return func(c *servers.Choice, now time.Time) bool { return c.Greeted(now, version, true) }
}

func nothing(*servers.Choice, time.Time) bool { return false }

func refused(c *servers.Choice, now time.Time) bool { return c.SPublishRefused(now) }

// isDeaf is a refusal of SSUBSCRIBE. It returns true if waiters can listen without SSUBSCRIBE.
func isDeaf(c *servers.Choice, _ time.Time) bool { return c.SSubscribeRefused() }

// asked is an ASK.
func asked(c *servers.Choice, now time.Time) bool { return c.Asked(now) }

func TestHowReleasesArePublished(t *testing.T) {
	const overlap = 10 * time.Second
	const auto, isPlain, isSharded = topology.PubSubAuto, topology.PubSubPlain, topology.PubSubSharded
	cluster := topology.Traits{Slots: true}
	for name, test := range map[string]struct {
		traits topology.Traits
		steps  []step
	}{
		"no slots": {topology.Traits{PubSub: isSharded}, []step{
			{0, greeted("7.2.4"), false, isPlain, plain},
			{0, refused, false, isPlain, plain},
			{0, isDeaf, false, isPlain, plain},
		}},
		"version 7": {cluster, []step{
			{0, nothing, false, isPlain, both},
			{time.Hour, nothing, false, isPlain, both},
			{0, greeted("7.0.15"), true, isSharded, both},
			{overlap - 1, greeted("7.0.15"), false, isSharded, both},
			{1, nothing, false, isSharded, sharded},
		}},
		"a slot moves": {cluster, []step{
			{0, asked, false, isPlain, both},
			{0, greeted("7.0.15"), true, isSharded, both},
			{overlap - 1, asked, false, isSharded, both},
			{1, nothing, false, isSharded, uncertain},
			{overlap - 2, asked, false, isSharded, uncertain},
			{overlap - 1, nothing, false, isSharded, uncertain},
			{1, nothing, false, isSharded, sharded},
			{0, asked, true, isSharded, uncertain},
			{0, asked, false, isSharded, uncertain},
			{overlap, nothing, false, isSharded, sharded},
		}},
		"a slot moves, and messages reach all": {cluster, []step{
			{0, greeted("6.2.14"), true, isPlain, both},
			{overlap, asked, false, isPlain, plain},
		}},
		"a slot moves, and SPUBLISH is set": {topology.Traits{Slots: true, PubSub: isSharded}, []step{
			{0, nothing, false, isSharded, sharded},
			{0, asked, true, isSharded, uncertain},
			{overlap, nothing, false, isSharded, sharded},
		}},
		"later ones": {cluster, []step{
			{0, greeted("10.0.0"), true, isSharded, both},
			{overlap, greeted("8.1"), false, isSharded, sharded},
			{0, greeted("7"), false, isSharded, sharded},
		}},
		"version 6": {cluster, []step{
			{0, greeted("6.2.14"), true, isPlain, both},
			{overlap, nothing, false, isPlain, plain},
		}},
		"the version is not told": {cluster, []step{
			{0, greeted(""), false, isPlain, both},
			{time.Hour, greeted(""), false, isPlain, both},
		}},
		"it is told no more": {cluster, []step{
			{0, greeted("7.0.0"), true, isSharded, both},
			{overlap, greeted(""), false, isSharded, sharded},
		}},
		"no version at all": {cluster, []step{
			{0, greeted("unstable"), true, isPlain, both},
			{0, greeted("99999999999999999999999.1"), true, isSharded, both},
		}},
		"an upgrade": {cluster, []step{
			{0, greeted("6.2.14"), true, isPlain, both},
			{time.Hour, greeted("7.0.0"), true, isSharded, both},
			{overlap, nothing, false, isSharded, sharded},
		}},
		"a downgrade": {cluster, []step{
			{0, greeted("7.0.0"), true, isSharded, both},
			{time.Hour, greeted("6.2.14"), true, isPlain, both},
			{overlap, nothing, false, isPlain, plain},
		}},
		"there and back within the overlap": {cluster, []step{
			{0, greeted("6.2.14"), true, isPlain, both},
			{overlap / 2, greeted("7.0.0"), true, isSharded, both},
			{overlap / 2, greeted("6.2.14"), true, isPlain, both},
			{overlap - 1, nothing, false, isPlain, both},
			{1, nothing, false, isPlain, plain},
		}},
		"a user without the right": {cluster, []step{
			{0, barred("7.0.0"), true, isPlain, both},
			{time.Hour, nothing, false, isPlain, both},
			{0, greeted("7.0.0"), true, isSharded, both}, // it was given
			{overlap, nothing, false, isSharded, sharded},
		}},
		"a right that is taken away": {cluster, []step{
			{0, greeted("7.0.0"), true, isSharded, both},
			{time.Hour, refused, true, isPlain, both},
			{time.Hour, refused, false, isPlain, both},
			{0, barred("7.0.0"), false, isPlain, both},
		}},
		"an old server refuses what it does not know": {cluster, []step{
			{0, barred("6.2.14"), true, isPlain, both},
			{overlap, nothing, false, isPlain, plain},
			{0, refused, false, isPlain, plain},
		}},
		"a user that may not listen": {cluster, []step{
			{0, greeted("7.0.0"), true, isSharded, both},
			{time.Hour, isDeaf, true, isSharded, both},
			{time.Hour, greeted("7.0.0"), false, isSharded, both},
			{0, greeted("6.2.14"), true, isPlain, both},
			{overlap, nothing, false, isPlain, plain},
		}},
		"it is set to PUBLISH": {topology.Traits{Slots: true, PubSub: isPlain}, []step{
			{0, greeted("7.0.0"), false, isPlain, plain},
			{0, refused, false, isPlain, plain},
			{0, isDeaf, false, isPlain, plain},
		}},
		"it is set to SPUBLISH": {topology.Traits{Slots: true, PubSub: isSharded}, []step{
			{0, nothing, false, isSharded, sharded},
			{0, greeted("6.2.14"), false, isSharded, sharded},
			{0, refused, false, isSharded, sharded},
			{0, isDeaf, false, isSharded, sharded},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := servers.NewChoice(test.traits, overlap), time.Now()
			require.Equal(t, test.traits.Slots && test.traits.PubSub == auto, c.NeedsVersion())
			for i, s := range test.steps {
				now = now.Add(s.after)
				require.Equal(t, s.changes, s.event(&c, now), "step %d", i)
				require.Equal(t, s.by, c.By(), "step %d", i)
				require.Equal(t, s.hearing, c.SubscribeMode(now), "step %d", i)
			}
		})
	}
}

// TestWhoDecidesDifferentlyIsHeardForAWhile: two clients learn of a change at different
// times within the overlap. In between, each hears the messages of the other.
func TestWhoDecidesDifferentlyIsHeardForAWhile(t *testing.T) {
	const overlap = 10 * time.Second
	for _, versions := range [][2]string{{"6.2.14", "7.0.0"}, {"7.0.0", "6.2.14"}} {
		early, late, now := servers.NewChoice(topology.Traits{Slots: true}, overlap), servers.NewChoice(topology.Traits{Slots: true}, overlap), time.Now()
		early.Greeted(now, versions[0], false)
		late.Greeted(now, versions[0], false)
		now = now.Add(time.Hour)
		early.Greeted(now, versions[1], false)
		require.NotEqual(t, early.By(), late.By())
		for range 9 { // each second until the other one learns of it
			now = now.Add(time.Second)
			require.True(t, hears(&early, now, &late))
		}
		late.Greeted(now, versions[1], false)
		for range 20 {
			require.True(t, hears(&early, now, &late) && hears(&late, now, &early))
			now = now.Add(time.Second)
		}
	}
}

// hears reports whether a hears what b publishes.
func hears(a *servers.Choice, now time.Time, b *servers.Choice) bool {
	h := a.SubscribeMode(now)
	return b.By() == topology.PubSubPlain && h.Plain || b.By() == topology.PubSubSharded && h.Sharded
}
