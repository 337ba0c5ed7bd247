package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// startTeller starts a node that knows only CLUSTER SLOTS, and answers slots.
func startTeller(t *testing.T, slots string) string {
	t.Helper()
	return fixture.Proxy(t, nil, func(c faultproxy.Command) faultproxy.Fate {
		if strings.EqualFold(c.Args[1], "SLOTS") {
			return faultproxy.Answer(faultproxy.Raw(slots))
		}
		return faultproxy.Answer(redis.Error("NOPERM User locker has no permissions to run the 'cluster|nodes' command"))
	}).Addr()
}

// slotsAt returns an answer to CLUSTER SLOTS that gives all slots to one node. host
// is encoded as in RESP, and more is encoded metadata, or empty.
func slotsAt(host string, port int, id, more string) string {
	n := 3
	if more != "" {
		n = 4
	}
	return "*1\r\n*3\r\n:0\r\n:16383\r\n*" + strconv.Itoa(n) + "\r\n" + host + ":" + strconv.Itoa(port) + "\r\n" + bulk(id) + more
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// TestATableThatIsTooLargeIsAnError, and the table of another node counts.
func TestATableThatIsTooLargeIsAnError(t *testing.T) {
	t.Parallel()
	var masters strings.Builder
	masters.WriteString("*1001\r\n")
	for i := range 1001 {
		masters.WriteString(entry(i, i, node("10.0.0.1", i+1)))
	}
	for name, test := range map[string]struct{ slots, want string }{
		"masters": {masters.String(), "names 1001 masters: more than 1000 are not used"},
		"nodes":   {"*1\r\n" + entry(0, 16383, nodes(10_001)...), "names 10001 nodes: more than 10000 are not used"},
		"ranges":  {"*2\r\n" + entry(0, 16383, node("10.0.0.1", 1)) + entry(7, 7, node("10.0.0.1", 1)), "gives out more than 16384 slots: its ranges overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar := startTeller(t, test.slots)
			source, err := cluster.New(&redisc.Cluster{StartupNodes: []string{liar}}, cluster.Options{})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			source.Follow(ctx, time.Hour, nil, func(l topology.Layout) {
				cancel()
				require.ErrorContains(t, l.Err, liar+": the answer to CLUSTER SLOTS "+test.want)
			})
			l := layout(t, liar, startTeller(t, slotsAt(bulk("10.0.0.2"), 7, "a", "")))
			require.Equal(t, []topology.Server{{Name: "10.0.0.2:7", Instance: "a"}}, l.Servers)
		})
	}
}

// entry returns a range of an answer to CLUSTER SLOTS.
func entry(from, to int, nodes ...string) string {
	return fmt.Sprintf("*%d\r\n:%d\r\n:%d\r\n%s", 2+len(nodes), from, to, strings.Join(nodes, ""))
}

func node(host string, port int) string { return fmt.Sprintf("*2\r\n%s:%d\r\n", bulk(host), port) }

// nodes returns n nodes of different addresses.
func nodes(n int) []string {
	var all []string
	for i := range n {
		all = append(all, node("10.0.0.1", i+1))
	}
	return all
}

// TestAStartupNodeIsAskedSoonThoughATableNamesManyNodes, none of which can be reached. The table
// is as large as a table may be, and names each node twice.
func TestAStartupNodeIsAskedSoonThoughATableNamesManyNodes(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"named": node("startup", 7), "not named": node("10.0.0.1", 10_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := append([]string{first}, nodes(9999)...)
			addr := startTeller(t, "*2\r\n"+entry(0, 0, all...)+entry(1, 16383, all...))
			var others, before atomic.Int64 // dials of other nodes in a look, and those before the startup node's
			source, err := cluster.New(&redisc.Cluster{StartupNodes: []string{"down1:7", "startup:7", "down2:7"}}, cluster.Options{
				NetDial: func(ctx context.Context, network, to string) (net.Conn, error) {
					if to != "startup:7" {
						others.Add(1)
						return nil, errors.New("down")
					}
					before.Store(others.Load())
					return new(net.Dialer).DialContext(ctx, network, addr)
				},
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			hint := make(chan struct{}, 2)
			looks := 0
			source.Follow(ctx, time.Hour, hint, func(l topology.Layout) {
				require.NoError(t, l.Err)
				if looks++; looks == 6 {
					cancel()
				}
				if looks > 1 { // the first look knows only the startup nodes
					require.LessOrEqual(t, before.Load(), int64(50), "look %d", looks)
				}
				others.Store(0)
				hint <- struct{}{}
			})
			require.Equal(t, 6, looks)
		})
	}
}

// layout returns the first Layout that a Topology of these nodes finds.
func layout(t *testing.T, nodes ...string) topology.Layout {
	t.Helper()
	source, err := cluster.New(&redisc.Cluster{StartupNodes: nodes}, cluster.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var first topology.Layout
	source.Follow(ctx, time.Hour, nil, func(l topology.Layout) {
		first = l
		cancel()
	})
	require.NoError(t, first.Err)
	return first
}

func TestCLUSTERSLOTSIsEnough(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ host, more, want string }{
		"address":          {bulk("10.0.0.1"), "", "10.0.0.1:7000"},
		"name":             {bulk("redis-0.example"), "*2\r\n" + bulk("ip") + bulk("10.0.0.1"), "redis-0.example:7000"},
		"IPv6":             {bulk("::1"), "", "[::1]:7000"},
		"where it is":      {"$-1\r\n", "", "127.0.0.1:7000"},
		"empty":            {bulk(""), "", "127.0.0.1:7000"},
		"unknown name":     {bulk("?"), "*2\r\n" + bulk("ip") + bulk("10.0.0.1"), "10.0.0.1:7000"},
		"nothing is known": {bulk("?"), "*0\r\n", "127.0.0.1:7000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := layout(t, startTeller(t, slotsAt(test.host, 7000, "id", test.more)))
			require.Equal(t, []topology.Server{{Name: test.want, Instance: "id"}}, l.Servers)
			require.Equal(t, make([]int, 16384), l.Slots)
		})
	}
}

// Without the epochs of CLUSTER NODES the majority counts, so one node that is cut
// off does not mislead the client.
func TestOfNodesWithoutEpochsMostAreBelieved(t *testing.T) {
	t.Parallel()
	for stale := range 3 {
		var nodes []string
		for i := range 3 {
			port := 7001
			if i == stale {
				port = 7000
			}
			nodes = append(nodes, startTeller(t, slotsAt(bulk("10.0.0.1"), port, strconv.Itoa(port), "")))
		}
		for range 5 { // they answer in any order
			require.Equal(t, []topology.Server{{Name: "10.0.0.1:7001", Instance: "7001"}}, layout(t, nodes...).Servers)
		}
	}
}
