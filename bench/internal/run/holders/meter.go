package holders

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// Meter counts the renewals of a row, in the same way for every row: it reads the
// requests and the answers on the row's own connections, and does not rely on what
// the row says.
//
// A lock's renewal is due an interval, a third of the lease, after the last one was
// due. If the last one was written before it was due, or more than half an interval
// after, the interval begins when it was written. So a row is measured against the
// rhythm that it keeps. A renewal is late by the time from its due point to
// its answer, not below 0. Trust in a lock ends a margin, the library's own, before
// the lease is over, counted from when the last request that Redis confirmed was
// written. A lock whose trust ended before a renewal was answered is missed: it
// counts once, and no renewal of it counts afterwards.
//
// Methods are safe for concurrent use.
type Meter struct {
	// immutable
	prefix   string // of the locks' names
	base     time.Time
	interval time.Duration // from a request to the next due point
	trust    time.Duration // from a request to the end of trust

	mu          sync.Mutex      // guards what follows; never held during I/O
	confirmedAt []time.Duration // by lock: when the last request that Redis said yes to was written, since base; 0: not held
	dueEarlier  []int32         // by lock: how much sooner than confirmedAt + interval its renewal is due, in us
	late        *hdr.Histogram  // in us
	renewals    []uint64        // answered, by lane
	roundTrips  uint64          // round trips that had renewals in them
	missed      int
	dials       int
}

// Counters are what a Meter has counted.
type Counters struct {
	Renewals      uint64        // answered since Begin
	Batches       uint64        // round trips of renewals since Begin
	ByLane        []uint64      // Renewals of each master
	P50, P99, Max time.Duration // how late the renewals since Begin were
	Missed        int           // locks whose trust ended, since they were acquired
	Dials         int           // connections opened, since the row began
}

// newMeter returns a meter for n locks on this number of lanes. The name of a lock is
// prefix and its number.
func newMeter(prefix string, n, lanes int, lease time.Duration) (*Meter, error) {
	// The library's own margin, whatever its rule is.
	dog, err := renewal.New(renewal.Config{TTL: lease})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer dog.Close()
	return &Meter{
		prefix: prefix, interval: lease / 3, trust: lease - dog.Margin(lease),
		base:        time.Now().Add(-time.Second), // no moment of the row is 0
		confirmedAt: make([]time.Duration, n), dueEarlier: make([]int32, n), renewals: make([]uint64, lanes),
		// To 1 in 100. A renewal that is late by a lease is missed, so all others fit.
		late: hdr.New(1, int64(lease/time.Microsecond), 2),
	}, nil
}

func (m *Meter) now() time.Duration { return time.Since(m.base) }

// Begin is called when all locks are acquired. Counters counts from then on, except
// for missed locks.
func (m *Meter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late.Reset()
	m.roundTrips = 0
	clear(m.renewals)
}

// Counters returns the counters until now.
func (m *Meter) Counters() Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for i := range m.confirmedAt {
		m.checkTrustLocked(int32(i), now)
	}
	at := func(q float64) time.Duration {
		return time.Duration(m.late.ValueAtQuantile(q)) * time.Microsecond
	}
	c := Counters{
		Batches: m.roundTrips, ByLane: append([]uint64(nil), m.renewals...),
		P50: at(50), P99: at(99), Max: at(100), Missed: m.missed, Dials: m.dials,
	}
	for _, n := range m.renewals {
		c.Renewals += n
	}
	return c
}

// keepTrusted removes the locks whose trust has ended from some, in place, and calls over for
// each of them.
func (m *Meter) keepTrusted(some []int32, over func(i int32)) []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, kept := m.now(), some[:0]
	for _, i := range some {
		if m.checkTrustLocked(i, now) {
			kept = append(kept, i)
		} else {
			over(i)
		}
	}
	return kept
}

