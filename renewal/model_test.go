package renewal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/renewal"
)

// inBubble hides the test's deadline, which is a time outside of the bubble.
type inBubble struct{ rapid.TB }

// TestLeaseModel checks random sequences of everything that can happen to
// leases against a model that knows no groups, batches or timers.
func TestLeaseModel(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		for range 2 { // sets of -rapid.checks sequences
			rapid.Check(inBubble{t}, func(rt *rapid.T) {
				m := newModel(rt, cfg)
				defer time.Sleep(10 * time.Second) // until the goroutines of the store end
				defer func() {
					m.w.Close()
					m.checkSlots(rt, 0)
				}()
				rt.Repeat(map[string]func(*rapid.T){
					"":            m.check,
					"hold":        m.hold,
					"release":     m.release,
					"extend":      m.extend,
					"set fixed":   m.setFixed,
					"move":        m.move,
					"pass":        m.pass,
					"delete":      m.delete,
					"network":     m.setNetwork,
					"wait":        m.wait,
					"wait longer": m.wait,
					"suspend":     m.suspend,
					"close":       m.close,
				})
			})
		}
	})
}

// model has what the store knows, and what an observer of all leases knows.
type model struct {
	s      *sleeper
	w      *renewal.Watchdog
	lanes  []*renewal.Lane
	cfg    renewal.Config
	leases []*modelLease
	closed bool
	good   time.Time // since when the network has been good; zero while it is not
	slept  time.Time // when the machine was last suspended
	lost   map[renewal.Reason]int
}

type modelLease struct {
	*holder
	fixed    bool
	since    time.Time // since when it is renewed
	deleted  time.Time // when the store forgot it; zero if it has not
	released bool
	deadline time.Time // Lease.Deadline at the last check
	seen     time.Time // when the last check was
	until    time.Time // the end of MaxHold, by the monotonic clock; zero if there is none
}

func (l *modelLease) hasEnded() bool { return l.released || len(l.reasons()) > 0 }

const modelTTL = 10 * time.Second

func newModel(rt *rapid.T, cfg renewal.Config) *model {
	cfg.TTL = modelTTL
	if rapid.Bool().Draw(rt, "MaxHold") {
		cfg.MaxHold = 25 * time.Second
	}
	w, err := renewal.New(cfg)
	require.NoError(rt, err)
	m := &model{s: &sleeper{store: &store{}}, w: w, cfg: w.Config(), good: time.Now(), lost: map[renewal.Reason]int{}}
	m.s.runs(w, rapid.Bool().Draw(rt, "the system counts suspension"))
	for range 2 {
		ln, err := w.Lane("", &boundedRenewer{Renewer: m.s, after: modelTTL / 30})
		require.NoError(rt, err)
		m.lanes = append(m.lanes, ln)
	}
	return m
}

func (m *model) drawLane(rt *rapid.T) *renewal.Lane {
	return m.lanes[rapid.IntRange(0, len(m.lanes)-1).Draw(rt, "lane")]
}

// drawLease draws one of the leases, ended or not.
func (m *model) drawLease(rt *rapid.T) *modelLease {
	if len(m.leases) == 0 {
		rt.Skip("no lease")
	}
	synctest.Wait() // the ends that the last check has noticed are told
	return m.leases[rapid.IntRange(0, len(m.leases)-1).Draw(rt, "lease")]
}

func (m *model) hold(rt *rapid.T) {
	ttl := modelTTL
	l := &modelLease{holder: &holder{store: m.s.store}, fixed: rapid.Bool().Draw(rt, "fixed")}
	if l.fixed {
		ttl = time.Duration(rapid.IntRange(100, 40_000).Draw(rt, "ms")) * time.Millisecond
	}
	stamp := time.Now()
	late := time.Duration(rapid.IntRange(0, 200).Draw(rt, "late ms")) * time.Millisecond
	l.key = m.s.put(ttl)
	time.Sleep(late)
	err := m.drawLane(rt).Hold(&l.lease, l.holder, renewal.Terms{Stamp: stamp, TTL: ttl, Fixed: l.fixed})
	switch {
	case m.closed:
		require.ErrorIs(rt, err, renewal.ErrClosed)
	case late >= ttl-m.w.Margin(ttl):
		require.ErrorIs(rt, err, renewal.ErrTrustEnded)
	default:
		require.NoError(rt, err)
		l.since = time.Now()
		l.deadline = l.lease.Deadline()
		if m.cfg.MaxHold > 0 {
			l.until = stamp.Add(m.cfg.MaxHold)
		}
		m.leases = append(m.leases, l)
	}
}

