package servers_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/topology"
)

// TestAnotherServerIsDialledAtOnce: the failures of the server before it do not count.
func TestAnotherServerIsDialledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		f := (&fixture{dial: func(context.Context, string) (redis.Conn, error) { dials++; return nil, errDown }}).build(t, false)
		f.follow()
		become := func(instance string) {
			f.news <- topology.Layout{Servers: []topology.Server{{Instance: instance}}}
			synctest.Wait()
		}
		become("a")
		dials = 0
		for range 10 {
			require.ErrorIs(t, f.ask(t.Context(), "k"), errDown)
		}
		require.Equal(t, 1, dials, "the others are answered by the first")
		become("b")
		require.ErrorIs(t, f.ask(t.Context(), "k"), errDown)
		require.Equal(t, 2, dials)
	})
}
