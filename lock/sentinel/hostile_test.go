package sentinel_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAHostileSentinelOrMasterEndsNoProcess: others are asked, and the reason is told.
func TestAHostileSentinelOrMasterEndsNoProcess(t *testing.T) {
	for _, text := range []string{
		"*4000000000\r\n", "$1099511627776\r\n", strings.Repeat("*1\r\n", 10_000), "+" + strings.Repeat("x", 1<<20),
	} {
		p := fixture.Proxy(t, nil, func(faultproxy.Command) faultproxy.Fate { return faultproxy.Answer(faultproxy.Raw(text)) })
		_, err := newTopology(t, p.Addr()).MasterAddr(bounded.Context(t))
		require.ErrorIs(t, err, sentinel.ErrNoSentinel)
		require.ErrorContains(t, err, "the answer was given up", "%.20q", text)
		good := startFake(t, p.Addr(), 1) // the master that it names is hostile
		s := newTopology(t, p.Addr(), good.Addr())
		require.Equal(t, p.Addr(), masterAddr(t, s))
		_, err = s.GetContext(bounded.Context(t))
		require.ErrorContains(t, err, "the answer was given up", "%.20q", text)
	}
}

// TestASentinelThatSendsTooLongAMessageIsLeft, and asked again.
func TestASentinelThatSendsTooLongAMessageIsLeft(t *testing.T) {
	t.Parallel()
	f := startFake(t, "127.0.0.1:1", 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer bounded.Wait(t, &wg)
	defer cancel()
	s := newTopology(t, f.Addr())
	wg.Go(func() { s.Follow(ctx, time.Hour, nil, func(topology.Layout) {}) })
	require.Eventually(t, func() bool { return f.Subscribers() == 1 }, time.Minute, time.Millisecond)
	f.Publish(faultproxy.Bulks("message", "+switch-master", strings.Repeat("x", 100_000)))
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.subs == 2
	}, time.Minute, time.Millisecond)
}
