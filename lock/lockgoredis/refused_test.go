package lockgoredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// wrapper is a client of a program's own.
type wrapper struct{ redis.UniversalClient }

func TestWhatCannotBeTakenOverIsRefused(t *testing.T) {
	slots := func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }
	one := closed(t, redis.NewClient(&redis.Options{}))
	for says, rdb := range map[string]redis.UniversalClient{
		"lockgoredis: New: the servers of a Ring":      closed(t, redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "h:1"}})),
		"call NewFailover with its options":            closed(t, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})),
		"ClusterSlots is set":                          closed(t, redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots})),
		"or NewFailover if it has Sentinels":           closed(t, redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})),
		"a lockgoredis_test.wrapper does not tell how": wrapper{one},
		"lockgoredis: Addrs is empty: list some nodes": closed(t, redis.NewClusterClient(&redis.ClusterOptions{})),
		"lockgoredis: New needs a client, got nil":     nil,
		"New needs a client, got nil":                  (*redis.Client)(nil),
		"needs a client, got nil":                      (*redis.ClusterClient)(nil),
		"lockgoredis: DB is -1":                        closed(t, redis.NewClient(&redis.Options{DB: -1})),
		`lockgoredis: ClientName is "a b"`:             closed(t, redis.NewClient(&redis.Options{ClientName: "a b"})),
	} {
		c, err := lockgoredis.New(rdb, lock.Config{})
		require.Nil(t, c, says)
		require.ErrorContains(t, err, says)
	}
	_, err := lockgoredis.Open(nil, lock.Config{})
	require.ErrorContains(t, err, "got nil")
	_, err = lockgoredis.NewFailover(nil, lock.Config{})
	require.ErrorContains(t, err, "got nil")
	_, err = lockgoredis.NewFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}, ReplicaOnly: true}, lock.Config{})
	require.ErrorContains(t, err, "ReplicaOnly")
	_, err = lockgoredis.NewFailover(&redis.FailoverOptions{SentinelAddrs: []string{"h:1"}}, lock.Config{})
	require.ErrorContains(t, err, "MasterName or SentinelAddrs is empty")
	_, err = lockgoredis.Open(&redis.UniversalOptions{}, lock.Config{Lease: time.Nanosecond})
	require.ErrorContains(t, err, "Config.Lease")
}
