package main

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

// eachMaster calls f with a connection to each server that has locks, one after the other, until f returns false
// or an error.
func (s *servers) eachMaster(ctx context.Context, f func(conn redis.Conn) (more bool, err error)) error {
	client, err := s.open(lock.Config{}) // it finds errors of usage, without I/O
	if err != nil {
		return err
	}
	closeClient(client)
	names, dial, err := s.masters(ctx)
	if err != nil {
		return &lock.UnknownError{Op: "list", Err: err}
	}
	for _, name := range names {
		conn, err := dial(ctx, name)
		if err != nil {
			return &lock.UnknownError{Op: "list", Err: err}
		}
		more, err := f(conn)
		conn.Close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// masters returns the names of the servers that have locks, and a function that connects to
// one of them.
func (s *servers) masters(ctx context.Context) (names []string, dial func(ctx context.Context, name string) (redis.Conn, error), err error) {
	u, err := endpoint.Parse(s.url())
	if err != nil {
		return nil, nil, err
	}
	switch u.Kind {
	case endpoint.Cluster:
		nodes, err := cluster.Open(s.url(), cluster.Options{TLS: s.tls})
		if err != nil {
			return nil, nil, err
		}
		l := layoutOf(ctx, nodes)
		for _, server := range l.Servers {
			names = append(names, server.Name)
		}
		return names, nodes.Dial, l.Err
	case endpoint.Sentinels:
		master, err := sentinel.Open(s.url(), sentinel.Config{TLS: s.tls})
		if err != nil {
			return nil, nil, err
		}
		return []string{""}, master.Dial, nil
	}
	to, err := u.Dialer(endpoint.Settings{TLS: s.tls}, "%s")
	if err != nil {
		return nil, nil, err
	}
	return u.Addrs, func(ctx context.Context, address string) (redis.Conn, error) { return to.Dial(ctx, u.Network, address) }, nil
}

// layoutOf asks the nodes once for the list of servers.
func layoutOf(ctx context.Context, t topology.Topology) (l topology.Layout) {
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	t.Follow(asked, time.Hour, nil, func(first topology.Layout) { l = first; cancel() })
	if l.Err == nil && ctx.Err() != nil {
		l.Err = ctx.Err()
	}
	return l
}
