package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// clusterSlots is the number of hash slots of a Cluster.
const clusterSlots = 16384

// Cluster is a Redis Cluster. Methods are safe for concurrent use.
type Cluster struct {
	// Servers are the first masters, then their replicas. Replica i follows master
	// i, modulo the number of masters.
	Servers []*Server

	// immutable once started
	masters int      // how many of the servers were masters at first
	ids     []string // of the nodes, by server

	moving sync.Mutex // held by MoveKeys and EndMove
}

// ClusterOptions are the settings of StartCluster.
type ClusterOptions struct {
	Masters  int // default 3; the slots are spread evenly
	Replicas int // of each master; default 0
	// NodeTimeout is how long a master may be silent before it counts as down; default 1 s.
	NodeTimeout time.Duration
	// Args are added to the command line of each server.
	Args []string
	// Start starts the servers; redistest.Start if nil.
	Start func(context.Context, Options) (*Server, error)
}

// StartCluster starts a Cluster and returns when all its nodes agree. On an
// error nothing is left behind.
func StartCluster(ctx context.Context, o ClusterOptions) (_ *Cluster, err error) {
	if o.Masters == 0 {
		o.Masters = 3
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = time.Second
	}
	c := &Cluster{masters: o.Masters}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	c.Servers, err = startMany(ctx, o.Start, o.Masters*(1+o.Replicas), Options{Args: append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-migration-barrier", "100",
		"--cluster-node-timeout", fmt.Sprint(o.NodeTimeout.Milliseconds()),
	}, o.Args...)})
	if err != nil {
		return nil, err
	}
	if err := c.join(); err != nil {
		return nil, err
	}
	var met time.Time
	var refused error
	if err := pollUntil(ctx, "the nodes to know each other", func() bool {
		// A node forgets a node that it should meet if that node does not answer
		// within the node timeout, which a busy machine may exceed.
		if time.Since(met) > 2*max(o.NodeTimeout, time.Second) {
			met = time.Now()
			refused = c.meet()
		}
		return c.allServers(c.knowsAll)
	}); err != nil {
		return nil, errors.Join(err, refused)
	}
	for i := o.Masters; i < len(c.Servers); i++ {
		if _, err := c.do(i, "CLUSTER", "REPLICATE", c.ids[i%o.Masters]); err != nil {
			return nil, err
		}
	}
	return c, pollUntil(ctx, "the cluster", func() bool { return c.allServers(func(i int) bool { return c.isReady(i, i >= o.Masters) }) })
}

