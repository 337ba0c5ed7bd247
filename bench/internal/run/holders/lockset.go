package holders

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

const (
	// RoundTrips is how many round trips the rows without batches may have under
	// way to each master: enough to keep a server busy, and what a pool by hand
	// would have.
	RoundTrips = 64
	// Batchers is how many batches may be under way to each master, as in the
	// library.
	Batchers = 2
	// BatchSize is how many locks are renewed by one call of the script at most,
	// as in the library.
	BatchSize = 128
	// roundTripSize is how many are renewed in one round trip at most: in several
	// calls, sent together.
	roundTripSize = 8 * BatchSize
)

// lockSet is what all rows except the library's have in common: a record for each
// lock, how a lock is acquired and released, and how locks are renewed on a
// connection. The row decides which locks are renewed, and when.
type lockSet struct {
	// immutable
	target  *Target
	meter   *Meter
	id      string // of this row, part of every field
	lease   time.Duration
	timeout time.Duration // of a round trip
	records []heldLock    // by number
	pools   []*redis.Pool // by lane, to acquire and to release
	prefix  any           // of all fields
	ttl     any           // the lease as an argument

	scheduler scheduler // set once, before the first lock is acquired

	heldCount atomic.Int64
}

// heldLock is one lock. Its timer, if the row has timers, is in the timerSet.
type heldLock struct {
	key   any // the name, ready as an argument, so that a renewal makes no garbage
	lane  int16
	state atomic.Uint32
}

// States of a record.
const (
	stateFree uint32 = iota // to held when it is acquired
	stateHeld               // to lost when it is gone or its trust has ended, to free by Release
	stateLost               // to free by Release
)

// scheduler schedules the next renewal of a lock.
type scheduler interface {
	// scheduleRenewal is called when lock i was renewed, or could not be renewed. Its
	// next renewal is due after d.
	scheduleRenewal(i int32, d time.Duration)
}

// noTimers is the scheduler of a row without timers.
type noTimers struct{}

func (noTimers) scheduleRenewal(int32, time.Duration) {}

func newLockSet(t *Target, m *Meter, prefix string, n int, lease time.Duration) *lockSet {
	k := &lockSet{
		target: t, meter: m, id: strings.ToLower(rand.Text()[:10]), lease: lease, timeout: min(lock.DefaultIOTimeout, lease/10),
		records: make([]heldLock, n), ttl: lease.Milliseconds(), scheduler: noTimers{},
	}
	k.prefix = k.id + ":"
	for i := range k.records {
		name := prefix + strconv.Itoa(i)
		k.records[i].key, k.records[i].lane = name, int16(t.Lane(name))
	}
	for lane := range t.servers {
		k.pools = append(k.pools, &redis.Pool{
			MaxActive: RoundTrips, MaxIdle: RoundTrips, Wait: true,
			DialContext: func(ctx context.Context) (redis.Conn, error) { return k.dial(ctx, lane) },
		})
	}
	return k
}

func (k *lockSet) dial(ctx context.Context, lane int) (redis.Conn, error) {
	conn, err := k.target.dial(ctx, lane)
	if err != nil {
		return nil, err
	}
	return k.meter.meterConn(conn, lane), nil
}

// countPerLane is how many locks each lane has.
func (k *lockSet) countPerLane() []int {
	counts := make([]int, len(k.pools))
	for i := range k.records {
		counts[k.records[i].lane]++
	}
	return counts
}

// field is lock i's field in its hash.
func (k *lockSet) field(i int) string { return k.id + ":" + k.records[i].key.(string) }

func (k *lockSet) Owns(i int, field string) bool { return field == k.field(i) }

func (k *lockSet) CountHeld() int { return int(k.heldCount.Load()) }

// acquire acquires lock i; it is not renewed yet.
func (k *lockSet) acquire(ctx context.Context, i int) error {
	r := &k.records[i]
	conn, err := k.pools[r.lane].GetContext(ctx)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer conn.Close()
	// One key: no token is minted, so that nothing stays in Redis.
	reply, err := redis.Int64s(Eval(conn, IOTimeout, script.Acquire, []any{nil, 1, r.key, k.field(i), k.ttl, 0}))
	if err != nil {
		return fmt.Errorf("bench: acquire: %w", err)
	}
	if len(reply) != 2 || reply[0] != 1 {
		return fmt.Errorf("bench: acquire: %v is held by another owner", r.key)
	}
	r.state.Store(stateHeld)
	k.heldCount.Add(1)
	return nil
}

// markLost makes lock i lost, if it is held.
func (k *lockSet) markLost(i int32) {
	if k.records[i].state.CompareAndSwap(stateHeld, stateLost) {
		k.heldCount.Add(-1)
	}
}