// checkTrustLocked reports whether lock i is held at now. If its trust has ended, it
// counts the lock as missed.
func (m *Meter) checkTrustLocked(i int32, now time.Duration) bool {
	switch {
	case m.confirmedAt[i] == 0:
		return false
	case now > m.confirmedAt[i]+m.trust:
		m.confirmedAt[i] = 0
		m.missed++
		return false
	}
	return true
}

// action is what a request does to its locks.
type action uint8

const (
	acquires action = iota + 1
	renews
	releases
)

// request is one call of a script on its way.
type request struct {
	action  action
	written time.Duration
	locks   []int32
}

// requestPool reuses requests, because a row makes one for nearly every lock.
var requestPool = sync.Pool{New: func() any { return new(request) }}

// readRequest returns what a command does to locks of the row, or nil if it does nothing to them.
func (m *Meter) readRequest(command string, args []any) *request {
	if command != "EVALSHA" && command != "EVAL" || len(args) < 3 {
		return nil
	}
	var action action
	switch text, _ := args[0].(string); text {
	case script.Renew.SHA(), script.Renew.Text():
		action = renews
	case script.Acquire.SHA(), script.Acquire.Text():
		action = acquires
	case script.Release.SHA(), script.Release.Text():
		action = releases
	default:
		return nil
	}
	keys := args[2:]
	if n, ok := args[1].(int); ok && n <= len(keys) {
		keys = keys[:n]
	}
	if action != renews {
		keys = keys[:1] // the other keys, such as a counter, are no locks
	}
	r := requestPool.Get().(*request)
	r.action, r.written, r.locks = action, m.now(), r.locks[:0]
	for _, key := range keys {
		r.locks = append(r.locks, m.lockNumber(key))
	}
	if action == releases {
		// From this request on the lock is not trusted, even if the request fails.
		m.mu.Lock()
		for _, i := range r.locks {
			if i >= 0 {
				m.checkTrustLocked(i, r.written)
				m.confirmedAt[i] = 0
			}
		}
		m.mu.Unlock()
	}
	return r
}

// lockNumber returns the number of the lock with this name, or -1 if it is no lock of the row.
func (m *Meter) lockNumber(key any) int32 {
	var digits string
	switch key := key.(type) {
	case string:
		if len(key) > len(m.prefix) && key[:len(m.prefix)] == m.prefix {
			digits = key[len(m.prefix):]
		}
	case []byte: // the library reuses this buffer
		if len(key) > len(m.prefix) && string(key[:len(m.prefix)]) == m.prefix {
			digits = string(key[len(m.prefix):])
		}
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 0 || i >= len(m.confirmedAt) {
		return -1
	}
	return int32(i)
}

// noteAnswer counts a request's answer.
func (m *Meter) noteAnswer(lane int, r *request, reply any, err error) {
	defer requestPool.Put(r)
	answer, ok := reply.([]any)
	if err != nil || !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	switch r.action {
	case acquires:
		if i := r.locks[0]; i >= 0 && len(answer) > 0 && answer[0] == any(int64(1)) {
			m.confirmedAt[i], m.dueEarlier[i] = r.written, 0
		}
		return
	case releases:
		return
	}
	for _, e := range answer { // places of locks that are gone, or that Redis did not renew
		place, gone := e.(int64)
		if parts, refused := e.([]any); refused && len(parts) > 0 {
			place, _ = parts[0].(int64)
		}
		if place < 1 || place > int64(len(r.locks)) {
			continue
		}
		if i := r.locks[place-1]; gone && i >= 0 {
			m.checkTrustLocked(i, now) // counts it as missed if its trust ended before this answer
			m.confirmedAt[i] = 0
		}
		r.locks[place-1] = -1
	}
	for _, i := range r.locks {
		if i < 0 || !m.checkTrustLocked(i, now) {
			continue
		}
		due := m.nextDueLocked(i)
		_ = m.late.RecordValue(max(int64((now-due)/time.Microsecond), 1))
		m.renewals[lane]++
		if r.written < m.confirmedAt[i] {
			continue // an older request, answered after a newer one
		}
		m.confirmedAt[i], m.dueEarlier[i] = r.written, 0
		if behind := r.written - due; behind > 0 && behind <= m.interval/2 {
			m.dueEarlier[i] = int32(min(behind/time.Microsecond, math.MaxInt32))
		}
	}
}

// nextDueLocked returns when lock i's next renewal is due.
func (m *Meter) nextDueLocked(i int32) time.Duration {
	return m.confirmedAt[i] + m.interval - time.Duration(m.dueEarlier[i])*time.Microsecond
}

// waitsUntilDue returns, for each lock, how long it is until its next renewal is due. It
// overwrites the slice waits.
func (m *Meter) waitsUntilDue(some []int32, waits []time.Duration) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	waits = waits[:0]
	for _, i := range some {
		waits = append(waits, m.nextDueLocked(i)-now)
	}
	return waits
}

