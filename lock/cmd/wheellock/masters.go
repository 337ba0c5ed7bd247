package main

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock"
)

// eachMaster calls f with a connection to each server that has locks, one after the other.
func (s *servers) eachMaster(ctx context.Context, f func(conn redis.Conn) error) error {
	client, err := s.open(lock.Config{}) // it has the errors of usage, and does no I/O
	if err != nil {
		return err
	}
	closeClient(client)
	if s.cluster != "" {
		nodes, err := parseSeeds("-cluster", s.cluster, "6379")
		if err != nil {
			return err
		}
		c := &redisc.Cluster{StartupNodes: nodes.addrs, DialOptions: nodes.dial()}
		defer c.Close()
		if err := c.Refresh(); err != nil {
			return &lock.UnknownError{Op: "list", Err: err}
		}
		return c.EachNode(false, func(_ string, conn redis.Conn) error { return f(conn) })
	}
	conn, err := s.dialMaster(ctx)
	if err != nil {
		return &lock.UnknownError{Op: "list", Err: err}
	}
	defer conn.Close()
	return f(conn)
}

// dialMaster connects to the one server that has the locks.
func (s *servers) dialMaster(ctx context.Context) (redis.Conn, error) {
	if s.sentinel != "" {
		t, err := sentinelTopology(s.sentinel)
		if err != nil {
			return nil, err
		}
		return t.Dial(ctx, "")
	}
	text := s.redis
	if !strings.Contains(text, "://") {
		if strings.HasPrefix(text, "/") {
			text = "unix://" + text
		} else {
			text = "redis://" + text
		}
	}
	u, err := url.Parse(text) // open has read it before
	if err != nil {
		return nil, usagef("-redis cannot be read")
	}
	options := seeds{tls: u.Scheme == "rediss", user: u.User.Username()}
	options.password, _ = u.User.Password()
	database, _ := strconv.Atoi(u.Query().Get("db"))
	network, addr := "unix", u.Path
	if u.Scheme != "unix" {
		host, port := u.Hostname(), u.Port()
		if host == "" {
			host = "localhost"
		}
		if port == "" {
			port = "6379"
		}
		network, addr = "tcp", net.JoinHostPort(host, port)
		if n, err := strconv.Atoi(strings.TrimPrefix(u.Path, "/")); err == nil {
			database = n
		}
	}
	return redis.DialContext(ctx, network, addr, append(options.dial(), redis.DialDatabase(database))...)
}