func (m *model) release(rt *rapid.T) {
	l := m.drawLease(rt)
	ended := l.hasEnded()
	require.Equal(rt, !ended, l.lease.Release())
	l.released = l.released || !ended
}

func (m *model) extend(rt *rapid.T) {
	l := m.drawLease(rt)
	ttl := time.Duration(rapid.IntRange(100, 20_000).Draw(rt, "ms")) * time.Millisecond
	valid := l.lease.Valid()
	require.Equal(rt, valid, l.lease.Extend(time.Now(), ttl))
	if valid && l.deleted.IsZero() && m.s.timeLeft(l.key) < ttl {
		m.s.extend([]int{l.key}, ttl)
	}
	if end := time.Now().Add(ttl - m.w.Margin(ttl)); valid && l.deleted.IsZero() && (l.until.IsZero() || end.Before(l.until.Add(-m.cfg.Tick))) {
		require.False(rt, l.lease.Deadline().Before(end))
	}
	if valid && !l.deleted.IsZero() {
		l.released = l.lease.Release() // the key is gone, so a real store would have refused
	}
	l.deadline = l.lease.Deadline()
}

func (m *model) setFixed(rt *rapid.T) {
	l := m.drawLease(rt)
	fixed := rapid.Bool().Draw(rt, "fixed")
	ended := l.hasEnded()
	l.lease.SetFixed(fixed)
	if ended {
		return
	}
	if l.fixed && !fixed {
		l.since = time.Now()
	}
	l.fixed = fixed
}

func (m *model) move(rt *rapid.T) {
	l := m.drawLease(rt)
	ended := l.hasEnded()
	require.Equal(rt, !ended, l.lease.Move(m.drawLane(rt)))
}

// pass gives a lease to another holder of the same key.
func (m *model) pass(rt *rapid.T) {
	l := m.drawLease(rt)
	to := &modelLease{holder: &holder{store: m.s.store, key: l.key}, since: l.since, deleted: l.deleted}
	if m.cfg.MaxHold > 0 {
		to.until = time.Now().Add(m.cfg.MaxHold)
	}
	end := l.lease.Deadline()
	reaches := func(until time.Time) bool { return !until.IsZero() && !end.Before(until) }
	can := l.lease.Valid() && !l.fixed && !reaches(l.lease.MaxHoldEnd()) && !reaches(to.until)
	require.Equal(rt, can, l.lease.Pass(&to.lease, to.holder))
	if !can {
		require.False(rt, to.lease.Valid())
		return
	}
	require.False(rt, l.lease.Valid())
	require.False(rt, l.lease.Release())
	require.True(rt, to.lease.Valid())
	require.Equal(rt, end, to.lease.Deadline())
	l.released, to.deadline, to.seen = true, end, time.Now()
	m.leases = append(m.leases, to)
}

func (m *model) delete(rt *rapid.T) {
	key := m.drawLease(rt).key
	m.s.delete(key)
	for _, l := range m.leases {
		if l.key == key && l.deleted.IsZero() {
			l.deleted = time.Now()
		}
	}
}

func (m *model) setNetwork(rt *rapid.T) {
	f := rapid.SampledFrom([]fault{
		{},
		{},
		{},
		{drop: true},
		{mute: true},
		{dial: 100 * time.Millisecond, after: 100 * time.Millisecond, repeat: true},
		{before: 100 * time.Millisecond, after: time.Second},
	}).Draw(rt, "fault")
	m.s.setFault(func() fault { return f })
	m.good = time.Time{}
	if f == (fault{}) {
		m.good = time.Now()
	}
}

func (m *model) wait(rt *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 6000).Draw(rt, "ms")) * time.Millisecond)
	synctest.Wait()
}

func (m *model) suspend(rt *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 12_000).Draw(rt, "ms")) * time.Millisecond
	m.s.suspend(d)
	m.slept = time.Now()
	for _, l := range m.leases {
		if !l.until.IsZero() {
			l.until = l.until.Add(-d) // the monotonic clock stood still
		}
	}
	if !m.good.IsZero() {
		m.good = time.Now() // the leases may be due by now
	}
}

func (m *model) close(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "really") > 0 {
		rt.Skip("not now")
	}
	m.closed = true
	m.w.Close()
}

