package servers_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen: each of a client's connections
// finds it out, and a virtual machine's clock may jump every minute.
func TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, false)
		f.follow()
		f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
		synctest.Wait() // the address is known
		s := f.router.Server("any")
		told := func() int { return strings.Count(f.logged(), "clock was set") }
		for range 60 {
			s.Timed(pipe.Clock{}, time.Hour)
			s.Timed(pipe.Clock{}, -time.Hour)
			time.Sleep(9 * time.Second)
		}
		require.Equal(t, 1, told())
		time.Sleep(time.Minute)
		s.Timed(pipe.Clock{}, time.Hour)
		require.Equal(t, 2, told())
		f.close()
	})
}

// clocked is a connection to a server whose clock is ahead.
type clocked struct {
	redis.ConnWithTimeout
	ahead time.Duration
	asked bool // the last command was TIME
}

func (c *clocked) Send(command string, args ...any) error {
	c.asked = command == "TIME"
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *clocked) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if now := time.Now().Add(c.ahead); c.asked && err == nil {
		reply = []any{[]byte(strconv.FormatInt(now.Unix(), 10)), []byte(strconv.Itoa(now.Nanosecond() / 1000))}
	}
	return reply, err
}

// TestANewConnectionKnowsTheClockOfNow, and not an earlier estimate of another connection. A request
// with a limit on an old clock may be carried out long after its caller has given it up.
func TestANewConnectionKnowsTheClockOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Stop()) }()
		var ahead time.Duration
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			conn, err := server.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return &clocked{ConnWithTimeout: conn.(redis.ConnWithTimeout), ahead: ahead}, nil
		}}
		f.build1(t)
		defer f.close()
		s := f.router.Server("any")
		for _, ahead = range []time.Duration{0, time.Hour, -time.Hour} {
			c, err := s.DialTimed(t.Context(), dialing.NewBound(1))
			require.NoError(t, err)
			got, _, ok := c.Clock.Offset()
			require.True(t, ok)
			require.InDelta(t, ahead, got, float64(time.Second))
			require.NoError(t, c.Conn.Close())
		}
	})
}
