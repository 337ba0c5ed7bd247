package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/topology"
)

// table is what one node says about the Cluster.
type table struct {
	ranges []slotRange
	nodes  []string // all nodes that it names, including replicas; sorted, each once
}

// slotRange is a range of slots that one master has.
type slotRange struct {
	from, to int // both included
	addr     string
	id       string
	epoch    int64 // the master's configuration epoch: the master with the highest one has the slot; 0: not known
}

// ask asks one node for its table until ctx ends. A table without slots is an error, because its
// node has left the Cluster or has not joined it yet.
func (s *Topology) ask(ctx context.Context, addr string) (table, error) {
	conn, err := s.dials.Dial(ctx, addr, func(ctx context.Context) (redis.Conn, error) { return s.Dial(ctx, addr) })
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
	entries, err := redis.Values(resp.Receive(conn, max(time.Until(deadline), time.Millisecond)))
	if err != nil {
		return table{}, fmt.Errorf("cluster: %s: CLUSTER SLOTS: %w", addr, err)
	}
	// CLUSTER NODES is only for the epochs, so a refusal is no error.
	nodes, _ := redis.String(resp.Receive(conn, max(time.Until(deadline), time.Millisecond)))
	t, err := parse(entries, epochs(nodes), addr)
	if err != nil {
		return table{}, fmt.Errorf("cluster: %s: %w", addr, err)
	}
	if len(t.ranges) == 0 {
		return table{}, fmt.Errorf("cluster: %s: the node knows no slot: it has left the Cluster or has not joined it", addr)
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

// mostMasters is the most masters of a table. A Client refuses a Layout with more.
const mostMasters = 1000

// mostNodes is the most nodes of a table. A master has few replicas.
const mostNodes = 10 * mostMasters

// errBadTable is returned when the answer to CLUSTER SLOTS is malformed.
var errBadTable = errors.New("the answer to CLUSTER SLOTS is malformed")

// parse reads the answer of the node from to CLUSTER SLOTS.
func parse(entries []any, epochs map[string]int64, from string) (table, error) {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		return table{}, err
	}
	var t table
	masters := make(map[string]bool)
	slots := 0
	for _, e := range entries {
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) < 3 {
			return table{}, errBadTable
		}
		r := slotRange{}
		if _, err := redis.Scan(entry, &r.from, &r.to); err != nil || r.from < 0 || r.to < r.from || r.to >= redisc.HashSlots {
			return table{}, errBadTable
		}
		if slots += r.to - r.from + 1; slots > redisc.HashSlots {
			return table{}, fmt.Errorf("the answer to CLUSTER SLOTS gives out more than %d slots: its ranges overlap", redisc.HashSlots)
		}
		for i, n := range entry[2:] {
			node, err := redis.Values(n, nil)
			if err != nil || len(node) < 2 {
				return table{}, errBadTable
			}
			var name, id string
			var port int
			if node[0] != nil { // nil: the host that was asked
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
			if name == "?" { // the node has no name
				name = ipOf(node)
			}
			if name == "" {
				name = host
			}
			addr := net.JoinHostPort(name, strconv.Itoa(port))
			t.nodes = append(t.nodes, addr)
			if i == 0 {
				r.addr, r.id, r.epoch = addr, id, epochs[id]
				masters[addr] = true
			}
		}
		t.ranges = append(t.ranges, r)
	}
	if len(masters) > mostMasters {
		return table{}, fmt.Errorf("the answer to CLUSTER SLOTS names %d masters: more than %d are not used", len(masters), mostMasters)
	}
	slices.Sort(t.nodes)
	if t.nodes = slices.Compact(t.nodes); len(t.nodes) > mostNodes {
		return table{}, fmt.Errorf("the answer to CLUSTER SLOTS names %d nodes: more than %d are not used", len(t.nodes), mostNodes)
	}
	return t, nil
}

// ipOf returns the address in the metadata of a node, which Redis 7 adds. It returns
// "" if there is none.
func ipOf(node []any) string {
	if len(node) < 4 {
		return ""
	}
	more, _ := redis.Strings(node[3], nil)
	for i := 0; i+1 < len(more); i += 2 {
		if more[i] == "ip" {
			return more[i+1]
		}
	}
	return ""
}

// merge makes one Layout of the tables of several nodes. A slot belongs to the
// master that claims it with the highest epoch. If epochs are equal or not known,
// the slot belongs to the master that most nodes name.
func merge(tables []table) topology.Layout {
	claims := make([][redisc.HashSlots]*slotRange, len(tables))
	for i, t := range tables {
		for k := range t.ranges {
			r := &t.ranges[k]
			for slot := r.from; slot <= r.to; slot++ {
				claims[i][slot] = r
			}
		}
	}
	var best [redisc.HashSlots]*slotRange
	for slot := range best {
		votes := 0 // for best
		for i := range claims {
			r, n := claims[i][slot], 0
			if r == nil {
				continue
			}
			for k := range claims {
				if o := claims[k][slot]; o != nil && o.addr == r.addr {
					n++
				}
			}
			if b := best[slot]; b == nil || r.epoch > b.epoch || r.epoch == b.epoch && n > votes {
				best[slot], votes = r, n
			}
		}
	}
	l := topology.Layout{Slots: make([]int, redisc.HashSlots)}
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
			l.Servers = append(l.Servers, topology.Server{Name: r.addr, Instance: r.id})
		}
		l.Slots[slot] = i
	}
	return l
}
