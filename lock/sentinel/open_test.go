package sentinel_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// TestAURLSaysHowSentinelsAndTheMasterAreDialled: each has a user and a password of its own.
func TestAURLSaysHowSentinelsAndTheMasterAreDialled(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "app", "on", ">s3cret", "allkeys", "allchannels", "+@all")
	f := startFake(t, s.Addr(), 1)
	var mu sync.Mutex
	var dialled []string
	cfg := sentinel.Config{Timeout: time.Second, NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, address)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	source, err := sentinel.Open("redis-sentinel://app:s3cret@"+f.Addr()+"/3?master=mymaster", cfg)
	require.NoError(t, err)
	c := fixture.Client(t, source, lock.Config{})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	conn, err := source.GetContext(bounded.Context(t))
	require.NoError(t, err)
	defer conn.Close()
	bounded.Until(t, func() bool { // not while one is between AUTH and SELECT
		said, err := redis.String(conn.Do("CLIENT", "LIST"))
		require.NoError(t, err)
		n := strings.Count(said, " user=app ")
		return n > 1 && n == strings.Count(said, " db=3 ")
	})
	mu.Lock()
	defer mu.Unlock()
	require.True(t, slices.Contains(dialled, f.Addr()) && slices.Contains(dialled, s.Addr()), dialled)
}

// TestCredentialsOfSentinelsAreAskedFor: a sentinel is not dialled with the credentials of the master.
func TestCredentialsOfSentinelsAreAskedFor(t *testing.T) {
	t.Parallel()
	asked := errors.New("asked")
	source, err := sentinel.Open("redis-sentinel://app:s3cret@127.0.0.1:1?master=mymaster", sentinel.Config{
		SentinelCredentials: func(context.Context) (string, string, error) { return "", "", asked },
	})
	require.NoError(t, err)
	_, err = source.MasterAddr(bounded.Context(t))
	require.ErrorContains(t, err, "asked")
}

func TestAURLThatIsNotOfSentinelsIsOneError(t *testing.T) {
	t.Parallel()
	ask := func(context.Context) (string, string, error) { return "", "", nil }
	const good = "redis-sentinel://:s3cret@h?master=m"
	for _, c := range []struct {
		url  string
		cfg  sentinel.Config
		says string
	}{
		{"redis://:s3cret@h", sentinel.Config{}, "write redis-sentinel://"},
		{"redis-cluster://:s3cret@h", sentinel.Config{}, "write redis-sentinel://"},
		{"sentinel://:s3cret@h?master=m", sentinel.Config{}, "write redis-sentinel://"},
		{"redis-sentinel://:s3cret@h", sentinel.Config{}, "?master=mymaster"},
		{good, sentinel.Config{Master: "m"}, "Config.Master"},
		{good, sentinel.Config{Sentinels: []string{"h:1"}}, "must be empty"},
		{good, sentinel.Config{DialOptions: []redis.DialOption{redis.DialDatabase(1)}}, "must be empty"},
		{good, sentinel.Config{SentinelOptions: []redis.DialOption{redis.DialDatabase(1)}}, "must be empty"},
		{good, sentinel.Config{Credentials: ask}, "Config.Credentials is set and the URL has a password"},
		{good + "&sentinel_password=s3cret", sentinel.Config{SentinelCredentials: ask}, "Config.SentinelCredentials is set"},
		{good, sentinel.Config{Timeout: time.Hour}, "Config.Timeout"},
	} {
		source, err := sentinel.Open(c.url, c.cfg)
		require.Nil(t, source, c.url)
		require.ErrorContains(t, err, "sentinel: ", c.url)
		require.ErrorContains(t, err, c.says, c.url)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
