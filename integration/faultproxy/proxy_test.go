package faultproxy_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxied returns a proxy before a server, and a function that dials it.
func proxied(t *testing.T, decide func(faultproxy.Command) faultproxy.Fate) (*faultproxy.Proxy, func() redis.Conn) {
	t.Helper()
	p := fixture.Proxy(t, fixture.Server(t), decide)
	return p, func() redis.Conn {
		c, err := redis.Dial("tcp", p.Addr(), redis.DialReadTimeout(10*time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// greeted returns a connection that has got an answer.
func greeted(t *testing.T, dial func() redis.Conn) redis.Conn {
	t.Helper()
	c := dial()
	_, err := c.Do("PING")
	require.NoError(t, err)
	return c
}

func exists(t *testing.T, c redis.Conn, key string) bool {
	t.Helper()
	n, err := redis.Int(c.Do("EXISTS", key))
	require.NoError(t, err)
	return n == 1
}

const short = 200 * time.Millisecond

func TestWhatAHoleHeldBackArrivesLate(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, nil)
	c := greeted(t, dial)
	p.SetRequests(faultproxy.Hold)
	_, err := redis.DoWithTimeout(c, short, "SET", "late", 1)
	require.Error(t, err, "a hole answers nothing")
	_ = c.Close()
	p.Heal()
	other := dial()
	require.Eventually(t, func() bool { return exists(t, other, "late") }, time.Minute, 10*time.Millisecond,
		"what was sent arrives, though the sender has left")
}

func TestRepliesAloneAreHeldBackOrLost(t *testing.T) {
	t.Parallel()
	for name, traffic := range map[string]faultproxy.Traffic{"held back": faultproxy.Hold, "lost": faultproxy.Lose} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dial := proxied(t, nil)
			c := greeted(t, dial)
			p.SetReplies(traffic)
			_, err := redis.DoWithTimeout(c, short, "SET", "done", 1)
			require.Error(t, err)
			p.Heal()
			require.True(t, exists(t, greeted(t, dial), "done"))
		})
	}
}

func TestNothingPassesABlackHole(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, nil)
	c := greeted(t, dial)
	p.BlackHole()
	require.NoError(t, c.Send("SET", "lost", 1))
	_, err := redis.DoWithTimeout(c, short, "GET", "lost")
	require.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err = p.Dial(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	p.Heal()
	require.False(t, exists(t, greeted(t, dial), "lost"))
}

func TestAMessageComesFromTheServerOrTheProxy(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, nil)
	sub := redis.PubSubConn{Conn: dial()}
	require.NoError(t, sub.Subscribe("channel"))
	require.IsType(t, redis.Subscription{}, sub.Receive())
	c := greeted(t, dial)
	_, err := c.Do("PUBLISH", "channel", "from the server")
	require.NoError(t, err)
	require.Equal(t, redis.Message{Channel: "channel", Data: []byte("from the server")}, sub.Receive())
	p.Publish(faultproxy.Bulks("message", "channel", "from the proxy"))
	require.Equal(t, redis.Message{Channel: "channel", Data: []byte("from the proxy")}, sub.Receive())
	require.Equal(t, 1, p.Subscribers())
}

// TestAFateMeetsItsCommandAlone: the answers of a pipeline stay in order.
func TestAFateMeetsItsCommandAlone(t *testing.T) {
	t.Parallel()
	fates := map[string]faultproxy.Fate{
		"request": faultproxy.LoseRequest, "reply": faultproxy.LoseReply, "twice": faultproxy.Twice, "hang up": faultproxy.HangUp,
		"answer": faultproxy.Answer(int64(42)), "mangle": faultproxy.Mangle("odd"), "late": faultproxy.Late(10 * time.Millisecond),
	}
	_, dial := proxied(t, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] != "INCR" {
			return faultproxy.Pass
		}
		return fates[c.Args[1]]
	})
	for key, want := range map[string]struct {
		reply any // nil: no reply comes, neither to this command nor to later ones
		count int // the number at the key in the end
	}{
		"request": {nil, 0}, "reply": {nil, 1}, "twice": {int64(2), 2}, "hang up": {nil, 0},
		"answer": {int64(42), 0}, "mangle": {"odd", 1}, "late": {nil, 1},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			c := dial()
			require.NoError(t, c.Send("ECHO", "before"))
			require.NoError(t, c.Send("INCR", key))
			require.NoError(t, c.Send("ECHO", "after"))
			require.NoError(t, c.Flush())
			receive := func() (any, error) { return redis.ReceiveWithTimeout(c, 5*time.Second) }
			reply, err := receive()
			require.NoError(t, err)
			require.Equal(t, []byte("before"), reply)
			if want.reply == nil {
				_, err := redis.ReceiveWithTimeout(c, short)
				require.Error(t, err)
			} else {
				reply, err := receive()
				require.NoError(t, err)
				require.Equal(t, want.reply, reply)
				reply, err = receive()
				require.NoError(t, err)
				require.Equal(t, []byte("after"), reply)
			}
			other := dial()
			require.Eventually(t, func() bool {
				n, err := redis.Int(other.Do("GET", key))
				return n == want.count && (err == nil || want.count == 0)
			}, time.Minute, time.Millisecond)
		})
	}
}

