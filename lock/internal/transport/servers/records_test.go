package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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

// causes has how often a test repeats the cause of a record.
var causes = []int{1_000, 10_000}

// TestDoubtAboutAServerIsLogged, and the server is used.
func TestDoubtAboutAServerIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{dial: func(context.Context, string) (redis.Conn, error) { return nil, errDown }}
		f.build(t, false)
		f.follow()
		for range 100 {
			f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}, Warning: errors.New("two sentinels name b")}
		}
		synctest.Wait()
		require.Equal(t, "a", f.router.Server("any").Address())
		require.Equal(t, 1, strings.Count(f.logged(), "two sentinels name b"))
		f.close()
	})
}

// TestAConnectionThatComesAndGoesMakesFewRecords. The last record has the present state.
func TestAConnectionThatComesAndGoesMakesFewRecords(t *testing.T) {
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			redisServer, err := redistest.StartVirtual(redistest.MiniOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, redisServer.Stop()) }()
			down := false
			f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
				if down {
					return nil, errDown
				}
				return redisServer.DialContext(ctx)
			}}
			f.build(t, false)
			f.follow()
			f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
			synctest.Wait() // the address is known
			dial := func() {
				if dialed, err := f.router.Server("any").DialTimed(t.Context(), dialing.NewBound(1)); err == nil {
					require.NoError(t, dialed.Conn.Close())
				}
			}
			dial()
			before, began := len(f.logged()), time.Now()
			logged := func() (lost, again int) {
				text := f.logged()[before:]
				return strings.Count(text, "no connection to Redis"), strings.Count(text, "connected to Redis again")
			}
			for range n {
				down = true
				dial()
				down = false
				dial()
			}
			require.Less(t, time.Since(began), time.Minute)
			lost, again := logged()
			require.Equal(t, 5, lost, "of %d", n)
			require.Equal(t, 5, again, "each after one of the others")

			down = true
			dial()
			require.NotContains(t, last(f.logged()), "no connection")
			time.Sleep(time.Minute)
			dial()
			require.Contains(t, last(f.logged()), "no connection", "it is told late, not never")
			require.Contains(t, last(f.logged()), "suppressed=")
			f.close()
		})
	}
}

// last returns the last line of the log.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestAServerThatIsReplacedAgainAndAgainMakesFewRecords.
func TestAServerThatIsReplacedAgainAndAgainMakesFewRecords(t *testing.T) {
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			f := new(fixture).build(t, false)
			f.follow()
			for i := range n {
				f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: fmt.Sprint(i)}}}
			}
			f.close()
			require.Equal(t, 1, strings.Count(f.logged(), "the server was replaced"), "of %d", n)
		})
	}
}

// TestServersWithEverNewNamesMakeFewRecords. The log does not keep every name, either.
func TestServersWithEverNewNamesMakeFewRecords(t *testing.T) {
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			f := new(fixture).build(t, false)
			f.follow()
			for i := range n {
				name := fmt.Sprint("server ", i)
				f.news <- topology.Layout{Servers: []topology.Server{{Name: name, Instance: name}}}
			}
			f.close()
			require.Equal(t, 100, strings.Count(f.logged(), "the server was replaced"), "of %d", n)
		})
	}
}

// TestAClusterThatIsFoundNowAndThenMakesFewRecords.
func TestAClusterThatIsFoundNowAndThenMakesFewRecords(t *testing.T) {
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			f := new(fixture).build(t, true)
			f.follow()
			for range n {
				f.news <- topology.Layout{Err: errors.New("nobody is there")}
			}
			f.close()
			require.Equal(t, 1, strings.Count(f.logged(), "no connection to Redis"), "of %d", n)
		})
	}
}

// TestAServerThatHangsNowAndThenMakesFewRecords. The last record has the present state.
func TestAServerThatHangsNowAndThenMakesFewRecords(t *testing.T) {
	for _, n := range causes {
		synctest.Test(t, func(t *testing.T) {
			f := &fixture{dial: func(context.Context, string) (redis.Conn, error) { return nil, errDown }}
			f.build(t, false)
			f.follow()
			f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
			synctest.Wait()
			s := f.router.Server("any")
			slow := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
			for i := range n {
				s.Failed([]error{pipe.ErrUnanswered, slow}[i%2])
				s.Failed(errDown) // no reason of its own
				s.Answered()
			}
			require.Equal(t, 1, strings.Count(f.logged(), "did not answer in time"))
			require.Equal(t, 1, strings.Count(f.logged(), "answers again"))
			s.Failed(slow)
			time.Sleep(time.Minute)
			s.Failed(slow)
			s.Failed(slow)
			require.Equal(t, 2, strings.Count(f.logged(), "did not answer in time"), "it is told late, not never")
			require.Contains(t, last(f.logged()), fmt.Sprintf("suppressed=%d", n))
			f.close()
		})
	}
}
