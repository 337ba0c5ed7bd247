package lock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// TestNewNamesAllFaultsAtOnce: faults of the settings, also of the settings that package renewal gets,
// and of the pool. The errors use the names of this package.
func TestNewNamesAllFaultsAtOnce(t *testing.T) {
	_, err := lock.New(nil, lock.Config{
		Lease: time.Millisecond, MaxPoll: -1, Connections: 65, KeyPrefix: "{",
		Margin: time.Hour, MaxHold: time.Millisecond, MaxBatch: 4097, Dispatchers: -1,
	})
	require.Error(t, err)
	for _, want := range []string{
		"Config.Lease is 1ms", "Config.MaxPoll is -1ns", "Config.Connections is 65", "Config.KeyPrefix",
		"Config.Margin is 1h0m0s: it must be from 20ms to Lease/4 = 7.5s", "Config.MaxHold is 1ms: it must be 0 (no limit) or at least Lease = 30s",
		"Config.MaxBatch is 4097: it must be from 1 to 4096", "Config.Dispatchers is -1: it must be from 1 to 1024", "needs a *redis.Pool",
	} {
		require.ErrorContains(t, err, want)
	}
	for line := range strings.Lines(err.Error()) {
		require.True(t, strings.HasPrefix(line, "lock: "), line)
		require.NotContains(t, line, "TTL")
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 9)

	_, err = lock.New(&redis.Pool{MaxActive: 4}, lock.Config{MaxBatch: -1})
	require.ErrorContains(t, err, "MaxBatch")
	require.ErrorContains(t, err, "the engine needs 5 connections")
	_, err = lock.NewTopology(nil, lock.Config{MaxBatch: -1})
	require.ErrorContains(t, err, "MaxBatch")
	require.ErrorContains(t, err, "needs a Topology")
}

// TestALongLeaseLeavesRoomForUnlockTimeout, whatever IOTimeout is within its bounds.
func TestALongLeaseLeavesRoomForUnlockTimeout(t *testing.T) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { panic("not dialled") }}
	cfg := lock.Config{Lease: lock.MaxLease, IOTimeout: time.Hour}
	c, err := lock.New(pool, cfg)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	cfg.IOTimeout = 2 * time.Hour
	_, err = lock.New(pool, cfg)
	require.EqualError(t, err, "lock: Config.IOTimeout is 2h0m0s: it must be from 1ms to 1h0m0s")
	cfg.Lease = time.Minute
	_, err = lock.New(pool, cfg)
	require.EqualError(t, err, "lock: Config.IOTimeout is 2h0m0s: it must be from 1ms to 6s")
}

// TestTheBoundsOfSettingsForRenewalAreTheWatchdogs, whatever the lease.
func TestTheBoundsOfSettingsForRenewalAreTheWatchdogs(t *testing.T) {
	for _, lease := range []time.Duration{lock.MinLease, 300 * time.Millisecond, time.Second, 30 * time.Second} {
		tick := min(max(lease/100, time.Millisecond), 10*time.Millisecond)
		for margin, fits := range map[time.Duration]bool{2*tick - 1: false, 2 * tick: true, lease / 4: true, lease/4 + 1: false} {
			c, err := lock.New(&redis.Pool{Dial: func() (redis.Conn, error) { panic("not dialled") }}, lock.Config{Lease: lease, Margin: margin})
			require.Equal(t, fits, err == nil, "lease %v, margin %v: %v", lease, margin, err)
			if fits {
				require.NoError(t, c.Close(t.Context()))
			} else {
				require.NotContains(t, err.Error(), "renewal:")
			}
		}
	}
}

// lockBy takes a lock through a client that Open makes, and returns its error.
func lockBy(t *testing.T, url, name string) error {
	t.Helper()
	c, err := lock.Open(url, lock.Config{Lease: 10 * time.Second})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, err := c.Mutex(name).TryLock(ctx)
	if err != nil {
		return err
	}
	return held.Unlock(ctx)
}