func TestAScriptThatIsKeptBackArrivesThoughItsClientHasGone(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, nil)
	call := setSemaphore("kept")
	p.HoldBack("semaphore_set")
	c := greeted(t, dial)
	_, err := redis.DoWithTimeout(c, short, "EVAL", call...)
	require.Error(t, err)
	require.Equal(t, 1, p.Arrived("semaphore_set"))
	p.HangUp(0)
	_, err = redis.DoWithTimeout(c, 5*time.Second, "PING")
	require.Error(t, err)
	other := greeted(t, dial)
	require.False(t, exists(t, other, "kept"))
	require.False(t, p.HasSettled())
	p.LetThrough()
	require.Eventually(t, p.HasSettled, time.Minute, time.Millisecond)
	require.True(t, exists(t, other, "kept"))
}

func TestOneFlowIsHeldBackWhileOthersLive(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, nil)
	other, one := greeted(t, dial), greeted(t, dial)
	p.HoldFlowOf("semaphore_set")
	_, err := one.Do("PING")
	require.NoError(t, err)
	require.Zero(t, p.CountHeldFlows())
	_, err = redis.DoWithTimeout(one, short, "EVAL", setSemaphore("flow")...)
	require.Error(t, err)
	require.Equal(t, 1, p.CountHeldFlows())
	_ = one.Close() // its error is the timeout of the read
	require.False(t, exists(t, other, "flow"))
	_, err = other.Do("EVAL", setSemaphore("another")...)
	require.NoError(t, err, "only the first is held back")
	p.Heal()
	require.Zero(t, p.CountHeldFlows())
	require.Eventually(t, func() bool { return exists(t, other, "flow") }, time.Minute, time.Millisecond, "it arrives late, though its sender has gone")
}

func TestACommandThatWaitsForThreeCallsArrivesAfterThem(t *testing.T) {
	t.Parallel()
	p, dial := proxied(t, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "SET" {
			return faultproxy.AfterThree
		}
		return faultproxy.Pass
	})
	for _, key := range []string{"late", "later"} {
		_, err := redis.DoWithTimeout(dial(), short, "SET", key, 1)
		require.Error(t, err)
		c := dial()
		for i := range 3 {
			require.False(t, exists(t, c, key))
			if key == "later" {
				break
			}
			_, err = c.Do("EVAL", setSemaphore(fmt.Sprint("permits", i))...)
			require.NoError(t, err)
		}
		require.True(t, key == "late" || p.SendLate(), "it does not wait for those that do not come")
		require.True(t, exists(t, c, key))
	}
	total, of := p.Faults()
	require.Equal(t, 2, total)
	require.Equal(t, map[string]int{": after three calls": 2}, of)
}

// setSemaphore are the arguments of EVAL that give a semaphore permits.
func setSemaphore(key string) []any {
	return []any{script.SemaphoreSet.Text(), 2, key, key + ":result", 3, "channel", 1000, 0}
}

// TestAConnectionThatIsBeingMadeIsResetToo, because it may lead to a server that p does not use any more.
func TestAConnectionThatIsBeingMadeIsResetToo(t *testing.T) {
	s := fixture.Server(t)
	for name, end := range map[string]func(p *faultproxy.Proxy){
		"reset":  func(p *faultproxy.Proxy) { p.Reset() },
		"hangup": func(p *faultproxy.Proxy) { p.HangUp(0) },
	} {
		t.Run(name, func(t *testing.T) {
			p := fixture.Proxy(t, s, nil)
			dials, may := make(chan bool), make(chan bool)
			p.SetServer(func() (net.Conn, error) {
				dials <- true
				<-may
				return faultproxy.Before(s)()
			})
			c, err := redis.Dial("tcp", p.Addr(), redis.DialReadTimeout(10*time.Second))
			require.NoError(t, err)
			defer c.Close()
			<-dials
			end(p)
			may <- true
			_, err = c.Do("PING")
			require.Error(t, err)
		})
	}
}