// join prepares the nodes and gives the masters their slots.
func (c *Cluster) join() error {
	for i := range c.Servers {
		id, err := redis.String(c.do(i, "CLUSTER", "MYID"))
		if err != nil {
			return err
		}
		c.ids = append(c.ids, id)
		if _, err := c.do(i, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < c.masters {
			args := []any{"ADDSLOTS"}
			for slot := i * clusterSlots / c.masters; slot < (i+1)*clusterSlots/c.masters; slot++ {
				args = append(args, slot)
			}
			if _, err := c.do(i, "CLUSTER", args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet introduces all nodes to the first.
func (c *Cluster) meet() error {
	for i := 1; i < len(c.Servers); i++ {
		host, port, err := net.SplitHostPort(c.Servers[i].Addr())
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		if _, err := c.do(0, "CLUSTER", "MEET", host, port); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) allServers(ok func(i int) bool) bool {
	for i := range c.Servers {
		if !ok(i) {
			return false
		}
	}
	return true
}

// knowsAll reports whether server i knows all nodes. A node that it is still meeting has another id.
func (c *Cluster) knowsAll(i int) bool {
	known := 0
	for _, line := range c.clusterNodes(i) {
		if slices.Contains(c.ids, strings.Fields(line)[0]) {
			known++
		}
	}
	return known == len(c.Servers)
}

// isReady reports whether server i sees a Cluster that works. A replica must also be
// connected to its master.
func (c *Cluster) isReady(i int, replica bool) bool {
	state, err := redis.String(c.do(i, "CLUSTER", "INFO"))
	if err != nil || !strings.Contains(state, "cluster_state:ok") {
		return false
	}
	for _, line := range c.clusterNodes(i) { // no failover works before all nodes know the role of each
		index := slices.Index(c.ids, strings.Fields(line)[0])
		if (index >= c.masters) != strings.Contains(line, "slave") {
			return false
		}
	}
	if !replica {
		return true
	}
	info, err := c.Servers[i].Info("replication")
	return err == nil && info["role"] == "slave" && info["master_link_status"] == "up"
}

// clusterNodes is what CLUSTER NODES says on server i.
func (c *Cluster) clusterNodes(i int) []string {
	text, err := redis.String(c.do(i, "CLUSTER", "NODES"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

// do runs a command on server i.
func (c *Cluster) do(i int, command string, args ...any) (any, error) {
	conn, err := c.Servers[i].Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := conn.Do(command, args...)
	if err != nil {
		return nil, fmt.Errorf("redistest: %s %.40s at %s: %w", command, fmt.Sprint(args...), c.Servers[i].Addr(), err)
	}
	return reply, nil
}

// Addrs returns the addresses of the servers.
func (c *Cluster) Addrs() []string { return addrs(c.Servers) }

// Stop stops all.
func (c *Cluster) Stop() error { return stopMany(c.Servers) }

// Owner returns the index of the server that has the slot, as the first server
// that answers sees it.
func (c *Cluster) Owner(slot int) (int, error) {
	var errs []error
	for i := range c.Servers {
		owner, err := c.ownerAt(i, slot)
		if err == nil {
			return owner, nil
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// ownerAt is Owner as server i sees it.
func (c *Cluster) ownerAt(i, slot int) (int, error) {
	entries, err := redis.Values(c.do(i, "CLUSTER", "SLOTS"))
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		var from, to int
		var node []any
		entry, err := redis.Values(e, nil)
		if err == nil {
			_, err = redis.Scan(entry, &from, &to, &node)
		}
		if err != nil || slot < from || slot > to {
			continue
		}
		host, err1 := redis.String(node[0], nil)
		port, err2 := redis.Int(node[1], nil)
		return slices.Index(c.Addrs(), net.JoinHostPort(host, strconv.Itoa(port))), errors.Join(err1, err2)
	}
	return 0, fmt.Errorf("redistest: nobody has slot %d", slot)
}

// BeginMove begins to move a slot from one master to another. Keys that exist stay at
// the first master until MoveKeys. Requests for other keys are redirected to the second.
func (c *Cluster) BeginMove(slot, from, to int) error {
	if _, err := c.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from]); err != nil {
		return err
	}
	_, err := c.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return err
}

// MoveKeys moves keys of a slot after BeginMove; if no key is named, it moves all. Calls wait
// for each other: a server does nothing else while it sends keys, so two servers that send
// keys to each other would wait until both give up.
func (c *Cluster) MoveKeys(slot, from, to int, keys ...string) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	host, port, err := net.SplitHostPort(c.Servers[to].Addr())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	for all := len(keys) == 0; ; {
		if all {
			if keys, err = redis.Strings(c.do(from, "CLUSTER", "GETKEYSINSLOT", slot, 1000)); err != nil || len(keys) == 0 {
				return err
			}
		}
		args := []any{host, port, "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		if _, err := c.do(from, "MIGRATE", args...); err != nil || !all {
			return err
		}
	}
}

// EndMove gives the slot to its new master, and returns when all servers know
// that. If another move began earlier, it could make them believe an old owner.
func (c *Cluster) EndMove(slot, from, to int) error {
	c.moving.Lock()
	defer c.moving.Unlock()
	for _, i := range []int{to, from} {
		if _, err := c.do(i, "CLUSTER", "SETSLOT", slot, "NODE", c.ids[to]); err != nil {
			return err
		}
	}
	return pollUntil(context.Background(), "all to know who has the slot", func() bool {
		epoch := c.epoch(to, to)
		return c.allServers(func(i int) bool {
			owner, err := c.ownerAt(i, slot)
			return err == nil && owner == to && c.epoch(i, to) == epoch
		})
	})
}

// epoch returns the configuration epoch of the server with the index of, as the server with the index
// at knows it.
func (c *Cluster) epoch(at, of int) string {
	for _, line := range c.clusterNodes(at) {
		if f := strings.Fields(line); f[0] == c.ids[of] && len(f) > 6 {
			return f[6]
		}
	}
	return ""
}