func TestOpenReachesTheServerOfItsURL(t *testing.T) {
	s := onRedis(t)
	require.NoError(t, lockBy(t, "redis://"+s.Addr(), t.Name()))

	// The lock is in the database of the URL.
	c, err := lock.Open("redis://"+s.Addr()+"/3?dial_timeout=2s&read_timeout=2s&write_timeout=500ms", lock.Config{})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	held, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.NoError(t, err)
	require.False(t, fixture.Exists(t, s, t.Name()))
	conn := fixture.Dial(t, s)
	_, err = conn.Do("SELECT", 3)
	require.NoError(t, err)
	n, err := conn.Do("EXISTS", t.Name())
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.NoError(t, held.Unlock(context.Background()))

	t.Run("users and passwords are percent-encoded", func(t *testing.T) {
		fixture.NeedAbilities(t, redistest.ChannelRights)
		fixture.Do(t, s, "ACL", "SETUSER", "u@ser", "on", ">p@ss:w/rd#", "~*", "&*", "+@all")
		defer fixture.Do(t, s, "ACL", "DELUSER", "u@ser")
		require.NoError(t, lockBy(t, fmt.Sprintf("redis://u%%40ser:p%%40ss%%3Aw%%2Frd%%23@%s/0", s.Addr()), t.Name()))
		require.ErrorContains(t, lockBy(t, fmt.Sprintf("redis://u%%40ser:wrong@%s/0", s.Addr()), t.Name()), "WRONGPASS")
	})

	unix := fixture.Start(t, redistest.Options{UnixSocket: true})
	require.NoError(t, lockBy(t, "unix://"+unix.Addr()+"?db=2", t.Name()))
}

func TestABadURLIsOneErrorThatNamesThePart(t *testing.T) {
	for url, says := range map[string]string{
		"":                                       "no scheme: the URL must begin with redis://, rediss://, unix://, redis-sentinel://",
		"localhost:6379":                         "no scheme",
		"http://localhost":                       "scheme is not known: the URL must begin with redis://",
		"redis:localhost":                        "must begin with redis://",
		"redis+sentinel://:s3cret@h/m":           `scheme is "redis+sentinel": write redis-sentinel://`,
		"redis-cluster://:s3cret@a,b":            "give it to cluster.Open, and give the Topology that cluster.Open returns to NewTopology",
		"redis-sentinel://:s3cret@a,b/0":         "add ?master=mymaster",
		"redis://:s3cret@host:port":              "a port that is no number from 1 to 65535",
		"redis://:s3cret@host:99999":             "a port that is no number from 1 to 65535",
		"redis://:s3cret@host:0":                 "a port that is no number from 1 to 65535",
		"redis://:s3cret#x@host":                 "percent-encode",
		"redis://host/0#s3cret":                  "fragment",
		"redis://s3cret@host":                    "user without a password",
		"redis://:@host":                         "password is empty",
		"redis://:s3cret@host/first":             "database must be a number",
		"redis://:s3cret@host/-1":                "database must be a number",
		"redis://:s3cret@host/1?db=2":            `option "db" more than once`,
		"redis://:s3cret@host?db=1&db=2":         `option "db" more than once`,
		"redis://:s3cret@host?timeout=1s":        `option "timeout" is not known: write dial_timeout`,
		"redis://:s3cret@host?s3cret=1":          "option of the URL is not known: the options are db, client_name, dial_timeout",
		"redis://:s3cret@host?dial_timeout=fast": "dial_timeout must be a time",
		"redis://:s3cret@host?read_timeout=-1s":  "read_timeout must be a time",
		"redis://a,b":                            "several hosts: write redis-sentinel://",
		"redis://:s3cret@a:1,b:2/0":              "several hosts",
		"redis://u:12/s3cret@host":               "/ as %2F",
		"redis://u:12?s3cret@host:6379/0":        "/ as %2F",
		"redis://u:12#s3cret@host":               "/ as %2F",
		"redis://u:12%s3cret@host":               "cannot be read",
		"unix://run/redis.sock":                  "three slashes",
		"unix://":                                "three slashes",
	} {
		c, err := lock.Open(url, lock.Config{})
		require.Nil(t, c, url)
		require.ErrorContains(t, err, says, url)
		require.ErrorContains(t, err, "lock: Open: ", url)
		require.NotContains(t, err.Error(), "s3cret", url)
		require.NotContains(t, err.Error(), "\n", url)
	}
	_, err := lock.Endpoint{URL: "redis://localhost", TLS: &tls.Config{}}.Open(lock.Config{})
	require.ErrorContains(t, err, "lock: Open: Endpoint.TLS is set, but")
	_, err = lock.Endpoint{URL: "redis://:p@localhost", Credentials: func(context.Context) (string, string, error) { return "", "", nil }}.Open(lock.Config{})
	require.ErrorContains(t, err, "lock: Open: Endpoint.Credentials is set and")
	_, err = lock.Open("redis://localhost", lock.Config{Lease: time.Millisecond})
	require.ErrorContains(t, err, "lock: Config.Lease is 1ms")
}

