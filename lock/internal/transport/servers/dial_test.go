package servers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
)

// build1 is build without slots, with one server that is known.
func (f *fixture) build1(t *testing.T) {
	f.build(t, false)
	go f.instance("1")
}

func (f *fixture) instance(instance string) {
	f.news <- topology.Layout{Servers: []topology.Server{{Name: "host", Instance: instance}}}
}

// TestADialHasItsOwnLimit, which is longer than the limit of a round trip.
func TestADialHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Stop()) }()
		var dials atomic.Int32
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			takes := 3 * timeout
			if dials.Add(1) == 1 {
				takes = time.Hour
			}
			select {
			case <-time.After(takes):
				return s.DialContext(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		f.build1(t)
		defer f.close()
		began := time.Now()
		require.ErrorIs(t, f.ask(t.Context(), "any"), context.DeadlineExceeded)
		require.Equal(t, dialTimeout, time.Since(began))
		require.NoError(t, f.ask(t.Context(), "any"))
	})
}

// TestAServerThatAnswersNothingEndsADialAfterARoundTrip.
func TestAServerThatAnswersNothingEndsADialAfterARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{dial: func(context.Context, string) (redis.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return redis.NewConn(client, 0, 0), nil
		}}
		f.build1(t)
		defer f.close()
		began := time.Now()
		require.Error(t, f.ask(t.Context(), "any")) // of the context or of the connection
		require.Equal(t, timeout, time.Since(began))
	})
}

// TestADialEndsWhenItsServerIsReplaced, so that the new one is dialled at once.
func TestADialEndsWhenItsServerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		f.build1(t)
		defer f.close()
		began := time.Now()
		go func() {
			time.Sleep(timeout / 2)
			f.instance("2")
		}()
		for range 2 { // the second dial is to the new server, and is not ended
			_, _, err := f.router.Server("any").Dial(t.Context(), dialing.NewBound(1))
			if time.Since(began) == timeout/2 {
				require.ErrorIs(t, err, pipe.ErrReplaced)
				require.NotErrorIs(t, err, context.Canceled)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, timeout/2+dialTimeout, time.Since(began))
			}
		}
		require.Regexp(t, `(?s)new=host.*no connection to Redis.*$`, f.logged())
	})
}

// TestNoServerIsDialledBeforeALayoutNamesIt, because a connection to another server would be kept: the
// first name is no change. Layouts that are errors name none.
func TestNoServerIsDialledBeforeALayoutNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Stop()) }()
		var dials atomic.Int32
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			dials.Add(1)
			return s.DialContext(ctx)
		}}
		f.build(t, false)
		defer f.close()
		asked := make(chan error)
		ask := func() { asked <- f.ask(t.Context(), "any") }
		go ask()
		hint := <-f.hints
		f.news <- topology.Layout{Err: errDown}
		for range 3 {
			<-hint // the Topology is to look again now
			synctest.Wait()
			require.Empty(t, asked)
			f.news <- topology.Layout{Err: errDown}
			require.ErrorIs(t, <-asked, errDown)
			time.Sleep(timeout) // longer than a pause between dials
			for len(hint) > 0 {
				<-hint // of the failure
			}
			go ask()
		}
		<-hint
		synctest.Wait()
		require.Zero(t, dials.Load())
		f.instance("1")
		require.NoError(t, <-asked)
		require.Positive(t, dials.Load())
		named := f.router.Server("any")
		require.Zero(t, named.Epoch())
		f.instance("2")
		synctest.Wait()
		require.Equal(t, uint32(1), named.Epoch())
		require.Equal(t, []string{"opened", "replaced"}, f.takeEvents())
	})
}

// TestADialWithoutALayoutEndsInTime, and when the user closes.
func TestADialWithoutALayoutEndsInTime(t *testing.T) {
	for name, test := range map[string]struct {
		first   bool // a Layout that is an error comes
		closing time.Duration
		takes   time.Duration
		err     error
	}{
		"nothing is heard":               {false, 0, dialTimeout, servers.ErrNoServer},
		"nothing more is heard":          {true, 0, dialTimeout, errDown},
		"the user closes":                {false, timeout, timeout, servers.ErrNoServer},
		"the user closes after an error": {true, timeout, timeout, errDown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := new(fixture).build(t, false)
				defer f.close()
				if test.first {
					go func() { f.news <- topology.Layout{Err: errDown} }()
				}
				if test.closing > 0 {
					time.AfterFunc(test.closing, func() { close(f.closing) })
				}
				began := time.Now()
				_, _, err := f.router.Server("any").Dial(t.Context(), dialing.NewBound(1))
				require.Equal(t, test.takes, time.Since(began))
				require.Error(t, err)
				if !errors.Is(err, context.DeadlineExceeded) { // the Bound may tell it first
					require.ErrorIs(t, err, test.err)
				}
			})
		})
	}
}