// meterConn puts the meter on conn, a connection to the master of the lane.
func (m *Meter) meterConn(conn redis.Conn, lane int) redis.Conn {
	m.mu.Lock()
	m.dials++
	m.mu.Unlock()
	return &meteredConn{Conn: conn, meter: m, lane: lane}
}

// meteredConn passes all calls on to a connection, and shows them to a meter.
type meteredConn struct {
	redis.Conn
	meter *Meter // immutable
	lane  int    // immutable

	mu         sync.Mutex // guards what follows
	sent       []*request // in order; nil for a command that concerns no lock of the row
	head       int        // of sent: the oldest that is not answered
	hasRenewal bool       // a renewal was written since the last flush
}

func (c *meteredConn) Send(command string, args ...any) error {
	c.noteRequest(command, args)
	return c.Conn.Send(command, args...)
}

func (c *meteredConn) noteRequest(command string, args []any) {
	r := c.meter.readRequest(command, args)
	c.mu.Lock()
	c.sent = append(c.sent, r)
	c.hasRenewal = c.hasRenewal || r != nil && r.action == renews
	c.mu.Unlock()
}

func (c *meteredConn) Flush() error {
	c.noteFlush()
	return c.Conn.Flush()
}

func (c *meteredConn) noteFlush() {
	c.mu.Lock()
	trip := c.hasRenewal
	c.hasRenewal = false
	c.mu.Unlock()
	if trip {
		c.meter.mu.Lock()
		c.meter.roundTrips++
		c.meter.mu.Unlock()
	}
}

func (c *meteredConn) Receive() (any, error) {
	reply, err := c.Conn.Receive()
	return c.noteReply(reply, err)
}

func (c *meteredConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	return c.noteReply(reply, err)
}

func (c *meteredConn) noteReply(reply any, err error) (any, error) {
	if r := c.popRequest(); r != nil {
		c.meter.noteAnswer(c.lane, r, reply, err)
	}
	return reply, err
}

// popRequest takes the oldest request that is not answered. It returns nil if there is
// none, as for a message to a subscriber, or if the request concerns no lock of the row.
func (c *meteredConn) popRequest() *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.sent) {
		return nil
	}
	r := c.sent[c.head]
	if c.head++; c.head == len(c.sent) {
		c.sent, c.head = c.sent[:0], 0
	}
	return r
}

func (c *meteredConn) Do(command string, args ...any) (any, error) {
	return c.do(command, args, func() (any, error) { return c.Conn.Do(command, args...) })
}

func (c *meteredConn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.do(command, args, func() (any, error) { return redis.DoWithTimeout(c.Conn, timeout, command, args...) })
}

// do runs a command and waits for its answer. No earlier command may be without
// its answer.
func (c *meteredConn) do(command string, args []any, do func() (any, error)) (any, error) {
	c.noteRequest(command, args)
	c.noteFlush()
	return c.noteReply(do())
}