// TestNoErrorOfOpenHasThePassword: whatever characters the password has, no error of Open and
// no error of a dial has a piece of it. Errors of dials end in logs.
func TestNoErrorOfOpenHasThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Pieces that no text of ours has, between what URLs are made of.
		odd := rapid.StringMatching(`[/?#@:%&=;+, \[\]]{0,3}`)
		pieces := []string{"Zq17", "Xk93", "Wv58"}
		password := odd.Draw(t, "0")
		for i, piece := range pieces {
			password += piece + odd.Draw(t, fmt.Sprint(i+1))
		}
		if rapid.Bool().Draw(t, "encoded") {
			password = url.QueryEscape(password)
		}
		text := rapid.SampledFrom([]string{"redis://", "rediss://", "unix://", "redis-sentinel://", "redis-cluster://", "http://", "redis:", ""}).Draw(t, "scheme") +
			rapid.SampledFrom([]string{"", "app", "a%b", "1"}).Draw(t, "user") + ":" + password + "@" +
			rapid.SampledFrom([]string{"", "127.0.0.1:1", "host:port", "h,i:2", "/no/such.sock", "[::1"}).Draw(t, "host") +
			rapid.SampledFrom([]string{"", "/0", "/x", "?db=1", "?db=x", "?timeout=1", "/1?db=2", "#", "?master=m", "?master=m&sentinel_password=" + url.QueryEscape(password)}).Draw(t, "rest")
		client, err := lock.Open(text, lock.Config{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err = client.Mutex("m").TryLock(ctx)
			cancel()
			fixture.CloseNow(client)
		}
		if err == nil {
			t.Fatal("nothing answers there")
		}
		for _, piece := range pieces {
			if strings.Contains(err.Error(), piece) {
				t.Fatalf("%s: %v", text, err)
			}
		}
	})
}

