package renewal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// store stands for Redis. It keeps keys, which are numbers, until their TTL is over by the
// clock of the test's bubble.
type store struct {
	mu      sync.Mutex
	expiry  []time.Time // by key; zero if the key was deleted
	renewed int         // renewals that found their key

	fault func() fault  // returns the fault of the next call; nil if there is none
	write func(key int) // is called with every key that is being written; may be nil
}

// fault is what the network does to one call.
type fault struct {
	dial   time.Duration // until the first byte is written
	before time.Duration // until the store carries it out
	after  time.Duration // until the answer is there
	drop   bool          // the request never reaches the store
	mute   bool          // the answer is lost
	repeat bool          // the store asks for the request once more, as Redis does with NOSCRIPT
}

var errNetwork = errors.New("the network failed")

// Renew implements renewal.Renewer for holders.
func (s *store) Renew(ctx context.Context, b *renewal.Batch) {
	s.renew(ctx, b, func(o renewal.Owner) int { return o.(*holder).key })
}

func (s *store) renew(ctx context.Context, b *renewal.Batch, keyOf func(renewal.Owner) int) {
	s.mu.Lock()
	var f fault
	if s.fault != nil {
		f = s.fault()
	}
	s.mu.Unlock()
	time.Sleep(f.dial)
	keys := make([]int, 0, b.Len())
	send := func(live []int, by time.Time) error {
		if !time.Now().Before(by) {
			return errNetwork
		}
		keys = keys[:0]
		for _, i := range live {
			key := keyOf(b.Owner(i))
			if b.Fixed(i) {
				keys = append(keys, ^key) // only checked, not extended
			} else {
				keys = append(keys, key)
			}
			if s.write != nil {
				s.write(key)
			}
		}
		return nil
	}
	live, err := b.Send(send)
	if f.repeat && err == nil {
		time.Sleep(f.after)
		live, err = b.Send(send)
	}
	if err != nil || len(live) == 0 {
		return
	}
	gone, err := s.roundTrip(ctx, f, keys, b.TTL())
	if err != nil {
		b.Fail(err)
		return
	}
	for _, i := range live {
		b.Renewed(i)
	}
	for _, i := range gone {
		b.Lost(live[i])
	}
}

// roundTrip extends keys across a network with the fault f.
func (s *store) roundTrip(ctx context.Context, f fault, keys []int, ttl time.Duration) ([]int, error) {
	if f == (fault{}) {
		return s.extend(keys, ttl), nil
	}
	answer := make(chan []int, 1)
	keys = append([]int(nil), keys...)
	go func() { // the store acts even if the caller has given up
		time.Sleep(f.before)
		if !f.drop {
			answer <- s.extend(keys, ttl)
		}
	}()
	select {
	case gone := <-answer:
		time.Sleep(f.after)
		if f.mute || ctx.Err() != nil {
			<-ctx.Done()
			return nil, errNetwork
		}
		return gone, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *store) extend(keys []int, ttl time.Duration) (gone []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	end := now.Add(ttl)
	for i, key := range keys {
		fixed := key < 0
		if fixed {
			key = ^key
		}
		if !now.Before(s.expiry[key]) {
			gone = append(gone, i)
			continue
		}
		if fixed {
			continue
		}
		s.renewed++
		if end.After(s.expiry[key]) { // nothing lowers a TTL
			s.expiry[key] = end
		}
	}
	return gone
}

// timeLeft returns how long the store will still keep the key; 0 or less if it has no such key.
func (s *store) timeLeft(key int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.expiry[key])
}

// countRenewed returns how many renewals found their key.
func (s *store) countRenewed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed
}

func (s *store) delete(key int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry[key] = time.Time{}
}

func (s *store) setFault(f func() fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// blackHole drops everything for d from now.
func (s *store) blackHole(d time.Duration) {
	end := time.Now().Add(d)
	s.setFault(func() fault { return fault{drop: time.Now().Before(end)} })
}

// put puts a new key into the store.
func (s *store) put(ttl time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry = append(s.expiry, time.Now().Add(ttl))
	return len(s.expiry) - 1
}

// holder is the owner of a lease in a test. It records the calls of Lost.
type holder struct {
	lease renewal.Lease
	key   int
	store *store

	mu     sync.Mutex
	told   []renewal.Reason
	at     time.Time     // of the last call
	spared time.Duration // how long the store would still have kept the key then
}

func (h *holder) Lost(r renewal.Reason) {
	left := h.store.timeLeft(h.key)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, r)
	h.at, h.spared = time.Now(), left
}

// reasons returns what the holder was told.
func (h *holder) reasons() []renewal.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// toldAt returns when Lost was called.
func (h *holder) toldAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// hold puts a new key into the store and its lease under the watchdog.
func (s *store) hold(t testing.TB, ln *renewal.Lane, terms renewal.Terms) *holder {
	terms.Stamp = time.Now()
	h := &holder{key: s.put(terms.TTL), store: s}
	require.NoError(t, ln.Hold(&h.lease, h, terms))
	return h
}

// renewedFor are the terms of a lease that is renewed.
func renewedFor(ttl time.Duration) renewal.Terms { return renewal.Terms{TTL: ttl} }

// fixedFor are the terms of a lease that is not renewed.
func fixedFor(ttl time.Duration) renewal.Terms { return renewal.Terms{TTL: ttl, Fixed: true} }

func (s *store) holdMany(t testing.TB, ln *renewal.Lane, n int, ttl time.Duration) []*holder {
	hs := make([]*holder, n)
	for i := range hs {
		hs[i] = s.hold(t, ln, renewedFor(ttl))
	}
	return hs
}

// boundedRenewer bounds each call of a Renewer, as an I/O timeout does.
type boundedRenewer struct {
	renewal.Renewer
	after time.Duration
}

func (c *boundedRenewer) Renew(ctx context.Context, b *renewal.Batch) {
	ctx, cancel := context.WithTimeout(ctx, c.after)
	defer cancel()
	c.Renewer.Renew(ctx, b)
}

// renewFunc is a Renewer.
type renewFunc func(context.Context, *renewal.Batch)

func (f renewFunc) Renew(ctx context.Context, b *renewal.Batch) { f(ctx, b) }

// newLane returns a watchdog, closed by the end of the test, with one lane that
// renews through r.
func newLane(t testing.TB, r renewal.Renewer, cfg renewal.Config) (*renewal.Watchdog, *renewal.Lane) {
	w, err := renewal.New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	ln, err := w.Lane("test", r)
	require.NoError(t, err)
	// Wake-ups are at whole windows from New. No test looks at the very instant of a
	// wake-up.
	time.Sleep(w.Config().Tick / 3)
	return w, ln
}
