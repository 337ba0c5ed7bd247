package servers_test

import (
	"context"
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
