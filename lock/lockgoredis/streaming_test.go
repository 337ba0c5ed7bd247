package lockgoredis_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// ping has go-redis dial. It fails the test if the provider hangs, because go-redis would hang too.
func ping(t *testing.T, rdb *redis.Client) error {
	t.Helper()
	answer := make(chan error, 1)
	go func() { answer <- rdb.Ping(t.Context()).Err() }()
	return bounded.Receive(t, answer)
}

// TestATokenServiceThatIsDownStopsNobody: the Client dials while the token is due and the service is
// down. The Client must not have stopped the provider's manager before, because the manager could not
// start again. Then all dials would hang, even the dials of the program's own go-redis client.
func TestATokenServiceThatIsDownStopsNobody(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	p := newTokens(t, s)
	o := &redis.Options{Addr: s.Addr(), StreamingCredentialsProvider: p}
	rdb := closed(t, redis.NewClient(o)) // has no connection yet
	made, err := lockgoredis.New(rdb, lock.Config{Lease: 6 * time.Second})
	c := used(t, made, err)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return c.Stats().Renewal.Renewed > 0 })

	p.setDown(true)
	p.renew() // fails
	p.expire()
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed > renewed })
	require.NoError(t, held.Err())
	p.setDown(false)
	require.NoError(t, ping(t, rdb))
	require.NoError(t, held.Unlock(bounded.Context(t)))
	_, stops := p.subscribers()
	require.Zero(t, stops)
}

// TestTheLastSubscriptionOutlivesClose: the program's own client dials after all others are closed.
func TestTheLastSubscriptionOutlivesClose(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	p := newTokens(t, s)
	o := &redis.Options{Addr: s.Addr(), StreamingCredentialsProvider: p}
	rdb := closed(t, redis.NewClient(o))
	require.NoError(t, ping(t, rdb))
	var clients []*lock.Client
	for range 2 {
		made, err := lockgoredis.New(rdb, lock.Config{})
		clients = append(clients, used(t, made, err))
	}
	requireTwo := func() {
		t.Helper()
		for _, c := range clients {
			requireSame(t, rdb, c)
		}
	}
	requireTwo()
	p.renew()
	p.expire()
	bounded.Until(t, func() bool { return ping(t, rdb) == nil })
	requireTwo()
	require.NoError(t, rdb.Close())
	bounded.Until(t, func() bool { now, _ := p.subscribers(); return now == len(clients) })
	for _, c := range clients {
		require.NoError(t, c.Close(bounded.Context(t)))
	}

	p.setDown(true)
	p.renew()
	rdb = closed(t, redis.NewClient(o))
	require.ErrorContains(t, ping(t, rdb), "couldn't get token")
	p.setDown(false)
	require.NoError(t, ping(t, rdb))
	now, stops := p.subscribers()
	require.Greater(t, now, len(clients))
	require.Zero(t, stops)
}

// TestAProviderThatHangs hangs neither a call nor Close, and the error says what hangs.
func TestAProviderThatHangs(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	t.Cleanup(func() { close(answer) })
	hang := func() (string, string) { <-answer; return "app", "late" }
	const inDial = "an earlier dial has not returned"
	for _, c := range []struct {
		says string
		o    redis.UniversalOptions
	}{
		{"no credentials for the connection: the StreamingCredentialsProvider has not answered", redis.UniversalOptions{
			StreamingCredentialsProvider: provider(func(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
				return auth.NewBasicCredentials(hang()), nil, nil
			}),
		}},
		{inDial, redis.UniversalOptions{CredentialsProvider: hang}},
		{inDial, redis.UniversalOptions{CredentialsProviderContext: func(context.Context) (string, string, error) {
			user, password := hang()
			return user, password, nil
		}}},
	} {
		c.o.Addrs = []string{"127.0.0.1:1"}
		made, err := lockgoredis.Open(&c.o, lock.Config{IOTimeout: 100 * time.Millisecond})
		client := used(t, made, err)
		bounded.Until(t, func() bool { // on a busy machine, a call may leave before the dial says why
			_, err := client.Mutex("m").TryLock(bounded.Context(t))
			require.ErrorIs(t, err, lock.ErrNotSent)
			return strings.Contains(err.Error(), c.says)
		})
		require.NoError(t, client.Close(bounded.Context(t)))
	}
}

// TestAProviderKeepsNoClient that is closed, although it keeps its listener.
func TestAProviderKeepsNoClient(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	p := newTokens(t, s)
	client := func() weak.Pointer[lock.Client] {
		c, err := lockgoredis.Open(&redis.UniversalOptions{Addrs: []string{s.Addr()}, StreamingCredentialsProvider: p}, lock.Config{})
		require.NoError(t, err)
		held := fixture.Hold(t, c.Mutex("m").Lock)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, c.Close(bounded.Context(t)))
		return weak.Make(c)
	}()
	bounded.Until(t, func() bool { runtime.GC(); return client.Value() == nil })
	bounded.Until(t, func() bool { now, _ := p.subscribers(); return now == 1 })
}