// TestOpenDoesNotRepeatThePassword of a server that does: one that does not know AUTH says
// with which arguments it was called.
func TestOpenDoesNotRepeatThePassword(t *testing.T) {
	s := fixture.RedisOrMini(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if strings.EqualFold(c.Args[0], "AUTH") {
			return faultproxy.Answer(redis.Error(fmt.Sprintf("ERR unknown command 'AUTH', with args beginning with: '%s' '%s' ", c.Args[1], c.Args[len(c.Args)-1])))
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c, err := lock.Open("redis://app:s3cret@"+p.Addr(), lock.Config{Logger: log.Logger(), FailFast: true})
	require.NoError(t, err)
	log.Flush = lock.FlushLog(c)
	defer fixture.CloseNow(c)
	_, err = c.Mutex("m").Lock(bounded.Context(t))
	require.ErrorContains(t, err, "refuses to log in")
	require.NotContains(t, err.Error(), "s3cret")
	require.NotContains(t, log.String(), "s3cret")
	require.Contains(t, log.String(), "no connection to Redis")
	err = c.Check(bounded.Context(t))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

// rotating are credentials that change. asked counts how often they were asked for.
type rotating struct {
	user     string
	password atomic.Pointer[string]
	asked    atomic.Int64
}

func (r *rotating) get(context.Context) (string, string, error) {
	r.asked.Add(1)
	return r.user, *r.password.Load(), nil
}

// set makes servers and r change to another password.
func (r *rotating) set(t *testing.T, password string, servers ...*redistest.Server) {
	t.Helper()
	r.password.Store(&password)
	for _, s := range servers {
		fixture.Do(t, s, "ACL", "SETUSER", r.user, "reset", "on", ">"+password, "allkeys", "allchannels", "+@all")
	}
}

// TestAPasswordThatChangesUnderAShortLeaseLosesNoHold: all connections are closed after each change, and
// the hold goes on with the next password.
func TestAPasswordThatChangesUnderAShortLeaseLosesNoHold(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	r := &rotating{user: "app"}
	r.set(t, "s3cret-0", s)
	var log fixture.Log
	c := opened(t, lock.Endpoint{URL: "redis://" + s.Addr() + "?client_name=orders", Credentials: r.get}, lock.Config{Lease: 6 * time.Second, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.Contains(t, string(fixture.Do(t, s, "CLIENT", "LIST").([]byte)), " name=orders ")
	for i := range 3 {
		r.set(t, fmt.Sprint("s3cret-", i+1), s)
		asked := r.asked.Load()
		require.Positive(t, fixture.Int(t, s, "CLIENT", "KILL", "USER", "app"))
		renewed := c.Stats().Renewal.Renewed
		// Each dial asks anew.
		bounded.Until(t, func() bool {
			return held.Err() != nil || r.asked.Load() > asked && c.Stats().Renewal.Renewed > renewed
		})
		require.NoError(t, held.Err())
		fixture.Hold(t, c.Mutex(fmt.Sprint("m", i)).Lock)
	}
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.NotContains(t, log.String(), "s3cret")
}

func TestCredentialsThatFailSayWhyWithoutThePassword(t *testing.T) {
	s := fixture.RedisOrMini(t)
	c := opened(t, lock.Endpoint{URL: "redis://" + s.Addr(), Credentials: func(context.Context) (string, string, error) {
		return "app", "s3cret", errors.New("the vault is sealed")
	}}, lock.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Mutex("m").TryLock(ctx)
	require.ErrorContains(t, err, "no credentials for the connection: the vault is sealed")
	c = opened(t, lock.Endpoint{URL: "redis://" + s.Addr(), Credentials: func(context.Context) (string, string, error) {
		return "app", "s3cret", errors.New("the vault says s3cret")
	}}, lock.Config{})
	_, err = c.Mutex("m").TryLock(ctx)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

// TestNoErrorHasThePasswordOfCredentials, though the server repeats it.
func TestNoErrorHasThePasswordOfCredentials(t *testing.T) {
	s := fixture.RedisOrMini(t)
	for _, form := range []string{"ERR unknown command 'AUTH', with args beginning with: '%s' '%s' ", "OOPS %s, your password is %s", "-%s:%s"} {
		p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
			if strings.EqualFold(c.Args[0], "AUTH") {
				return faultproxy.Answer(redis.Error(fmt.Sprintf(form, c.Args[1], c.Args[len(c.Args)-1])))
			}
			return faultproxy.Pass
		})
		var log fixture.Log
		c := opened(t, lock.Endpoint{URL: "redis://" + p.Addr(), Credentials: func(context.Context) (string, string, error) { return "app", "s3cret", nil }},
			lock.Config{Logger: log.Logger(), FailFast: true})
		log.Flush = lock.FlushLog(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := c.Mutex("m").TryLock(ctx)
		cancel()
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotContains(t, log.String(), "s3cret")
	}
}

func TestAHoldIsRenewedOverTLSWithACertificateOfTheClient(t *testing.T) {
	t.Parallel()
	s := fixture.Secure(t)
	url := "rediss://" + s.SecureAddr + "/1"
	c := opened(t, lock.Endpoint{URL: url, TLS: s.Client}, lock.Config{Lease: 3 * time.Second}) // on a busy machine too
	held := fixture.Hold(t, c.Mutex("m").Lock)
	fixture.AwaitRenewed(t, c, 2)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Empty(t, s.Client.ServerName, "it is the caller's")

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := opened(t, lock.Endpoint{URL: url, TLS: &tls.Config{RootCAs: s.Client.RootCAs}}, lock.Config{}).Mutex("m").TryLock(ctx)
	require.True(t, fixture.IsNoAnswer(err), "the server asks for one, and may say so or close the connection: %v", err)
	_, err = opened(t, lock.Endpoint{URL: url}, lock.Config{}).Mutex("m").TryLock(ctx)
	require.ErrorContains(t, err, "certificate", "its authority is not known")
}

// TestACertificateThatIsNotAcceptedEndsLock: waiting does not help, as with a wrong password.
func TestACertificateThatIsNotAcceptedEndsLock(t *testing.T) {
	s := fixture.Secure(t)
	for name, e := range map[string]lock.Endpoint{
		"nobody knows who signed it": {URL: "rediss://" + s.SecureAddr},
		"it is another server's":     {URL: "rediss://" + s.SecureAddr, TLS: &tls.Config{RootCAs: s.Client.RootCAs, ServerName: "redis.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := bounded.Context(t)
			c := opened(t, e, lock.Config{})
			_, err := c.Mutex("m").Lock(ctx)
			require.NoError(t, ctx.Err())
			require.ErrorContains(t, err, `acquire of "m"`)
			require.ErrorContains(t, err, "certificate is not accepted")
			require.ErrorContains(t, err, "Endpoint.TLS")
			require.NotErrorIs(t, err, lock.ErrUnknown, "nothing was sent")
			var bad *tls.CertificateVerificationError
			require.ErrorAs(t, err, &bad)
			_, err = c.FairMutex("f").Lock(ctx)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			_, err = c.PermitSemaphore("p").Acquire(ctx, 1)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			require.NoError(t, ctx.Err())
		})
	}
}

// TestANetDialOfOnesOwnIsAskedForEachConnection, with a context that ends.
func TestANetDialOfOnesOwnIsAskedForEachConnection(t *testing.T) {
	s := fixture.RedisOrMini(t)
	var dials atomic.Int64
	c := opened(t, lock.Endpoint{URL: "redis://redis.example:1/0?dial_timeout=4s", NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		if _, limited := ctx.Deadline(); !limited || network != "tcp" || address != "redis.example:1" {
			return nil, fmt.Errorf("asked for %s %s, limited: %v", network, address, limited)
		}
		return new(net.Dialer).DialContext(ctx, s.Network(), s.Addr())
	}}, lock.Config{})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Positive(t, dials.Load())

	for _, none := range []net.Conn{nil, (*net.TCPConn)(nil), (*tls.Conn)(nil)} {
		c = opened(t, lock.Endpoint{URL: "redis://h", NetDial: func(context.Context, string, string) (net.Conn, error) { return none, nil }}, lock.Config{})
		_, err := c.Mutex("m").TryLock(bounded.Context(t))
		require.ErrorContains(t, err, "neither a connection nor an error")
	}
}

// TestAHoldOfOpenOutlivesAFailover: a URL of Sentinels that ask for a password, servers that ask
// for credentials which change, and one lock held all the time.
func TestAHoldOfOpenOutlivesAFailover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a failover")
	}
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	r := &rotating{user: "app"}
	r.set(t, "first", rs.Servers...)
	for _, s := range rs.Sentinels {
		fixture.Do(t, s, "ACL", "SETUSER", "watcher", "on", ">w@tch", "allchannels", "+@all")
		fixture.Do(t, s, "ACL", "SETUSER", "default", "off")
	}
	var dialled sync.Map
	c := opened(t, lock.Endpoint{
		URL:         "redis-sentinel://" + strings.Join(rs.Addrs(), ",") + "/0?master=" + rs.Name + "&sentinel_user=watcher&sentinel_password=w%40tch",
		Credentials: r.get,
		NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Store(address, true)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}, lock.Config{Lease: 30 * time.Second, IOTimeout: time.Second})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	for _, s := range []*redistest.Server{rs.Servers[0], rs.Sentinels[0]} {
		_, ok := dialled.Load(s.Addr())
		require.True(t, ok, "NetDial is asked for servers and sentinels")
	}
	for _, replica := range rs.Servers[1:] {
		bounded.Until(t, func() bool { return fixture.Exists(t, replica, "m") })
	}
	r.set(t, "second", rs.Servers...)
	renewed := c.Stats().Renewal.Renewed
	require.NoError(t, rs.Servers[0].Kill())
	bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed > renewed })
	require.NoError(t, held.Err())
	other := opened(t, lock.Endpoint{URL: "redis-sentinel://app:second@" + rs.Addrs()[0] + "?master=" + rs.Name + "&sentinel_user=watcher&sentinel_password=w%40tch"}, lock.Config{})
	err := fixture.RetryUntilKnown(func() error {
		_, err := other.Mutex("m").TryLock(bounded.Context(t))
		return err
	})
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(bounded.Context(t)) }))
}

// TestDialBoundsAnswers for a pool of a program's own.
func TestDialBoundsAnswers(t *testing.T) {
	s := fixture.RedisOrMini(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if strings.EqualFold(c.Args[0], "AUTH") {
			return faultproxy.Answer(redis.Error("ERR unknown command 'AUTH', with args beginning with: '" + c.Args[1] + "'"))
		}
		return faultproxy.Pass
	})
	_, err := lock.Dial(t.Context(), "tcp", p.Addr(), redis.DialPassword("s3cret"))
	require.ErrorContains(t, err, "refuses to log in")
	require.NotContains(t, err.Error(), "s3cret")
	c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return lock.Dial(ctx, s.Network(), s.Addr())
	}}, lock.Config{})
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestNewWithoutAPoolOrATopologyIsRefused(t *testing.T) {
	_, err := lock.New(nil, lock.Config{})
	require.ErrorContains(t, err, "lock: New needs a *redis.Pool, got nil")
	_, err = lock.NewTopology(nil, lock.Config{})
	require.ErrorContains(t, err, "lock: NewTopology needs a Topology, got nil")
}
