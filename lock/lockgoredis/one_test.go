package lockgoredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// vault has a user whose password changes. It is each of the three providers.
type vault struct {
	user     string
	password atomic.Pointer[string]
	asked    atomic.Int64
	open     atomic.Int64 // subscriptions
}

func (v *vault) change(t *testing.T, password string, servers ...*redistest.Server) {
	t.Helper()
	v.password.Store(&password)
	for _, s := range servers {
		fixture.Do(t, s, "ACL", "SETUSER", v.user, "reset", "on", ">"+password, "allkeys", "allchannels", "+@all")
	}
}

func (v *vault) plain() (string, string) {
	v.asked.Add(1)
	return v.user, *v.password.Load()
}

func (v *vault) withContext(context.Context) (string, string, error) {
	user, password := v.plain()
	return user, password, nil
}

func (v *vault) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	v.open.Add(1)
	return auth.NewBasicCredentials(v.plain()), func() error {
		v.open.Add(-1)
		return nil
	}, nil
}

// wrong is a provider that must not be called, because another one comes before it.
func wrong() (string, string) { return "nobody", "wrong" }

func wrongWithContext(context.Context) (string, string, error) { return "nobody", "wrong", nil }

// named counts the connections that have a name.
func named(t *testing.T, name string, servers ...*redistest.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		n += strings.Count(string(fixture.Do(t, s, "CLIENT", "LIST").([]byte)), " name="+name+" ")
	}
	return n
}

// TestAServerWithTLSAndAPasswordThatChanges: client certificates, an ACL user, and each sort of
// provider, in go-redis' order. A lock is held while the password changes and all connections
// are closed.
func TestAServerWithTLSAndAPasswordThatChanges(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Secure(t)
	for name, provide := range map[string]func(*redis.UniversalOptions, *vault){
		"streaming": func(o *redis.UniversalOptions, v *vault) {
			o.StreamingCredentialsProvider, o.CredentialsProviderContext, o.CredentialsProvider = v, wrongWithContext, wrong
		},
		"context": func(o *redis.UniversalOptions, v *vault) {
			o.CredentialsProviderContext, o.CredentialsProvider = v.withContext, wrong
		},
		"plain": func(o *redis.UniversalOptions, v *vault) { o.CredentialsProvider = v.plain },
	} {
		for _, way := range []string{"New", "Open"} {
			t.Run(name+" "+way, func(t *testing.T) {
				v := &vault{user: "app"}
				v.change(t, "first", s.Server)
				o := &redis.UniversalOptions{
					Addrs: []string{s.SecureAddr}, TLSConfig: s.Client, DB: 3, ClientName: "orders", Username: "nobody", Password: "wrong",
				}
				provide(o, v)
				rdb := closed(t, redis.NewUniversalClient(o))
				require.NoError(t, rdb.Ping(t.Context()).Err())
				asked, open := v.asked.Load(), v.open.Load()
				ofGoRedis := named(t, "orders", s.Server)
				cfg := lock.Config{Lease: 6 * time.Second}
				var c *lock.Client
				if way == "New" {
					made, err := lockgoredis.New(rdb, cfg)
					c = used(t, made, err)
				} else {
					made, err := lockgoredis.Open(o, cfg)
					c = used(t, made, err)
				}
				require.Equal(t, asked, v.asked.Load(), "no I/O before the first lock")
				requireSame(t, rdb, c)
				held := fixture.Hold(t, c.Mutex("m").Lock)
				bounded.Until(t, func() bool { return c.Stats().Renewal.Renewed > 0 })
				require.GreaterOrEqual(t, named(t, "orders", s.Server), ofGoRedis+2, "the connections of the locks have the name too")
				asked = v.asked.Load()
				v.change(t, "second", s.Server)
				require.Positive(t, fixture.Int(t, s.Server, "CLIENT", "KILL", "USER", "app"))
				renewed := c.Stats().Renewal.Renewed
				bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed > renewed })
				require.NoError(t, held.Err())
				require.Greater(t, v.asked.Load(), asked)
				bounded.Until(t, func() bool { return v.open.Load() <= open+1 }) // one of ours
				require.NoError(t, held.Unlock(bounded.Context(t)))
			})
		}
	}
}

