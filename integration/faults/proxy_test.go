package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func renewSHA() string { return script.Renew.SHA() }

// proxied is a proxy before a server.
func proxied(t *testing.T) (*proxy, func() redis.Conn) {
	t.Helper()
	s, err := redistest.Start(context.Background(), redistest.Options{})
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	p, err := newProxy(s)
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p, func() redis.Conn {
		c, err := redis.Dial("tcp", p.addr(), redis.DialReadTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

func TestProxyDeliversLateWhatAHoleHeldBack(t *testing.T) {
	p, dial := proxied(t)
	c := dial()
	_, err := c.Do("PING")
	require.NoError(t, err)
	p.requests.set(false)
	_, err = redis.DoWithTimeout(c, 200*time.Millisecond, "SET", "late", 1)
	require.Error(t, err, "a hole answers nothing")
	_ = c.Close()
	p.heal()
	other := dial()
	require.Eventually(t, func() bool {
		n, err := redis.Int(other.Do("EXISTS", "late"))
		return err == nil && n == 1
	}, time.Minute, 10*time.Millisecond, "what was sent arrives, though the sender has left")
}

func TestProxyLosesRepliesOnly(t *testing.T) {
	p, dial := proxied(t)
	c := dial()
	_, err := c.Do("PING")
	require.NoError(t, err)
	p.replies.set(false)
	_, err = redis.DoWithTimeout(c, 200*time.Millisecond, "SET", "done", 1)
	require.Error(t, err)
	p.heal()
	n, err := redis.Int(dial().Do("EXISTS", "done"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestProxyCutsInMidReply(t *testing.T) {
	p, dial := proxied(t)
	c := dial()
	p.cuts.Store(1)
	_, err := c.Do("PING")
	require.Error(t, err)
	require.EqualValues(t, 1, p.cutsDone.Load())
	_, err = dial().Do("PING")
	require.NoError(t, err)
}

func TestProxyResetsSubscribersAlone(t *testing.T) {
	p, dial := proxied(t)
	sub := redis.PubSubConn{Conn: dial()}
	require.NoError(t, sub.Subscribe("channel"))
	require.IsType(t, redis.Subscription{}, sub.Receive())
	c := dial()
	_, err := c.Do("PING")
	require.NoError(t, err)
	require.Equal(t, 1, p.reset(true))
	require.Eventually(t, func() bool { return p.open() == 1 }, time.Minute, 10*time.Millisecond)
	_, err = c.Do("PING")
	require.NoError(t, err)
}
