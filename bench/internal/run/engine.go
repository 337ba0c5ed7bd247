package run

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// newClient makes a client of srv and a count of the connections it dials.
func newClient(srv *redistest.Server, cfg lock.Config) (*lock.Client, *atomic.Int64, error) {
	dials := new(atomic.Int64)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		dials.Add(1)
		return srv.DialContext(ctx)
	}}
	client, err := lock.New(pool, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	return client, dials, nil
}

// engine is the library, used as its users do.
type engine struct {
	client *lock.Client
	dials  *atomic.Int64
	name   func(i int) string
	held   []*lock.Held // by number; nil before it is taken
	before renewal.Stats
}

func (e *engine) Acquire(ctx context.Context, i int) error {
	name := e.name(i)
	held, err := e.client.Mutex(name).Lock(lock.WithOwner(ctx, ownerOf(name)))
	if err != nil {
		return err
	}
	e.held[i] = held
	return nil
}

func (e *engine) Begin() { e.before = e.client.Stats().Renewal }

func (e *engine) Counters() Counters {
	now := e.client.Stats().Renewal
	hold := now.Since(e.before)
	return Counters{
		Renewals: hold.Renewed, Batches: hold.Batches,
		P50: hold.Late.P50, P99: hold.Late.P99, Max: hold.Late.Max,
		Missed: now.Lost[renewal.TrustEnded],
	}
}

func (e *engine) Live() int { return e.client.Stats().Held }

func (e *engine) Owns(i int, field string) bool {
	return strings.HasPrefix(field, e.client.ID()+":"+ownerOf(e.name(i))+":")
}

// ownerOf is the owner of a lock: each has one of its own, which makes the check on
// the server exact. It is a part of the name, so that it takes no memory.
func ownerOf(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

func (e *engine) Release(ctx context.Context, i int) error {
	if e.held[i] == nil {
		return nil
	}
	return e.held[i].Unlock(ctx)
}

func (e *engine) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what could not be released is left to its lease
	_ = e.client.Close(ctx)
}