// TestTheClientOfGoRedisMayBeClosed: the locks have connections of their own.
func TestTheClientOfGoRedisMayBeClosed(t *testing.T) {
	s := fixture.Server(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 1})
	made, err := lockgoredis.New(rdb, lock.Config{})
	c := used(t, made, err)
	require.NoError(t, rdb.Close())
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// TestADialerReplacesTLSConfig, as in go-redis, and sees Network and Addr as they are.
func TestADialerReplacesTLSConfig(t *testing.T) {
	s := fixture.Server(t)
	var dials atomic.Int64
	o := &redis.Options{
		Network: "carrier pigeon", Addr: "roof@home:1/2", TLSConfig: &tls.Config{ServerName: "nowhere"}, DialTimeout: time.Minute,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if _, limited := ctx.Deadline(); network != "carrier pigeon" || addr != "roof@home:1/2" || !limited {
				return nil, errors.New("not asked as go-redis asks: " + network + " " + addr)
			}
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, s.Network(), s.Addr())
		},
	}
	rdb := closed(t, redis.NewClient(o))
	made, err := lockgoredis.New(rdb, lock.Config{})
	c := used(t, made, err)
	requireSame(t, rdb, c)
	require.Positive(t, dials.Load())
}

// TestTheLogNamesTheServerOfGoRedis: the default Dialer of go-redis does not tell to which address it has
// connected by TLS.
func TestTheLogNamesTheServerOfGoRedis(t *testing.T) {
	s := fixture.Secure(t)
	rdb := closed(t, redis.NewClient(&redis.Options{Addr: s.SecureAddr, TLSConfig: s.Client}))
	made, err := lockgoredis.New(rdb, lock.Config{})
	c := used(t, made, err)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Equal(t, s.SecureAddr, c.Stats().Clocks[0].Server)
}

func TestTheAddressInTheURLIsThatOfGoRedisIfItCanBe(t *testing.T) {
	for addr, want := range map[string]string{
		"db-1.internal:6380": "db-1.internal:6380", "10.0.0.1:6379": "10.0.0.1:6379", "[::1]:6379": "[::1]:6379", "redis_1:6379": "redis_1:6379",
		"roof@home:1/2": "go-redis", "/run/redis.sock": "go-redis", ":6379": "go-redis", "host:redis": "go-redis", "host:0": "go-redis",
		"host:65536": "go-redis", "fe80::1%eth0:6379": "go-redis", "a b:1": "go-redis", "": "go-redis",
	} {
		require.Equal(t, want, lockgoredis.HostOf(addr), addr)
		made, err := lockgoredis.New(closed(t, redis.NewClient(&redis.Options{Addr: addr})), lock.Config{})
		used(t, made, err)
	}
}

// TestAUnixSocket by its path alone, as go-redis has it.
func TestAUnixSocket(t *testing.T) {
	s := fixture.Start(t, redistest.Options{UnixSocket: true})
	require.True(t, strings.HasPrefix(s.Addr(), "/"))
	rdb := closed(t, redis.NewClient(&redis.Options{Addr: s.Addr(), DB: 1}))
	made, err := lockgoredis.New(rdb, lock.Config{})
	requireSame(t, rdb, used(t, made, err))
	made, err = lockgoredis.Open(&redis.UniversalOptions{Addrs: []string{s.Addr()}, DB: 1}, lock.Config{})
	requireSame(t, rdb, used(t, made, err))
}

// TestAPasswordAlone logs in as the default user.
func TestAPasswordAlone(t *testing.T) {
	s := fixture.Start(t, redistest.Options{Password: "s3cret"})
	rdb := closed(t, redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "s3cret"}))
	made, err := lockgoredis.New(rdb, lock.Config{})
	requireSame(t, rdb, used(t, made, err))

	made, err = lockgoredis.Open(&redis.UniversalOptions{Addrs: []string{s.Addr()}, Password: "s3cre7-wrong"}, lock.Config{})
	_, err = used(t, made, err).Mutex("m").TryLock(bounded.Context(t))
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "s3cre7")
}

// TestAProviderThatFails: the error of the call has the provider's error.
func TestAProviderThatFails(t *testing.T) {
	s := fixture.Server(t)
	for _, o := range []*redis.UniversalOptions{
		{StreamingCredentialsProvider: failing{errors.New("the vault is sealed")}},
		{CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", errors.New("the vault is sealed") }},
		{StreamingCredentialsProvider: failing{}},
	} {
		o.Addrs = []string{s.Addr()}
		made, err := lockgoredis.Open(o, lock.Config{})
		c := used(t, made, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = c.Mutex("m").TryLock(ctx)
		cancel()
		require.ErrorContains(t, err, "no credentials for the connection: the ")
	}
}

// failing is a provider that has nothing.
type failing struct{ err error }

func (f failing) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return nil, nil, f.err
}
