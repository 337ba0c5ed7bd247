package world_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
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
)

func TestPasswordAndDatabaseOfThePoolsDialAreUsed(t *testing.T) {
	onRedis(t)
	s := fixture.Start(t, redistest.Options{Password: "secret"})
	dial := func(opts ...redis.DialOption) *redis.Pool {
		return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial(s.Network(), s.Addr(), opts...) }}
	}
	ctx := bounded.Context(t)
	c, err := lock.New(dial(redis.DialPassword("secret"), redis.DialDatabase(3)), lock.Config{})
	require.NoError(t, err)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	conn, err := dial(redis.DialPassword("secret"), redis.DialDatabase(3)).Dial()
	require.NoError(t, err)
	defer conn.Close()
	n, err := redis.Int(conn.Do("EXISTS", "m"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, c.Close(ctx))

	for _, wrong := range []*redis.Pool{dial(), dial(redis.DialPassword("wrong"))} {
		c, err := lock.New(wrong, lock.Config{})
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(ctx)
		require.Error(t, err)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.Regexp(t, "NOAUTH|WRONGPASS", err.Error())
		fixture.CloseNow(c)
	}
}

// TestWhoHasNotLoggedInIsToldSo: every call returns the same error, although a server that wants a
// password has another error text for requests with many arguments.
func TestWhoHasNotLoggedInIsToldSo(t *testing.T) {
	onRedis(t)
	s := fixture.Start(t, redistest.Options{Password: "secret"})
	for _, replicas := range []int{0, 1} {
		var log fixture.Log
		c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, s.Network(), s.Addr())
		}}, lock.Config{Replicas: replicas, Logger: log.Logger()})
		asks := map[string]func(context.Context) error{
			"semaphore": func(ctx context.Context) error { return c.Semaphore("semaphore").Acquire(ctx, 1) },
			"latch":     c.CountDownLatch("latch").Wait,
			"permits": func(ctx context.Context) error {
				_, err := c.PermitSemaphore("permits").Acquire(ctx, 1)
				return err
			},
		}
		for kind, mu := range fixture.MutexKinds(c, "m") {
			asks[kind] = func(ctx context.Context) error {
				_, err := mu.Lock(ctx)
				return err
			}
			asks[kind+" force"] = func(ctx context.Context) error {
				_, err := mu.ForceUnlock(ctx)
				return err
			}
		}
		for kind, ask := range asks {
			err := ask(bounded.Context(t)) // Lock does not wait for a password
			require.ErrorContains(t, err, "Redis refused: NOAUTH Authentication required.: log in: ", kind)
			require.ErrorContains(t, err, "redis://:password@host", kind)
			require.ErrorContains(t, err, "redis.DialPassword", kind)
			require.NotErrorIs(t, err, lock.ErrUnknown, kind)
		}
		fixture.CloseNow(c) // all is logged
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), "lock: no connection to Redis")
		require.NotContains(t, log.String(), "connected to Redis again")
	}
}

func TestALockIsRenewedOverTLS(t *testing.T) {
	s := onRedis(t)
	cert, roots := selfSigned(t)
	p := fixture.TLSProxy(t, s, &tls.Config{Certificates: []tls.Certificate{cert}})
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", p.Addr(), redis.DialUseTLS(true),
			redis.DialTLSConfig(&tls.Config{RootCAs: roots, ServerName: "localhost"}))
	}}
	c, err := lock.New(pool, lock.Config{Lease: time.Second})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	bounded.Until(t, func() bool {
		require.NoError(t, held.Err())
		return c.Stats().Renewal.Renewed > 0
	})
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
}

// selfSigned makes a certificate for localhost and the pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestAnExhaustedOrClosedPoolDoesNotHinderTheEngine(t *testing.T) {
	s := onRedis(t)
	pool := s.Pool(6)
	pool.Wait = false
	var taken []redis.Conn
	for range 6 {
		taken = append(taken, pool.Get())
	}
	c, err := lock.New(pool, lock.Config{Lease: time.Second})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err, "the engine dials beside the pool")
	for _, conn := range taken {
		require.NoError(t, conn.Close())
	}
	require.NoError(t, pool.Close())
	bounded.Until(t, func() bool {
		require.NoError(t, held.Err())
		return c.Stats().Renewal.Renewed > 0
	})
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
}

// TestAPoolThatIsClosedAlreadyIsDialledAllTheSame: redigo does not tell whether a pool is closed, and the
// client uses only its dial function.
func TestAPoolThatIsClosedAlreadyIsDialledAllTheSame(t *testing.T) {
	s := onRedis(t)
	for _, maxActive := range []int{0, 8} { // without and with Wait's channel
		pool := s.Pool(maxActive)
		require.NoError(t, pool.Close())
		c, err := lock.New(pool, lock.Config{})
		require.NoError(t, err)
		held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
		require.NoError(t, held.Unlock(bounded.Context(t)))
		require.NoError(t, c.Close(bounded.Context(t)))
	}
}

// closeNotifier is a connection that tells the test when the client closes it.
type closeNotifier struct {
	redis.ConnWithTimeout
	once   *sync.Once
	closed chan struct{}
}

func (c closeNotifier) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.ConnWithTimeout.Close()
}

func TestAConnectionThatClosedWhileIdleIsNotUsedAgain(t *testing.T) {
	s := onRedis(t)
	type dialled struct {
		closeNotifier
		addr string
	}
	conns := make(chan dialled, 16)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		var addr string
		conn, err := s.DialContext(ctx, redis.DialContextFunc(func(ctx context.Context, network, to string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, to)
			if err == nil {
				addr = conn.LocalAddr().String()
			}
			return conn, err
		}))
		if err != nil {
			return nil, err
		}
		c := closeNotifier{conn.(redis.ConnWithTimeout), new(sync.Once), make(chan struct{})}
		conns <- dialled{c, addr}
		return c, nil
	}}
	c := fixture.Client(t, pool, lock.Config{Connections: 1})
	ctx := bounded.Context(t)
	for range 3 {
		held, err := c.Mutex(t.Name()).TryLockFor(ctx, time.Minute) // renewal dials a connection of its own
		require.NoError(t, err, "the first request on a new connection")
		require.NoError(t, held.Unlock(ctx))
		conn := bounded.Receive(t, conns)
		fixture.Do(t, s, "CLIENT", "KILL", "ADDR", conn.addr)
		bounded.Receive(t, conn.closed)
	}
}

// TestAServerThatEndsIdleConnectionsCostsNoRenewal: each connection for renewal is idle for longer
// than the server allows.
func TestAServerThatEndsIdleConnectionsCostsNoRenewal(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t, "--timeout", "1")
	c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second}) // renewed each 3 s
	for i := range 100 {
		_, err := c.Mutex(fmt.Sprint("idle ", i)).Lock(t.Context())
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= 300 }, time.Minute, 50*time.Millisecond)
	require.Zero(t, c.Stats().Renewal.Failed)
	require.Equal(t, 100, c.Stats().Held)
}
