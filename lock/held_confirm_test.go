package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// deleted are the ways in which a key goes that somebody holds.
var deleted = map[string]func(t *testing.T, s *redistest.Server, c, other *lock.Client, kind string){
	"own force":   func(t *testing.T, _ *redistest.Server, c, _ *lock.Client, kind string) { forceOf(t, c, kind) },
	"other force": func(t *testing.T, _ *redistest.Server, _, other *lock.Client, kind string) { forceOf(t, other, kind) },
	"DEL":         func(t *testing.T, s *redistest.Server, _, _ *lock.Client, _ string) { fixture.Do(t, s, "DEL", "m") },
}

// lockOf is the lock m of a kind: of RWMutex, the half that is held, and that waits.
func lockOf(c *lock.Client, kind string) (held, waits *lock.Mutex) {
	rw := c.RWMutex("m")
	switch kind {
	case "fenced":
		return c.FencedMutex("m"), c.FencedMutex("m")
	case "fair":
		return c.FairMutex("m"), c.FairMutex("m")
	case "writer, reader":
		return rw.Writer(), rw.Reader()
	case "writer, writer":
		return rw.Writer(), rw.Writer()
	case "reader, writer":
		return rw.Reader(), rw.Writer()
	}
	return c.Mutex("m"), c.Mutex("m")
}

func forceOf(t *testing.T, c *lock.Client, kind string) {
	m, _ := lockOf(c, kind)
	ok, err := m.ForceUnlock(context.Background())
	require.NoError(t, err)
	require.True(t, ok)
}

// TestNobodyWaitsForAHoldWhoseKeyIsGone for longer than MaxPoll, who is of the same client
// and would not ask Redis otherwise; the holder is told too.
func TestNobodyWaitsForAHoldWhoseKeyIsGone(t *testing.T) {
	takes := map[string]func(*lock.Mutex) (*lock.Held, error){
		"renewed": func(m *lock.Mutex) (*lock.Held, error) { return m.Lock(context.Background()) },
		"fixed":   func(m *lock.Mutex) (*lock.Held, error) { return m.LockFor(context.Background(), time.Hour) },
	}
	for how, take := range takes {
		for _, lease := range []time.Duration{0, 24 * time.Hour} {
			for _, kind := range []string{"mutex", "fenced", "fair", "writer, reader", "writer, writer", "reader, writer"} {
				for way, del := range deleted {
					name := fmt.Sprint(how, "/", lease, "/", kind, "/", way)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { requireGoneIsNoticed(t, lease, kind, take, del) })
					})
				}
			}
		}
	}
}

func requireGoneIsNoticed(t *testing.T, lease time.Duration, kind string, take func(*lock.Mutex) (*lock.Held, error),
	del func(t *testing.T, s *redistest.Server, c, other *lock.Client, kind string),
) {
	const poll = 5 * time.Second
	s, ctx := fixture.Virtual(t), context.Background()
	c, err := lock.New(s.Pool(0), lock.Config{Lease: lease, MaxPoll: poll})
	require.NoError(t, err)
	other, err := lock.New(s.Pool(0), lock.Config{})
	require.NoError(t, err)
	m, waits := lockOf(c, kind)
	held, err := take(m)
	require.NoError(t, err)
	got := make(chan *lock.Held, 2)
	for range 2 { // the second is first in line once the first has got it
		go func() {
			held, err := waits.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		time.Sleep(7 * time.Second)
	}
	require.Empty(t, got)
	del(t, s, c, other, kind)
	gone := time.Now()
	next := <-got
	require.LessOrEqual(t, time.Since(gone), poll+10*time.Millisecond)
	if kind == "mutex" || kind == "fenced" {
		<-held.Done() // it was asked about
		require.LessOrEqual(t, time.Since(gone), poll+10*time.Millisecond)
	}
	require.NoError(t, next.Unlock(ctx))
	require.NoError(t, (<-got).Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.NoError(t, other.Close(ctx))
	require.NoError(t, c.Close(ctx))
}