func (k *lockSet) Release(ctx context.Context, i int) error {
	r := &k.records[i]
	was := r.state.Swap(stateFree)
	switch was {
	case stateFree:
		return nil // never acquired
	case stateHeld:
		k.heldCount.Add(-1)
	}
	conn, err := k.pools[r.lane].GetContext(ctx)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer conn.Close()
	channel := "redisson_lock__channel:{" + r.key.(string) + "}"
	n, err := redis.Int(Eval(conn, IOTimeout, script.Release, []any{nil, 1, r.key, k.field(i), channel}))
	switch {
	case err != nil:
		return fmt.Errorf("bench: release: %w", err)
	case n < 1 || was == stateLost:
		return lock.ErrLost
	}
	return nil
}

func (k *lockSet) closePools() {
	for _, p := range k.pools {
		_ = p.Close()
	}
}

// lane is a connection on which a row's goroutine renews locks of one master. Only one
// goroutine at a time uses it, but any goroutine may call close.
type lane struct {
	locks  *lockSet // immutable
	number int      // immutable

	args  []any
	waits []time.Duration

	mu     sync.Mutex // guards what follows; not held during I/O
	conn   redis.Conn // nil when there is none
	closed bool
}

// renew renews some locks of the lane in one round trip, and schedules the next
// renewal of each. Locks whose trust has ended are marked as lost instead. renew
// overwrites the slice some.
func (l *lane) renew(some []int32) {
	k := l.locks
	some = k.meter.keepTrusted(some, k.markLost)
	if len(some) == 0 {
		return
	}
	left, err := l.makeRoundTrip(some)
	if err != nil {
		l.hangUp()
		for _, i := range left { // until trust ends
			k.scheduler.scheduleRenewal(i, k.lease/30)
		}
	}
}

// makeRoundTrip sends the renewals and applies the answers. After an error, the
// connection cannot be used any more, and left are the locks without an answer.
func (l *lane) makeRoundTrip(some []int32) (left []int32, err error) {
	k := l.locks
	conn, err := l.connect()
	if err != nil {
		return some, err
	}
	size := BatchSize
	if k.target.IsCluster() { // a call takes keys of one slot alone
		size = 1
	}
	written := time.Now()
	for from := 0; from < len(some); from += size {
		call := some[from:min(from+size, len(some))]
		l.args = append(l.args[:0], renewSHA, len(call))
		for _, i := range call {
			l.args = append(l.args, k.records[i].key)
		}
		l.args = append(l.args, k.ttl, k.prefix)
		for _, i := range call {
			l.args = append(l.args, k.records[i].key)
		}
		l.args = append(l.args, 0) // no time limit
		if err := conn.Send("EVALSHA", l.args...); err != nil {
			return some, err
		}
	}
	if err := conn.Flush(); err != nil {
		return some, err
	}
	for len(some) > 0 {
		reply, err := redis.ReceiveWithTimeout(conn, max(k.timeout-time.Since(written), time.Millisecond))
		answer, err := redis.Values(reply, err)
		if err != nil {
			return some, err // NOSCRIPT too: a new connection loads the script
		}
		call := some[:min(size, len(some))]
		some = some[len(call):]
		l.applyAnswer(call, answer)
	}
	return nil, nil
}

// applyAnswer marks locks that Redis no longer has as lost, and schedules the
// next renewal of the others. call are the locks of the call that was answered.
func (l *lane) applyAnswer(call []int32, answer []any) {
	k := l.locks
	for _, e := range answer {
		place, gone := e.(int64)
		if parts, refused := e.([]any); refused && len(parts) > 0 {
			place, _ = parts[0].(int64)
		}
		if place < 1 || place > int64(len(call)) {
			continue
		}
		if i := call[place-1]; gone {
			k.markLost(i)
		} else {
			k.scheduler.scheduleRenewal(i, k.lease/30)
		}
		call[place-1] = -1
	}
	call = slices.DeleteFunc(call, func(i int32) bool { return i < 0 })
	l.waits = k.meter.waitsUntilDue(call, l.waits)
	for at, i := range call {
		k.scheduler.scheduleRenewal(i, l.waits[at])
	}
}

// connect returns the lane's connection. It dials and loads the script if there is none.
func (l *lane) connect() (redis.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.locks.timeout)
	defer cancel()
	conn, err := l.locks.dial(ctx, l.number)
	if err != nil {
		return nil, err
	}
	if _, err := redis.DoWithTimeout(conn, l.locks.timeout, "SCRIPT", "LOAD", script.Renew.Text()); err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	l.conn = conn
	return conn, nil
}

// errClosed is the error of connect when the row has ended.
var errClosed = errors.New("bench: the row is over")

// hangUp closes the connection.
func (l *lane) hangUp() {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// close closes the connection, and connect makes no new one.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.hangUp()
}

// renewSHA names the script, as an argument.
var renewSHA any = script.Renew.SHA()
