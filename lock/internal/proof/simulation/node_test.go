package simulation_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// nodes are the servers of a Cluster for whole clients, which speak RESP. They answer MOVED, ASK and
// TRYAGAIN while a slot is moved key by key. They have sharded pub/sub, and end its subscriptions when
// the slot leaves. Each node is a store, so no Lua runs.
type nodes struct {
	*small
	running sync.WaitGroup // goroutines of connections

	mu     sync.Mutex // guards what follows
	conns  map[*nodeConn]bool
	loaded map[int]map[string]bool // the SHAs of scripts that each node has had
}

func newNodes(seed uint64, slowest time.Duration, servers int) *nodes {
	stores := newSmall(seed, slowest, servers, true)
	stores.cluster.spread = false
	return &nodes{small: stores, conns: map[*nodeConn]bool{}, loaded: map[int]map[string]bool{}}
}

// address returns the address of a node.
func address(node int) string { return fmt.Sprintf("node%d:6379", node) }

// client makes a client that discovers the nodes by asking them.
func (s *nodes) client(id, _ int, cfg lock.Config) (*lock.Client, []trouble, error) {
	var ways []trouble
	to := map[string]*cables{}
	var startup []string
	for i := range s.stores {
		n := newCables(func(context.Context) (net.Conn, error) { return s.connect(i), nil }, s.slowest, s.seed, uint64(id)+10+1000*uint64(i))
		ways, to[address(i)], startup = append(ways, n), n, append(startup, address(i))
	}
	t, err := cluster.New(&redisc.Cluster{StartupNodes: startup}, cluster.Options{
		NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return to[address].dial(ctx, network, address)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	c, err := lock.NewTopology(t, cfg)
	return c, ways, err
}

func (s *nodes) stop() error {
	s.mu.Lock()
	for c := range s.conns {
		c.end()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// connect makes a connection to a node.
func (s *nodes) connect(node int) net.Conn {
	there, here := net.Pipe()
	s.mu.Lock()
	store := s.stores[node]
	s.mu.Unlock()
	c := &nodeConn{nodes: s, node: node, store: store, conn: here, out: make(chan string, 4096), ended: make(chan struct{})}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	s.running.Go(c.read)
	s.running.Go(c.write)
	return there
}

// knows reports whether a node had the text of a script, which it has from now on.
func (s *nodes) knows(node int, sha string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded[node] == nil {
		s.loaded[node] = map[string]bool{}
	}
	had := s.loaded[node][sha]
	s.loaded[node][sha] = true
	return had
}

// nodeConn is a node's end of a connection.
type nodeConn struct {
	nodes *nodes
	node  int
	store *store
	conn  net.Conn
	out   chan string
	once  sync.Once
	ended chan struct{}

	asking     bool // the last command was ASKING; only read uses it
	subscribed bool
}

var _ listener = (*nodeConn)(nil)

// Err implements listener.
func (c *nodeConn) Err() error {
	select {
	case <-c.ended:
		return io.EOF
	default:
		return nil
	}
}

func (c *nodeConn) end() {
	c.once.Do(func() {
		close(c.ended)
		_ = c.conn.Close()
		c.store.forget(c)
	})
}

// push implements listener.
func (c *nodeConn) push(kind, channel string, what any) {
	c.say(inRESP([]any{[]byte(kind), []byte(channel), what}))
}

func (c *nodeConn) say(text string) {
	select {
	case c.out <- text:
	case <-c.ended:
	}
}

func (c *nodeConn) write() {
	for {
		select {
		case text := <-c.out:
			if _, err := io.WriteString(c.conn, text); err != nil {
				c.end()
				return
			}
		case <-c.ended:
			return
		}
	}
}

func (c *nodeConn) read() {
	defer func() {
		c.end()
		c.nodes.mu.Lock()
		delete(c.nodes.conns, c)
		c.nodes.mu.Unlock()
	}()
	for r := bufio.NewReader(c.conn); ; {
		command, err := faultproxy.ReadCommand(r)
		if err != nil {
			return
		}
		asking := c.asking
		c.asking = false
		c.answer(strings.ToUpper(command[0]), command[1:], asking)
	}
}

// answer carries out a command.
func (c *nodeConn) answer(command string, args []string, asking bool) {
	switch command {
	case "EVAL", "EVALSHA":
		reply, err := c.script(command, args, asking)
		if err != nil {
			reply = redis.Error(c.addressed(err.Error()))
		}
		c.say(inRESP(reply))
	case "SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE":
		c.subscribe(command, args)
	case "ASKING":
		c.asking = true
		c.say("+OK\r\n")
	case "PING":
		if c.subscribed {
			c.push("pong", "", []byte(""))
			return
		}
		c.say("+PONG\r\n")
	case "TIME":
		now := time.Now().Add(c.store.clock())
		c.say(inRESP([]any{[]byte(strconv.FormatInt(now.Unix(), 10)), []byte(strconv.Itoa(now.Nanosecond() / 1000))}))
	case "INFO":
		c.say(inRESP([]byte("redis_version:7.2.4\r\nmaxmemory_policy:noeviction\r\n")))
	case "HDEL":
		c.say(inRESP(c.store.removeNothing()))
	case "SPUBLISH": // of the trial: nobody listens
		c.say(inRESP(int64(0)))
	case "CLUSTER":
		c.cluster(args[0])
	default:
		c.say(inRESP(redis.Error("ERR unknown command '" + command + "'")))
	}
}

// script carries out a script.
func (c *nodeConn) script(command string, args []string, asking bool) (any, error) {
	sha := args[0]
	i := -1
	for k, s := range scripts() {
		if command == "EVALSHA" && s.SHA() == sha || command == "EVAL" && s.Text() == args[0] {
			i, sha = k, s.SHA()
		}
	}
	if known := i >= 0 && (c.nodes.knows(c.node, sha) || command == "EVAL"); !known {
		return nil, redis.Error("NOSCRIPT No matching script. Please use EVAL.")
	}
	s := scripts()[i]
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	var last time.Time
	rest := args[2:]
	if s.Expires() {
		ms, err := strconv.ParseInt(rest[len(rest)-1], 10, 64)
		if err != nil {
			return nil, err
		}
		if ms > 0 {
			last = time.UnixMilli(ms)
		}
		rest = rest[:len(rest)-1]
	}
	call := make([]any, len(rest))
	for i, a := range rest {
		call[i] = a
	}
	return c.store.carryOut(s, count, call, last, asking)
}

var scripts = sync.OnceValue(script.All)

// addressed puts an address into a redirection, as a real node does.
func (c *nodeConn) addressed(said string) string {
	if how, slot, to, ok := redirection(said); ok {
		return fmt.Sprintf("%s %d %s", how, slot, address(to))
	}
	return said
}

// redirection reads a redirection that elsewhere has made.
func redirection(said string) (how string, slot, to int, ok bool) {
	n, _ := fmt.Sscanf(said, "%s %d %d", &how, &slot, &to)
	return how, slot, to, n == 3 && (how == "MOVED" || how == "ASK")
}

// subscribe subscribes to channels, or ends their subscriptions.
func (c *nodeConn) subscribe(command string, channels []string) {
	c.subscribed = true
	for _, channel := range channels {
		shard := ""
		if command[0] == 'S' && command != "SUBSCRIBE" {
			shard = ofShard
			if from := c.store.cluster.of(keys.Slot(channel)); from != c.node {
				c.say(inRESP(redis.Error(fmt.Sprintf("MOVED %d %s", keys.Slot(channel), address(from)))))
				continue
			}
		}
		hears := !strings.Contains(command, "UNSUB")
		if hears {
			c.push(strings.ToLower(command), channel, int64(1)) // nothing published later comes before it
			c.store.subscribe(c, shard+channel, true)
			continue
		}
		c.store.subscribe(c, shard+channel, false)
		c.push(strings.ToLower(command), channel, int64(0))
	}
}

// cluster answers a command CLUSTER.
func (c *nodeConn) cluster(what string) {
	switch strings.ToUpper(what) {
	case "SLOTS":
		var entries []any
		for from := 0; from < slotsOfCluster; {
			to, n := from, c.store.cluster.of(from)
			for to+1 < slotsOfCluster && c.store.cluster.of(to+1) == n {
				to++
			}
			entries = append(entries, []any{int64(from), int64(to), []any{[]byte(fmt.Sprint("node", n)), int64(6379), []byte(fmt.Sprint("id", n))}})
			from = to + 1
		}
		c.say(inRESP(entries))
	case "NODES":
		c.say(inRESP([]byte("")))
	default:
		c.say(inRESP(redis.Error("ERR unknown subcommand")))
	}
}

const slotsOfCluster = 16384

// inRESP returns a reply as it goes over the wire.
func inRESP(reply any) string {
	switch v := reply.(type) {
	case nil:
		return "$-1\r\n"
	case int64:
		return fmt.Sprintf(":%d\r\n", v)
	case []byte:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
	case error:
		return "-" + v.Error() + "\r\n"
	case []any:
		text := fmt.Sprintf("*%d\r\n", len(v))
		for _, e := range v {
			text += inRESP(e)
		}
		return text
	}
	return fmt.Sprintf("-ERR what is %T?\r\n", reply)
}
