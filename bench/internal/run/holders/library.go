package holders

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// NewClient makes a client of the target. Its connections go through metered,
// which gets each with the lane that it leads to.
func NewClient(t *Target, cfg lock.Config, metered func(conn redis.Conn, lane int) redis.Conn) (*lock.Client, error) {
	client, err := newClient(t, cfg, metered)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return client, nil
}

func newClient(t *Target, cfg lock.Config, metered func(redis.Conn, int) redis.Conn) (*lock.Client, error) {
	if !t.IsCluster() {
		return lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := t.dial(ctx, 0)
			if err != nil {
				return nil, err
			}
			return metered(conn, 0), nil
		}}, cfg)
	}
	options := []redis.DialOption{redis.DialConnectTimeout(ConnectTimeout), redis.DialReadTimeout(IOTimeout), redis.DialWriteTimeout(IOTimeout)}
	if u, err := url.Parse(t.seed); err == nil {
		password, _ := u.User.Password()
		options = append(options, redis.DialUsername(u.User.Username()), redis.DialPassword(password), redis.DialUseTLS(u.Scheme == "rediss"))
	}
	nodes, err := cluster.New(&redisc.Cluster{StartupNodes: t.names, DialOptions: options}, cluster.Options{})
	if err != nil {
		return nil, err
	}
	return lock.NewTopology(meteredTopology{nodes, t, metered}, cfg)
}

// meteredTopology is a Cluster whose connections go through metered.
type meteredTopology struct {
	topology.Topology
	target  *Target
	metered func(redis.Conn, int) redis.Conn
}

func (m meteredTopology) Dial(ctx context.Context, server string) (redis.Conn, error) {
	conn, err := m.Topology.Dial(ctx, server)
	if err != nil {
		return nil, err
	}
	if m.target.wrap != nil {
		conn = m.target.wrap(conn)
	}
	return m.metered(conn, m.target.laneAt(server)), nil
}

// library is a lock.Client, used as its users do.
type library struct {
	client *lock.Client
	prefix string
	held   []*lock.Held // by number; nil before it is taken
}

func newLibrary(t *Target, m *Meter, prefix string, n int, lease time.Duration) (*library, error) {
	client, err := NewClient(t, lock.Config{Lease: lease}, m.meterConn)
	if err != nil {
		return nil, err
	}
	return &library{client: client, prefix: prefix, held: make([]*lock.Held, n)}, nil
}

func (l *library) Acquire(ctx context.Context, i int) error {
	name := l.prefix + strconv.Itoa(i)
	// Each lock has an owner of its own, which makes the check on the server exact.
	// It is a part of the name, so that it takes no memory.
	held, err := l.client.Mutex(name).Lock(lock.WithOwner(ctx, name[len(l.prefix):]))
	if err != nil {
		return err
	}
	l.held[i] = held
	return nil
}

func (l *library) CountHeld() int { return l.client.Stats().Held }

func (l *library) Owns(i int, field string) bool {
	return strings.HasPrefix(field, l.client.ID()+":"+strconv.Itoa(i)+":")
}

func (l *library) Release(ctx context.Context, i int) error {
	if l.held[i] == nil {
		return nil
	}
	return l.held[i].Unlock(ctx)
}

func (l *library) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what could not be released is left to its lease
	_ = l.client.Close(ctx)
}
