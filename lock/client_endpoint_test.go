package lock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// opened returns the client of an Endpoint, which the test closes.
func opened(t *testing.T, e lock.Endpoint, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := e.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	return c
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

// TestAPasswordThatChangesUnderAShortLease: all connections are closed after each change, and
// the hold goes on with the next password.
func TestAPasswordThatChangesUnderAShortLease(t *testing.T) {
	t.Parallel()
	fixture.Needs(t, redistest.ChannelRights)
	s := fixture.Server(t)
	r := &rotating{user: "app"}
	r.set(t, "s3cret-0", s)
	var log fixture.Log
	c := opened(t, lock.Endpoint{URL: "redis://" + s.Addr() + "?client_name=orders", Credentials: r.get}, lock.Config{Lease: 2 * time.Second, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.Contains(t, string(fixture.Do(t, s, "CLIENT", "LIST").([]byte)), " name=orders ")
	for i := range 3 {
		asked, renewed := r.asked.Load(), c.Stats().Renewal.Renewed
		r.set(t, fmt.Sprint("s3cret-", i+1), s)
		require.Positive(t, fixture.Int(t, s, "CLIENT", "KILL", "USER", "app"))
		bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed >= renewed+2 })
		require.NoError(t, held.Err())
		require.Greater(t, r.asked.Load(), asked, "each dial asks anew")
		fixture.Hold(t, c.Mutex(fmt.Sprint("m", i)).Lock)
	}
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.NotContains(t, log.String(), "s3cret")
}

// TestCredentialsThatFail: why is told, but not the password that came with it.
func TestCredentialsThatFail(t *testing.T) {
	s := fixture.Either(t)
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
	s := fixture.Either(t)
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

// TestTLSWithACertificateOfTheClient, and a hold that is renewed over it.
func TestTLSWithACertificateOfTheClient(t *testing.T) {
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
	require.True(t, fixture.NoAnswer(err), "the server asks for one, and may say so or close the connection: %v", err)
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

// TestANetDialOfOnesOwn is asked for each connection, with a context that ends.
func TestANetDialOfOnesOwn(t *testing.T) {
	s := fixture.Either(t)
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

// TestAFailoverUnderAHoldOfOpen: a URL of Sentinels that ask for a password, servers that ask
// for credentials which change, and one lock held all the time.
func TestAFailoverUnderAHoldOfOpen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a failover")
	}
	fixture.Needs(t, redistest.ChannelRights)
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
	err := fixture.Known(func() error {
		_, err := other.Mutex("m").TryLock(bounded.Context(t))
		return err
	})
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, fixture.Known(func() error { return held.Unlock(bounded.Context(t)) }))
}

// TestDialBoundsAnswers for a pool of a program's own.
func TestDialBoundsAnswers(t *testing.T) {
	s := fixture.Either(t)
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
