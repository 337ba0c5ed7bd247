package holders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/integration/redistest"
)

// ConnectTimeout is how long it may take to connect to a target.
const ConnectTimeout = 5 * time.Second

// Target is the Redis that rows run on: one server, or the masters of a Cluster.
// Each master is a lane, with a number from 0. A Target is immutable and safe for
// concurrent use.
type Target struct {
	seed    string              // a URL from which another process finds the same
	servers []*redistest.Server // by lane
	names   []string            // by lane, host:port; of a Cluster
	slots   []int16             // lane of each slot; nil if there is one server
	// wrap, if set, is given every connection that a row uses. Tests record
	// commands there, and make rows late.
	wrap func(redis.Conn) redis.Conn
}

// OneServer is the target that srv is.
func OneServer(srv *redistest.Server) *Target {
	return &Target{seed: srv.URL(), servers: []*redistest.Server{srv}}
}

// Connect finds a target by its Seed.
func Connect(ctx context.Context, seed string, cluster bool) (*Target, error) {
	if cluster {
		return ConnectCluster(ctx, []string{seed})
	}
	srv, err := redistest.Connect(ctx, seed)
	if err != nil {
		return nil, err
	}
	return OneServer(srv), nil
}

// ConnectCluster finds the masters of the Cluster that one of the seeds belongs
// to. A seed is what redistest.Connect takes. The user and the password of the one
// that answers are used for all masters. Where slots are is looked up once: a row
// counts what moves meanwhile as lost.
func ConnectCluster(ctx context.Context, seeds []string) (*Target, error) {
	var errs []error
	for _, seed := range seeds {
		t, err := connectCluster(ctx, seed)
		if err == nil {
			return t, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func connectCluster(ctx context.Context, seed string) (*Target, error) {
	node, err := redistest.Connect(ctx, seed)
	if err != nil {
		return nil, err
	}
	conn, err := node.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ranges, err := redis.Values(conn.Do("CLUSTER", "SLOTS"))
	if err != nil {
		return nil, fmt.Errorf("bench: %s has no slots of a Redis Cluster: %w", node.Addr(), err)
	}
	t := &Target{seed: node.URL(), slots: make([]int16, redisc.HashSlots)}
	for i := range t.slots {
		t.slots[i] = -1
	}
	owners := map[string][][2]int{}
	for _, entry := range ranges {
		var from, to int
		var master []any
		fields, err := redis.Values(entry, nil)
		if err == nil {
			_, err = redis.Scan(fields, &from, &to, &master)
		}
		var host string
		var port int
		if err == nil {
			_, err = redis.Scan(master, &host, &port)
		}
		if err != nil {
			return nil, fmt.Errorf("bench: the slots of %s cannot be read: %w", node.Addr(), err)
		}
		if host == "" { // the node does not know its own name
			if host, _, err = net.SplitHostPort(node.Addr()); err != nil {
				return nil, err
			}
		}
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		owners[addr] = append(owners[addr], [2]int{from, to})
	}
	for addr := range owners {
		t.names = append(t.names, addr)
	}
	slices.Sort(t.names)
	for lane, addr := range t.names {
		for _, r := range owners[addr] {
			for slot := max(r[0], 0); slot <= min(r[1], len(t.slots)-1); slot++ {
				t.slots[slot] = int16(lane)
			}
		}
		master, err := redistest.Connect(ctx, withAddress(node.URL(), addr))
		if err != nil {
			return nil, err
		}
		t.servers = append(t.servers, master)
	}
	if i := slices.Index(t.slots, -1); i >= 0 {
		return nil, fmt.Errorf("bench: no master has slot %d, as %s sees it: the Cluster must be whole", i, node.Addr())
	}
	return t, nil
}

// withAddress is a server's URL with another address in it.
func withAddress(server, addr string) string {
	u, err := url.Parse(server)
	if err != nil {
		return addr
	}
	u.Host = addr
	return u.String()
}

// IsCluster says whether the target is a Cluster.
func (t *Target) IsCluster() bool { return t.slots != nil }

// Seed is a URL from which Connect, in another process, finds the same target.
func (t *Target) Seed() string { return t.seed }

// Servers are the masters, by lane.
func (t *Target) Servers() []*redistest.Server { return t.servers }

// IsOwn says whether the target is a server of the run's own, whose settings may be
// changed.
func (t *Target) IsOwn() bool {
	return !t.IsCluster() && t.servers[0].Kind() == redistest.Process
}

// String says what the target is and where.
func (t *Target) String() string {
	if !t.IsCluster() {
		return t.servers[0].String()
	}
	return fmt.Sprintf("Redis Cluster, %d masters: %s", len(t.names), strings.Join(t.names, ", "))
}

// Lane is the lane of a key.
func (t *Target) Lane(key string) int {
	if t.slots == nil {
		return 0
	}
	return int(t.slots[redisc.Slot(key)])
}

// Address is the host:port of a master of a Cluster.
func (t *Target) Address(lane int) string { return t.names[lane] }

// laneAt is the lane of a master by its address; 0 for the one server.
func (t *Target) laneAt(addr string) int { return max(slices.Index(t.names, addr), 0) }

// dial opens a connection that a row uses.
func (t *Target) dial(ctx context.Context, lane int) (redis.Conn, error) {
	conn, err := t.servers[lane].DialContext(ctx)
	if err == nil && t.wrap != nil {
		conn = t.wrap(conn)
	}
	return conn, err
}
