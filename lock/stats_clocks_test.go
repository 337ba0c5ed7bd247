package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestStatsTellHowServersClocksStand(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "TIME" { // in 2001
			return faultproxy.Answer([]any{[]byte("1000000000"), []byte("500000")})
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{})
	require.Empty(t, c.Stats().Clocks, "nothing was asked yet")
	_, err := c.Mutex(fixture.KeyOf(t)).IsLocked(t.Context())
	require.NoError(t, err)
	clocks := c.Stats().Clocks
	require.Len(t, clocks, 1)
	require.NotEmpty(t, clocks[0].Server)
	require.Positive(t, clocks[0].Within)
	require.InDelta(t, time.Until(time.Unix(1_000_000_000, 0)), clocks[0].Ahead, float64(time.Minute))
}
