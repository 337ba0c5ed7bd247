package cluster_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAClusterOfAThousandNodes: each has two replicas, and each node has a name.
func TestAClusterOfAThousandNodes(t *testing.T) {
	t.Parallel()
	const nodes, slots, each = 1000, 16384, 16
	node := func(i int) string {
		return fmt.Sprintf("*4\r\n%s:%d\r\n%s*2\r\n%s%s", bulk(fmt.Sprintf("redis-%03d.some-cluster.example.internal", i)), 7000+i,
			bulk(fmt.Sprintf("%040d", i)), bulk("ip"), bulk("10.0.0."+strconv.Itoa(i%256)))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", slots/each)
	for r := range slots / each {
		fmt.Fprintf(&text, "*5\r\n:%d\r\n:%d\r\n%s%s%s", r*each, r*each+each-1, node(r%nodes), node((r+1)%nodes), node((r+2)%nodes))
	}
	l := layout(t, startTeller(t, text.String()))
	require.Len(t, l.Servers, nodes)
	require.Len(t, l.Slots, slots)
	require.Equal(t, l.Servers[l.Slots[0]], l.Servers[l.Slots[nodes*each]])
}

// TestAHostileNodeEndsNoProcess: there is no layout, and the reason is told.
func TestAHostileNodeEndsNoProcess(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"*4000000000\r\n", "$1099511627776\r\n", strings.Repeat("*1\r\n", 10_000), "+" + strings.Repeat("x", 1<<20),
		"*16384\r\n" + strings.Repeat("*16384\r\n", 100), "$16777217\r\n",
	} {
		p := fixture.Proxy(t, nil, func(faultproxy.Command) faultproxy.Fate { return faultproxy.Answer(faultproxy.Raw(text)) })
		source, err := cluster.New(&redisc.Cluster{StartupNodes: []string{p.Addr()}}, cluster.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var first topology.Layout
		source.Follow(ctx, time.Hour, nil, func(l topology.Layout) {
			first = l
			cancel()
		})
		require.ErrorIs(t, first.Err, cluster.ErrNoTable, "%.20q", text)
		require.ErrorContains(t, first.Err, "the answer was given up", "%.20q", text)
	}
}

// TestANodeThatAnswersAnErrorEndsNoLock: the others, which are down, may know the Cluster.
func TestANodeThatAnswersAnErrorEndsNoLock(t *testing.T) {
	t.Parallel()
	p := fixture.Proxy(t, nil, func(faultproxy.Command) faultproxy.Fate {
		return faultproxy.Answer(redis.Error("ERR This instance has cluster support disabled"))
	})
	source, err := cluster.Open("redis-cluster://127.0.0.1:1,"+p.Addr(), cluster.Options{})
	require.NoError(t, err)
	_, err = fixture.Client(t, source, lock.Config{}).Mutex("a").TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.ErrorContains(t, err, "cluster support disabled")
}
