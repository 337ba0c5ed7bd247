package quorum_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// TestAServerVotesWhenAllThatItCanHaveForgottenHasEnded: the longest lease is 10 s.
func TestAServerVotesWhenAllThatItCanHaveForgottenHasEnded(t *testing.T) {
	const master, heir, replica = wire.State(0), wire.Heir, wire.Replica
	for name, test := range map[string]struct {
		up    int64
		state wire.State
		known time.Duration
		says  string // part of the error; empty if the server may vote
	}{
		"up for long":                    {up: 11, state: master},
		"up for not so long, in truth":   {up: 10, state: master, says: "was up for less"},
		"young":                          {up: 1, state: master, known: time.Hour, says: "was up for less"},
		"promoted just now":              {up: 1e6, state: heir, says: "was a replica"},
		"promoted a moment ago":          {up: 1e6, state: heir, known: 10*time.Second - 1, says: "was a replica"},
		"promoted long ago":              {up: 1e6, state: heir, known: 10 * time.Second},
		"restarted with another's file":  {up: 1, state: heir, known: time.Hour, says: "was up for less"},
		"a replica":                      {up: 1e6, state: replica, known: time.Hour, says: "is a replica now"},
		"a master that this client knew": {up: 1e6, state: master, known: time.Second},
	} {
		now := time.Unix(1000, 0)
		var known quorum.Incarnations
		u := wire.UptimeAnswer{Up: time.Duration(test.up) * time.Second, Server: "run", Replication: "reign", State: test.state}
		known.KnownFor(u, now)
		err := quorum.MayVote(u, known.KnownFor(u, now.Add(test.known)), 10*time.Second)
		if test.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.says, name)
		}
	}
}

// TestAPromotionCountsAnewWhateverChanged: another server answers, the server was
// started again, or it was a replica in between. Two servers that answer in turns never get a vote.
func TestAPromotionCountsAnewWhateverChanged(t *testing.T) {
	const longest = 10 * time.Second
	now := time.Unix(1000, 0)
	var known quorum.Incarnations
	mayVote := func(run, reign string) bool {
		u := wire.UptimeAnswer{Up: time.Hour, Server: run, Replication: reign, State: wire.Heir}
		return quorum.MayVote(u, known.KnownFor(u, now), longest) == nil
	}
	for _, id := range [][2]string{{"a", "1"}, {"a", "2"}, {"b", "2"}, {"a", "1"}} {
		require.False(t, mayVote(id[0], id[1]))
		now = now.Add(longest - 1)
		require.False(t, mayVote(id[0], id[1]))
		now = now.Add(1)
		require.True(t, mayVote(id[0], id[1]))
	}
	for range 5 {
		now = now.Add(longest)
		require.False(t, mayVote("b", "2"))
		require.False(t, mayVote("a", "1"))
	}
}
