package renewal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// store is a store with expiry, as the watchdog's far side: it keeps keys until
// their TTL is over by the clock of the test's bubble.
type store struct {
	mu      sync.Mutex
	expiry  map[string]time.Time
	renewed int // renewals that found their key

	// fault decides what happens to the next call; nil is a healthy network.
	fault func() fault
}

// fault is what the network does to one call.
type fault struct {
	before time.Duration // until the store carries it out
	after  time.Duration // until the answer is there
	drop   bool          // it never reaches the store
	mute   bool          // its answer is lost
}

var errNetwork = errors.New("the network failed")

func newStore() *store { return &store{expiry: make(map[string]time.Time)} }

// Renew implements renewal.Renewer.
func (s *store) Renew(ctx context.Context, b *renewal.Batch) {
	var f fault
	s.mu.Lock()
	if s.fault != nil {
		f = s.fault()
	}
	s.mu.Unlock()
	keys := make([]string, b.Len())
	for i := range keys {
		keys[i] = b.Owner(i).(*holder).key
	}
	ttl, gone := b.TTL(), make(chan []int, 1)
	go func() { // the store acts even if the caller has given up
		time.Sleep(f.before)
		if !f.drop {
			gone <- s.extend(keys, ttl)
		}
	}()
	select {
	case lost := <-gone:
		time.Sleep(f.after)
		if f.mute || ctx.Err() != nil {
			<-ctx.Done()
			b.UnknownAll(errNetwork)
			return
		}
		for _, i := range lost {
			b.Lost(i)
		}
	case <-ctx.Done():
		b.UnknownAll(ctx.Err())
	}
}

func (s *store) extend(keys []string, ttl time.Duration) (lost []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i, key := range keys {
		if end, ok := s.expiry[key]; !ok || !now.Before(end) {
			lost = append(lost, i)
			continue
		}
		s.renewed++
		s.expiry[key] = now.Add(ttl)
	}
	return lost
}

// left is how long the store will keep the key; not above 0 if it has it not.
func (s *store) left(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.expiry[key])
}

// count is how many renewals found their key.
func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed
}

func (s *store) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expiry, key)
}

func (s *store) setFault(f func() fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// holder is the owner of a lease in a test. It notes what it is told, and how
// long the store would still have kept its key.
type holder struct {
	lease renewal.Lease
	key   string
	store *store

	mu     sync.Mutex
	told   []renewal.Reason
	spared time.Duration
	done   chan struct{}
}

func (h *holder) Lost(r renewal.Reason) {
	left := h.store.left(h.key)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, r)
	h.spared = left
	if len(h.told) == 1 {
		close(h.done)
	}
}

// reasons returns what the holder was told.
func (h *holder) reasons() []renewal.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// hold puts a key into the store and its lease under the watchdog.
func (s *store) hold(t testing.TB, ln *renewal.Lane, key string, ttl time.Duration, fixed bool) *holder {
	h := &holder{key: key, store: s, done: make(chan struct{})}
	stamp := time.Now()
	s.mu.Lock()
	s.expiry[key] = stamp.Add(ttl)
	s.mu.Unlock()
	require.NoError(t, ln.Hold(&h.lease, h, renewal.Terms{Stamp: stamp, TTL: ttl, Fixed: fixed}))
	return h
}

func (s *store) holdMany(t testing.TB, ln *renewal.Lane, n int, ttl time.Duration) []*holder {
	hs := make([]*holder, n)
	for i := range hs {
		hs[i] = s.hold(t, ln, fmt.Sprint("key ", i), ttl, false)
	}
	return hs
}

// cut bounds each call of a Renewer, as an I/O timeout does.
type cut struct {
	renewal.Renewer
	after time.Duration
}

func (c *cut) Renew(ctx context.Context, b *renewal.Batch) {
	ctx, cancel := context.WithTimeout(ctx, c.after)
	defer cancel()
	c.Renewer.Renew(ctx, b)
}

// panicky panics at every other call.
type panicky struct {
	*store
	calls int
}

func (p *panicky) Renew(ctx context.Context, b *renewal.Batch) {
	if p.calls++; p.calls%2 == 1 {
		panic("half of the time")
	}
	p.store.Renew(ctx, b)
}

// newLane returns a watchdog with one lane to s.
func newLane(t testing.TB, s *store, cfg renewal.Config) (*renewal.Watchdog, *renewal.Lane) {
	return newLaneOf(t, s, cfg)
}

// newLaneOf returns a watchdog, closed by the end of the test, with one lane
// that renews through r.
func newLaneOf(t testing.TB, r renewal.Renewer, cfg renewal.Config) (*renewal.Watchdog, *renewal.Lane) {
	w, err := renewal.New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	ln, err := w.Lane("test", r)
	require.NoError(t, err)
	return w, ln
}
