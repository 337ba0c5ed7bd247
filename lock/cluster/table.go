package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/dialing"
)

// table is what one node says of the Cluster.
type table struct {
	ranges []slotRange
	nodes  []string // all that it names, replicas too
}

// slotRange is slots that one master has.
type slotRange struct {
	from, to int // both included
	addr     string
	id       string
	epoch    int64 // of the master's configuration: who claims a slot with the higher one has it
}

// ask asks one node for its table until ctx ends.
func (s *Source) ask(ctx context.Context, addr string) (table, error) {
	conn, err := dialing.Dial(ctx, func(ctx context.Context) (redis.Conn, error) { return s.Dial(ctx, addr) })
	if err != nil {
		return table{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	deadline, _ := ctx.Deadline()
	if err := conn.Send("CLUSTER", "SLOTS"); err != nil {
		return table{}, err
	}
	if err := conn.Send("CLUSTER", "NODES"); err != nil {
		return table{}, err
	}
	if err := conn.Flush(); err != nil {
		return table{}, err
	}
	entries, err := redis.Values(redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond)))
	if err != nil {
		return table{}, fmt.Errorf("cluster: %s: CLUSTER SLOTS: %w", addr, err)
	}
	nodes, err := redis.String(redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond)))
	if err != nil {
		return table{}, fmt.Errorf("cluster: %s: CLUSTER NODES: %w", addr, err)
	}
	t, err := parse(entries, epochs(nodes), addr)
	if err != nil {
		return table{}, fmt.Errorf("cluster: %s: %w", addr, err)
	}
	return t, nil
}

// epochs reads the configuration epoch of each node id from CLUSTER NODES.
func epochs(text string) map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(text) {
		// id address flags master ping pong epoch link slots...
		if f := strings.Fields(line); len(f) > 6 {
			if n, err := strconv.ParseInt(f[6], 10, 64); err == nil {
				m[f[0]] = n
			}
		}
	}
	return m
}

// errBadTable: the answer of CLUSTER SLOTS is none.
var errBadTable = errors.New("an answer of CLUSTER SLOTS that makes no sense")

// parse reads the answer of CLUSTER SLOTS that the node from has given.
func parse(entries []any, epochs map[string]int64, from string) (table, error) {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		return table{}, err
	}
	var t table
	for _, e := range entries {
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) < 3 {
			return table{}, errBadTable
		}
		r := slotRange{}
		if _, err := redis.Scan(entry, &r.from, &r.to); err != nil || r.from < 0 || r.to < r.from || r.to >= redisc.HashSlots {
			return table{}, errBadTable
		}
		for i, n := range entry[2:] {
			node, err := redis.Values(n, nil)
			if err != nil || len(node) < 2 {
				return table{}, errBadTable
			}
			var name, id string
			var port int
			if node[0] != nil { // nil: on the host that was asked
				if name, err = redis.String(node[0], nil); err != nil {
					return table{}, errBadTable
				}
			}
			if port, err = redis.Int(node[1], nil); err != nil {
				return table{}, errBadTable
			}
			if len(node) > 2 {
				id, _ = redis.String(node[2], nil)
			}
			if name == "" || name == "?" {
				name = host
			}
			addr := net.JoinHostPort(name, strconv.Itoa(port))
			t.nodes = append(t.nodes, addr)
			if i == 0 {
				r.addr, r.id, r.epoch = addr, id, epochs[id]
			}
		}
		t.ranges = append(t.ranges, r)
	}
	return t, nil
}

// merge makes one Layout of what several nodes say: each slot is its who claims
// it with the highest epoch.
func merge(tables []table) lock.Layout {
	var best [redisc.HashSlots]*slotRange
	for _, t := range tables {
		for i := range t.ranges {
			r := &t.ranges[i]
			for slot := r.from; slot <= r.to; slot++ {
				if best[slot] == nil || r.epoch > best[slot].epoch {
					best[slot] = r
				}
			}
		}
	}
	l := lock.Layout{Slots: make([]int, redisc.HashSlots)}
	index := map[string]int{}
	for slot, r := range best {
		if r == nil {
			l.Slots[slot] = -1
			continue
		}
		i, ok := index[r.addr]
		if !ok {
			i = len(l.Servers)
			index[r.addr] = i
			l.Servers = append(l.Servers, lock.Server{Name: r.addr, Instance: r.id})
		}
		l.Slots[slot] = i
	}
	return l
}