// check checks the invariants.
func (m *model) check(rt *rapid.T) {
	synctest.Wait()
	now, held := time.Now(), 0
	lost := map[renewal.Reason]int{}
	for _, l := range m.leases {
		told := l.reasons()
		require.LessOrEqual(rt, len(told), 1)
		require.False(rt, l.released && len(told) > 0, "ended twice")
		if l.hasEnded() {
			require.False(rt, l.lease.Valid())
			reason, isLost := l.lease.Lost()
			require.Equal(rt, len(told) == 1, isLost)
			if isLost {
				require.Equal(rt, told[0], reason)
				lost[reason]++
				m.checkLoss(rt, l, reason)
			}
			continue
		}
		held++
		end, last := l.lease.Deadline(), l.lease.MaxHoldEnd()
		require.False(rt, m.closed)
		if l.until.IsZero() {
			require.Zero(rt, last)
		} else {
			// Suspensions of less than a tick together are not noticed.
			require.WithinDuration(rt, l.until, last, m.cfg.Tick)
		}
		if l.seen.Sub(m.slept) > time.Second { // a sleep is noticed by then
			require.False(rt, end.Before(l.deadline), "trust moves only later")
		}
		l.deadline, l.seen = end, now
		if l.lease.Valid() {
			require.True(rt, now.Before(end))
			require.True(rt, !l.deleted.IsZero() || m.s.timeLeft(l.key) > 0, "valid, and the store has it not")
		}
		// If the network has been good for long enough, the lease was renewed. Long enough is a
		// backoff, an interval and a round trip.
		enough := m.cfg.TTL/24 + m.cfg.TTL/3 + m.cfg.TTL/10
		renewing := !l.fixed && (last.IsZero() || end.Before(last))
		if !m.good.IsZero() && now.Sub(m.good) > enough && now.Sub(l.since) > enough && renewing {
			require.Greater(rt, time.Until(end), m.cfg.TTL/2, "not renewed")
			require.True(rt, l.deleted.IsZero() || now.Sub(l.deleted) < enough, "not told that it is gone")
		}
		if !last.IsZero() && !l.fixed && now.After(last.Add(m.cfg.Tick)) && now.Sub(m.slept) > time.Second {
			require.True(rt, end.After(last), "past MaxHold, and not fixed for longer")
		}
	}
	st := m.w.Stats()
	require.Equal(rt, held, st.Leases)
	m.checkSlots(rt, held)
	require.Equal(rt, lost, st.Lost)
}

// checkSlots: only leases that are held have a slot.
func (m *model) checkSlots(t rapid.TB, held int) {
	inSlots := 0
	for _, ln := range m.lanes {
		inSlots += ln.InSlots()
	}
	require.LessOrEqual(t, inSlots, held)
}

func (m *model) checkLoss(rt *rapid.T, l *modelLease, reason renewal.Reason) {
	switch reason {
	case renewal.NotOwner:
		require.True(rt, !l.deleted.IsZero() || l.spared <= 0)
	case renewal.Expired:
		require.True(rt, l.fixed)
	case renewal.TrustEnded, renewal.MaxHold, renewal.Suspended:
		require.False(rt, l.fixed)
	case renewal.Closed:
		require.True(rt, m.closed)
	}
	if reason == renewal.Suspended {
		require.False(rt, m.slept.IsZero())
	}
	if reason == renewal.MaxHold {
		require.False(rt, l.until.IsZero())
	}
}

// TestALeaseHasOneSlot, also if it is made fixed and renewed again while the store is asked about it.
func TestALeaseHasOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		_, ln := newLane(t, s, renewal.Config{})
		h := s.hold(t, ln, renewedFor(30*time.Second))
		h.lease.Verify()
		h.lease.SetFixed(true)
		require.Zero(t, ln.InSlots(), "it is not renewed")
		h.lease.SetFixed(false)
		require.Equal(t, 1, ln.InSlots())
		require.True(t, h.lease.Release())
		require.Zero(t, ln.InSlots())
	})
}

// TestAFixedLeaseHasNoSlot, even if the store must be asked about it.
func TestAFixedLeaseHasNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		_, ln := newLane(t, s, renewal.Config{MaxHold: 50 * time.Second})
		terms := fixedFor(30 * time.Second)
		terms.Stamp = time.Now()
		h := &holder{key: s.put(terms.TTL), store: s}
		ln.Verify()
		require.NoError(t, ln.Hold(&h.lease, h, terms)) // the old server may have confirmed it
		require.Zero(t, ln.InSlots())
		h.lease.SetFixed(false)
		require.Equal(t, 1, ln.InSlots())
		h.lease.SetFixed(true)
		require.Zero(t, ln.InSlots())
		h.lease.SetFixed(false)
		time.Sleep(time.Second)
		require.Equal(t, 1, ln.InSlots())
		require.True(t, h.lease.Extend(time.Now(), time.Hour)) // so it is not renewed any more
		h.lease.Verify()
		require.Zero(t, ln.InSlots())
		time.Sleep(time.Second)
		require.True(t, h.lease.Valid())
		require.True(t, h.lease.Release())
		require.Zero(t, ln.InSlots())
	})
}
