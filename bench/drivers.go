package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// driver is one way to keep locks renewed.
type driver struct {
	name    string
	sweep   bool           // bench's own; otherwise the engine with this setting:
	renewal renewal.Config // of lock.Config
}

// oneByOne is how many round trips the drivers without batches may have under
// way: enough to keep a server busy, and what a pool by hand would have.
const oneByOne = 64

func allDrivers() []driver {
	return []driver{
		{name: "wheel-batch"},
		{name: "wheel", renewal: renewal.Config{MaxBatch: 1, Dispatchers: oneByOne}},
		{name: "afterfunc-batch", renewal: renewal.Config{Driver: renewal.AfterFunc}},
		{name: "afterfunc", renewal: renewal.Config{Driver: renewal.AfterFunc, MaxBatch: 1, Dispatchers: oneByOne}},
		{name: "sweep", sweep: true},
	}
}

func driverNames() []string {
	var names []string
	for _, d := range allDrivers() {
		names = append(names, d.name)
	}
	return names
}

func driverNamed(name string) (driver, bool) {
	for _, d := range allDrivers() {
		if d.name == name {
			return d, true
		}
	}
	return driver{}, false
}

// holder takes, keeps and gives back the locks of a row, numbered from 0.
// acquire and release may be called by many goroutines, for another lock each.
type holder interface {
	acquire(ctx context.Context, i int) error
	// begin is called when all are taken: counters counts from there.
	begin()
	counters() counters
	// live is how many locks the holder believes to hold now; it is cheap.
	live() int
	// owns says whether a field that stands in lock i's hash is the holder's.
	owns(i int, field string) bool
	// release gives lock i back if it was taken; lock.ErrLost if it had been
	// lost.
	release(ctx context.Context, i int) error
	close()
}

// counters are what a holder knows of its renewals.
type counters struct {
	renewals       uint64 // answered since begin
	batches        uint64 // round trips of renewals since begin
	p50, p99, most time.Duration
	missed         int // locks whose trust ended, since they were taken
}

// newHolder returns the driver's holder of n locks.
func newHolder(d driver, srv *redistest.Server, name func(i int) string, n int, lease time.Duration) (holder, error) {
	if d.sweep {
		return newSweep(srv, name, n, lease)
	}
	client, dials, err := newClient(srv, lock.Config{Lease: lease, Renewal: d.renewal})
	if err != nil {
		return nil, err
	}
	return &engine{client: client, dials: dials, name: name, held: make([]*lock.Held, n)}, nil
}

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

func (e *engine) acquire(ctx context.Context, i int) error {
	name := e.name(i)
	held, err := e.client.Mutex(name).Lock(lock.WithOwner(ctx, ownerOf(name)))
	if err != nil {
		return err
	}
	e.held[i] = held
	return nil
}

func (e *engine) begin() { e.before = e.client.Stats().Renewal }

func (e *engine) counters() counters {
	now := e.client.Stats().Renewal
	hold := now.Since(e.before)
	return counters{
		renewals: hold.Renewed, batches: hold.Batches,
		p50: hold.Late.P50, p99: hold.Late.P99, most: hold.Late.Max,
		missed: now.Lost[renewal.TrustEnded],
	}
}

func (e *engine) live() int { return e.client.Stats().Held }

func (e *engine) owns(i int, field string) bool {
	return strings.HasPrefix(field, e.client.ID()+":"+ownerOf(e.name(i))+":")
}

// ownerOf is the owner of a lock: each has one of its own, which makes the check on
// the server exact. It is a part of the name, so that it takes no memory.
func ownerOf(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

func (e *engine) release(ctx context.Context, i int) error {
	if e.held[i] == nil {
		return nil
	}
	return e.held[i].Unlock(ctx)
}

func (e *engine) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what could not be released is left to its lease
	_ = e.client.Close(ctx)
}
