package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAPasswordThatChangesUnderHoldsOfACluster: on each master a lock is held while its
// password changes and all connections are closed. New and Open dial alike.
func TestAPasswordThatChangesUnderHoldsOfACluster(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rc := onCluster(t)
	for _, way := range []string{"New", "Open"} {
		user := "rotated-" + way
		var password atomic.Pointer[string]
		set := func(text string) {
			password.Store(&text)
			for _, s := range rc.Servers {
				fixture.Do(t, s, "ACL", "SETUSER", user, "reset", "on", ">"+text, "allkeys", "allchannels", "+@all")
			}
		}
		set("first")
		var dials atomic.Int64
		o := cluster.Options{
			Credentials: func(context.Context) (string, string, error) { return user, *password.Load(), nil },
			NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
		var source *cluster.Topology
		var err error
		if way == "New" {
			source, err = cluster.New(&redisc.Cluster{StartupNodes: rc.Addrs()}, o)
		} else {
			source, err = cluster.Open("redis-cluster://"+strings.Join(rc.Addrs(), ",")+"?client_name=orders", o)
		}
		require.NoError(t, err)
		c := fixture.Client(t, source, lock.Config{Lease: 4 * time.Second, UnlockTimeout: time.Minute}) // a busy machine with a race detector dials slowly
		var helds []*lock.Held
		for _, name := range onEach(t, rc, "rotated:"+way) {
			helds = append(helds, fixture.Hold(t, c.Mutex(name).Lock))
		}
		require.Positive(t, dials.Load())
		set("second")
		for _, s := range rc.Servers {
			require.Positive(t, fixture.Int(t, s, "CLIENT", "KILL", "USER", user))
		}
		renewed := c.Stats().Renewal.Renewed
		lost := func() (err error) {
			for _, held := range helds {
				if held.Err() != nil {
					err = held.Err()
				}
			}
			return err
		}
		bounded.Until(t, func() bool { return lost() != nil || c.Stats().Renewal.Renewed >= renewed+9 })
		require.NoError(t, lost())
		for _, held := range helds {
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		// The connection that follows redirections is dialled like the others.
		conn, err := source.GetContext(t.Context())
		require.NoError(t, err)
		who, err := redis.String(conn.Do("ACL", "WHOAMI"))
		require.NoError(t, err)
		require.Equal(t, user, who)
		require.NoError(t, conn.Close())
	}
}

func TestAURLThatIsNotOfAClusterIsOneError(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"redis://:s3cret@h":                      "write redis-cluster://",
		"redis-sentinel://:s3cret@h?master=m":    "write redis-cluster://",
		"redis+cluster://:s3cret@h":              "write redis-cluster://",
		"redis-cluster://:s3cret@h/1":            "a Cluster has no other",
		"redis-cluster://:s3cret/h@a,b":          "/ as %2F",
		"redis-cluster://:s3cret@h?s3cret=1":     "option of the URL is not known",
		"redis-cluster://u:s3cret@h:1,i:99999/0": "port that is no number from 1 to 65535",
	} {
		c, err := cluster.Open(url, cluster.Options{})
		require.Nil(t, c, url)
		require.ErrorContains(t, err, "cluster: Open: ", url)
		require.ErrorContains(t, err, says, url)
		require.NotContains(t, err.Error(), "s3cret")
	}
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	_, err := cluster.Open("redis-cluster://:s3cret@h", cluster.Options{Credentials: ask})
	require.ErrorContains(t, err, "Options.Credentials is set and the URL has a password")
	_, err = cluster.Open("redis-cluster://h", cluster.Options{PubSub: topology.PubSubSharded + 1})
	require.ErrorContains(t, err, "Options.PubSub")
	_, err = cluster.New(&redisc.Cluster{StartupNodes: []string{"h:1"}, CreatePool: func(string, ...redis.DialOption) (*redis.Pool, error) {
		return nil, fmt.Errorf("not asked")
	}}, cluster.Options{Credentials: ask})
	require.ErrorContains(t, err, "CreatePool")
}

// TestAConnectionToAHungNodeEndsWithDialTimeout, by default after 5 s, because redisc dials with a context
// that has no end.
func TestAConnectionToAHungNodeEndsWithDialTimeout(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			source, err := cluster.New(&redisc.Cluster{StartupNodes: []string{"hung:1"}}, cluster.Options{
				DialTimeout: limit,
				Credentials: func(context.Context) (user, password string, err error) { return "", "password", nil },
				NetDial: func(context.Context, string, string) (net.Conn, error) {
					conn, _ := net.Pipe()
					return conn, nil
				},
			})
			require.NoError(t, err)
			began := time.Now()
			conn, err := source.GetContext(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Do("GET", "k")
			require.ErrorContains(t, err, context.DeadlineExceeded.Error())
			require.Equal(t, cmp.Or(limit, 5*time.Second), time.Since(began))
		})
	}
}
