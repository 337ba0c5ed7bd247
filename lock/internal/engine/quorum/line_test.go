package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

const maxPoll = 5 * time.Second

var (
	errNoQuorum = errors.New("no quorum")
	errSilent   = errors.New("no answer")
	errFinal    = errors.New("in vain")
)

// server is a server of one member, which all processes share.
type server struct {
	holder    owner.Owner // owner.Nobody if the member is free
	messages  uint64
	confirmed int // how often its subscriptions were confirmed
	listeners map[chan struct{}]bool
}

// peer is a member as one process sees it, a quorum.WatchedMember.
type peer struct {
	p       *process
	s       *server
	has     map[owner.Owner]int // how often the owner has entered
	watched map[owner.Owner]map[chan struct{}]bool
	closing chan struct{}
}

func (m *peer) Has(o owner.Owner) bool   { return m.locked(func() bool { return m.has[o] > 0 }) }
func (m *peer) Closing() <-chan struct{} { return m.closing }

func (m *peer) locked(f func() bool) bool {
	m.p.w.mu.Lock()
	defer m.p.w.mu.Unlock()
	return f()
}

func (m *peer) Watch(o owner.Owner, wake chan struct{}) func() {
	m.locked(func() bool {
		if m.watched[o] == nil {
			m.watched[o] = map[chan struct{}]bool{}
		}
		m.watched[o][wake] = true
		return true
	})
	return func() { m.locked(func() bool { delete(m.watched[o], wake); return true }) }
}

func (m *peer) Listener(wake chan struct{}) quorum.Listener { return &memberListener{m: m, wake: wake} }

// memberListener is a Listener of a subscription that is confirmed at once.
type memberListener struct {
	m    *peer
	wake chan struct{}
	on   bool
	from uint64
}

func (e *memberListener) Listen() bool {
	if f := e.m.p.w.hook(&e.m.p.w.beforeListen); f != nil && !e.on {
		f()
	}
	return e.m.locked(func() bool {
		first := !e.on
		if e.on = true; first {
			e.from = e.m.s.messages
		}
		e.m.s.listeners[e.wake] = true
		return first
	})
}

// confirm confirms the subscriptions of a member again, as after a new connection.
func (m *peer) confirm() {
	m.locked(func() bool {
		m.s.confirmed++
		for wake := range m.s.listeners {
			wait.Signal(wake)
		}
		return true
	})
}

func (e *memberListener) News() (n quorum.News) {
	if f := e.m.p.w.hook(&e.m.p.w.beforeNews); f != nil {
		f()
	}
	e.m.locked(func() bool {
		if e.on {
			n = quorum.News{Confirmed: 1 + e.m.s.confirmed, Messages: e.m.s.messages - e.from}
		}
		return true
	})
	return n
}

func (e *memberListener) Leave() {
	e.m.locked(func() bool { delete(e.m.s.listeners, e.wake); e.on = false; return true })
}

// source is a PCG for many goroutines.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG // guarded by mu
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// lineWorld has three servers, and records the attempts.
type lineWorld struct {
	t       *testing.T
	servers [3]*server
	random  *rand.Rand // guarded by mu
	slow    time.Duration
	// beforeListen is called before a call begins to listen to a member; or nil.
	beforeListen func()
	beforeNews   func() // the same, before the call asks for News

	mu         sync.Mutex // guards the servers, the peers and what follows
	asking     map[owner.Owner]string
	holds      map[owner.Owner][][]*peer // the members of each hold of an owner
	asked      []string                  // for each attempt the name of its call
	begun      []time.Time               // when each attempt began
	unanswered int                       // attempts that will not be answered
	mute       bool                      // releases are not published
}

// process is one process with its Line.
type process struct {
	w     *lineWorld
	line  *quorum.Line
	peers [3]*peer
}

// set changes what the goroutines of the world read.
func (w *lineWorld) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *lineWorld) hook(f *func()) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *f
}

// attempts returns for each attempt the name of its call and when it began.
func (w *lineWorld) attempts() (names []string, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked), slices.Clone(w.begun)
}

func (w *lineWorld) names() []string { names, _ := w.attempts(); return names }

func newLineWorld(t *testing.T, seed uint64) *lineWorld {
	w := &lineWorld{t: t, asking: map[owner.Owner]string{}, holds: map[owner.Owner][][]*peer{}, random: rand.New(rand.NewPCG(seed, 1)), slow: time.Millisecond}
	for i := range w.servers {
		w.servers[i] = &server{listeners: map[chan struct{}]bool{}}
	}
	return w
}

func (w *lineWorld) process() *process {
	p := &process{w: w}
	var peers []quorum.WatchedMember
	for i, s := range w.servers {
		p.peers[i] = &peer{p: p, s: s, has: map[owner.Owner]int{}, watched: map[owner.Owner]map[chan struct{}]bool{}, closing: make(chan struct{})}
		peers = append(peers, p.peers[i])
	}
	pacing := waitqueue.Pacing{Pace: 2 * time.Millisecond, MaxPoll: maxPoll, Quiet: 6 * maxPoll, Back: 10 * time.Millisecond, BackMost: time.Second}
	p.line = quorum.NewLine(peers, pacing, wait.Random(&source{pcg: rand.NewPCG(w.random.Uint64(), 1)}))
	return p
}

// held returns a process that holds the lock as the owner "other", and another process p.
func (w *lineWorld) held() (other, p *process) {
	other, p = w.process(), w.process()
	require.NoError(w.t, <-other.call(w.t.Context(), "other", quorum.Call{Owner: named("other")}))
	return other, p
}

// take takes a member for an owner. It returns false if another owner has the member.
func (m *peer) take(o owner.Owner) bool {
	return m.locked(func() bool {
		if m.s.holder != owner.Nobody && m.s.holder != o {
			return false
		}
		m.s.holder = o
		m.has[o]++
		for wake := range m.watched[o] {
			wait.Signal(wake)
		}
		return true
	})
}

func (m *peer) release(o owner.Owner) {
	m.locked(func() bool {
		if m.has[o]--; m.has[o] > 0 {
			return true
		}
		delete(m.has, o)
		m.s.holder = owner.Nobody
		if m.p.w.mute {
			return true
		}
		m.s.messages++
		for wake := range m.s.listeners {
			wait.Signal(wake)
		}
		return true
	})
}

func (w *lineWorld) pause() {
	w.mu.Lock()
	d := time.Duration(w.random.Int64N(int64(w.slow)))
	w.mu.Unlock()
	time.Sleep(d)
}

// attempt asks all members for an owner.
func (p *process) attempt(name string, o owner.Owner) (quorum.AttemptResult, error) {
	w := p.w
	w.mu.Lock()
	if other, is := w.asking[o]; is {
		w.t.Errorf("%s asks while %s does, which has the same owner", name, other)
	}
	w.asking[o] = name
	w.asked, w.begun = append(w.asked, name), append(w.begun, time.Now())
	silent := w.unanswered > 0
	if silent {
		w.unanswered--
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.asking, o)
		w.mu.Unlock()
	}()
	w.pause()
	if silent {
		return quorum.AttemptResult{Unanswered: true}, errSilent
	}
	var got []*peer
	said := quorum.AttemptResult{HeldByOthers: make([]bool, 3), Refused: true, Answer: waitqueue.Answer{TTL: -1}}
	for i, m := range p.peers {
		if m.take(o) {
			got = append(got, m)
		} else {
			said.HeldByOthers[i] = true
		}
		w.pause()
	}
	if len(got) >= 2 {
		w.mu.Lock()
		w.holds[o] = append(w.holds[o], got)
		if len(w.holds) > 1 {
			w.t.Errorf("two owners hold it: %v", w.holds)
		}
		w.mu.Unlock()
		return quorum.AttemptResult{}, nil
	}
	for _, m := range got {
		m.release(o)
	}
	said.Taken = len(got)
	return said, errNoQuorum
}

// unlock releases the members that the last successful attempt of o has taken.
func (p *process) unlock(o owner.Owner) {
	p.w.mu.Lock()
	of := p.w.holds[o]
	got := of[len(of)-1]
	if p.w.holds[o] = of[:len(of)-1]; len(of) == 1 {
		delete(p.w.holds, o)
	}
	p.w.mu.Unlock()
	for _, m := range got {
		m.release(o)
	}
	p.line.Nudge()
}

func fresh(n uint64) owner.Owner                 { return owner.Owner{Text: "process", ID: n} }
func named(text string) owner.Owner              { return owner.Owner{Text: text} }
func left(ctx context.Context, last error) error { return errors.Join(ctx.Err(), last) }

// call begins a call, and returns a channel for its error.
func (p *process) call(ctx context.Context, name string, c quorum.Call) chan error {
	c.Attempt = func(context.Context) (quorum.AttemptResult, error) { return p.attempt(name, c.Owner) }
	c.ErrorOfEnd = left
	done := make(chan error, 1)
	go func() { done <- p.line.Run(ctx, c) }()
	synctest.Wait()
	return done
}

// lineTest runs f in virtual time.
func lineTest(t *testing.T, f func(t *testing.T, w *lineWorld)) {
	synctest.Test(t, func(t *testing.T) {
		w := newLineWorld(t, 1)
		f(t, w)
		require.Empty(t, w.holds)
		for _, s := range w.servers {
			require.Empty(t, s.listeners, "nobody listens any more")
			require.Equal(t, owner.Nobody, s.holder)
		}
	})
}

func TestWhoWaitsForAMajorityIsServedInOrder(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		p := w.process()
		first := p.call(t.Context(), "a", quorum.Call{Owner: fresh(1)})
		require.NoError(t, <-first)
		var calls []chan error
		for n := range uint64(5) {
			calls = append(calls, p.call(t.Context(), fmt.Sprint(n), quorum.Call{Owner: fresh(10 + n)}))
		}
		time.Sleep(time.Minute)
		require.Equal(t, 5, p.line.Len())
		require.NotContains(t, w.names(), "1", "the first in line alone asks")
		last := fresh(1)
		for n, call := range calls {
			began := time.Now()
			p.unlock(last)
			require.NoError(t, <-call)
			require.Less(t, time.Since(began), maxPoll/10, "it was told")
			last = fresh(10 + uint64(n))
		}
		p.unlock(last)
	})
}

// TestWhoSharesAnOwnerEntersWithIt, wherever in the line the second call stands. Only the end of the
// first call wakes it.
func TestWhoSharesAnOwnerEntersWithIt(t *testing.T) {
	for range 50 { // the wake-up may come before the first has left, or after
		lineTest(t, func(t *testing.T, w *lineWorld) {
			other, p := w.held()
			same := named("same")
			first := p.call(t.Context(), "first", quorum.Call{Owner: same, SharesOwner: true})
			between := p.call(t.Context(), "between", quorum.Call{Owner: fresh(1)})
			second := p.call(t.Context(), "second", quorum.Call{Owner: same, SharesOwner: true})
			other.unlock(named("other"))
			began := time.Now()
			require.NoError(t, <-first)
			require.NoError(t, <-second)
			require.Less(t, time.Since(began), time.Second)
			require.Empty(t, between)
			p.unlock(same)
			p.unlock(same)
			require.NoError(t, <-between)
			p.unlock(fresh(1))
		})
	}
}

func TestAnOwnerWithAMemberDoesNotQueue(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		p := w.process()
		same := named("same")
		require.True(t, p.peers[0].take(same))
		require.True(t, p.peers[1].take(same))
		before := p.call(t.Context(), "before", quorum.Call{Owner: fresh(1)})
		require.ErrorIs(t, <-p.call(t.Context(), "polite", quorum.Call{Owner: fresh(2), NoWait: true, MustNotPass: true}), errNoQuorum)
		require.NoError(t, <-p.call(t.Context(), "polite owner", quorum.Call{Owner: same, SharesOwner: true, NoWait: true, MustNotPass: true}))
		require.NoError(t, <-p.call(t.Context(), "owner", quorum.Call{Owner: same, SharesOwner: true}))
		require.Empty(t, before)
		p.unlock(same)
		p.unlock(same)
		p.peers[0].release(same)
		p.peers[1].release(same)
		require.NoError(t, <-before)
		p.unlock(fresh(1))
	})
}

// TestOnlyTheFirstCallOfAnOwnerPassesOthers: a call whose owner has a member need not queue, but only one
// call of the owner may ask at a time.
func TestOnlyTheFirstCallOfAnOwnerPassesOthers(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		same := named("same")
		other.peers[0].release(named("other"))
		require.True(t, p.peers[0].take(same))
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(ctx, "first", quorum.Call{Owner: fresh(1)})
		second := p.call(ctx, "second", quorum.Call{Owner: same, SharesOwner: true})
		third := p.call(ctx, "third", quorum.Call{Owner: same, SharesOwner: true})
		time.Sleep(2 * maxPoll)
		require.Contains(t, w.names(), "second", "its owner has a member")
		require.NotContains(t, w.names(), "third")
		cancel()
		for _, call := range []chan error{first, second, third} {
			require.ErrorIs(t, <-call, context.Canceled)
		}
		p.peers[0].release(same)
		require.True(t, other.peers[0].take(named("other")))
		other.unlock(named("other"))
	})
}

// TestAMemberThatItsOwnerGetsIsAReasonToAskAgain, once, although no message of a release came.
func TestAMemberThatItsOwnerGetsIsAReasonToAskAgain(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.process(), w.process()
		same := named("same")
		require.True(t, other.peers[0].take(named("other")))
		require.True(t, p.peers[1].take(same))
		require.True(t, other.peers[2].take(named("another")))
		done := p.call(t.Context(), "owner", quorum.Call{Owner: same, SharesOwner: true})
		time.Sleep(time.Second)
		require.Len(t, w.names(), 2, "that it has a member all the time is none")
		w.set(func() { w.mute = true })
		other.peers[2].release(named("another"))
		w.set(func() { w.mute = false })
		began := time.Now()
		require.True(t, p.peers[2].take(same))
		require.NoError(t, <-done)
		require.Less(t, time.Since(began), 10*time.Millisecond)
		require.Len(t, w.names(), 3)
		p.unlock(same)
		p.peers[1].release(same)
		p.peers[2].release(same)
		other.peers[0].release(named("other"))
	})
}

func TestATryIsRefusedWithWhatItsOwnerWasToldMeanwhile(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.process(), w.process()
		w.set(func() { w.slow = time.Second })
		require.NoError(t, <-other.call(t.Context(), "other", quorum.Call{Owner: named("other")}))
		same := named("same")
		ctx, cancel := context.WithCancel(t.Context())
		waits := p.call(ctx, "waits", quorum.Call{Owner: same, SharesOwner: true})
		early := p.call(t.Context(), "early", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		late := p.call(t.Context(), "late", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		require.ErrorIs(t, <-early, errNoQuorum)
		require.ErrorIs(t, <-late, errNoQuorum)
		require.NotContains(t, w.names(), "late", "it came before early asked")
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		other.unlock(named("other"))
	})
}

func TestAnUnknownOutcomeRefusesNobodyElse(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		p := w.process()
		w.set(func() { w.slow, w.unanswered = time.Second, 1 })
		same := named("same")
		first := p.call(t.Context(), "first", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		second := p.call(t.Context(), "second", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		require.ErrorIs(t, <-first, errSilent)
		require.NoError(t, <-second)
		p.unlock(same)
	})
}

func TestACallEndsWithItsContextWhateverItDoes(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(ctx, "first", quorum.Call{Owner: fresh(1)})
		second := p.call(ctx, "second", quorum.Call{Owner: fresh(2)})
		time.Sleep(time.Minute)
		cancel()
		err := <-first
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errNoQuorum, "and what it was told last")
		err = <-second
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, errNoQuorum, "it never asked")
		other.unlock(named("other"))
		require.Zero(t, p.line.Len())
	})
}

func TestACallAsksWhenAClientBeginsToCloseAndNotAgain(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		ctx, cancel := context.WithCancel(t.Context())
		done := p.call(ctx, "waits", quorum.Call{Owner: fresh(1)})
		time.Sleep(time.Second)
		before := len(w.names())
		close(p.peers[2].closing)
		time.Sleep(time.Second)
		require.Len(t, w.names(), before+1)
		cancel()
		<-done
		other.unlock(named("other"))
	})
}

// TestACloseJustAfterAnAttemptIsNoCircle: a closed channel must not end the sleeps until the next attempt
// is due, one after the other.
func TestACloseJustAfterAnAttemptIsNoCircle(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		asked := 0
		w.set(func() {
			w.beforeNews = func() {
				switch asked++; asked {
				case 1:
					close(p.peers[2].closing)
				case 1000:
					panic("it asks for news again and again, and time stands still")
				}
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := p.call(ctx, "waits", quorum.Call{Owner: fresh(1)})
		time.Sleep(time.Second)
		require.Len(t, w.names(), 3, "that of the holder, the first, and one because of the Close")
		cancel()
		<-done
		other.unlock(named("other"))
	})
}

// TestAReleaseByAnotherProcessIsHeard, even by a call that became the first only later.
func TestAReleaseByAnotherProcessIsHeard(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(ctx, "first", quorum.Call{Owner: fresh(1)})
		second := p.call(t.Context(), "second", quorum.Call{Owner: fresh(2)})
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		time.Sleep(time.Second)
		require.Equal(t, []string{"other", "first", "first", "second", "second"}, w.names(), "the next one asks, and once more when it listens")
		began := time.Now()
		other.unlock(named("other"))
		require.NoError(t, <-second)
		require.Less(t, time.Since(began), maxPoll/10)
		p.unlock(fresh(2))
	})
}

// TestAReleaseJustBeforeACallListensIsNotMissed: the call asks once more.
func TestAReleaseJustBeforeACallListensIsNotMissed(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(ctx, "first", quorum.Call{Owner: fresh(1)})
		second := p.call(t.Context(), "second", quorum.Call{Owner: fresh(2)})
		time.Sleep(time.Second)
		w.set(func() {
			w.beforeListen = func() {
				w.set(func() { w.beforeListen = nil })
				other.unlock(named("other"))
			}
		})
		began := time.Now()
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		require.NoError(t, <-second)
		require.Less(t, time.Since(began), maxPoll/10)
		p.unlock(fresh(2))
	})
}

// TestAnUnlockInThisProcessIsHeardWithoutAMessage: there may be no message for seconds, if the
// connection was cut.
func TestAnUnlockInThisProcessIsHeardWithoutAMessage(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		p := w.process()
		w.set(func() { w.mute = true })
		require.NoError(t, <-p.call(t.Context(), "first", quorum.Call{Owner: fresh(1)}))
		second := p.call(t.Context(), "second", quorum.Call{Owner: fresh(2)})
		time.Sleep(time.Second)
		began := time.Now()
		p.unlock(fresh(1))
		require.NoError(t, <-second)
		require.Less(t, time.Since(began), maxPoll/10)
		p.unlock(fresh(2))
	})
}

// TestWhatACallGivesBackIsNoNews: a call waits only for releases of members that refused it. Two
// processes that were refused do not ask at the same times.
func TestWhatACallGivesBackIsNoNews(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p, q := w.process(), w.process(), w.process()
		require.True(t, other.peers[0].take(named("other")))
		require.True(t, other.peers[1].take(named("other")))
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(ctx, "p", quorum.Call{Owner: fresh(1)})
		time.Sleep(time.Second)
		require.Len(t, w.names(), 2, "it gave back a member twice")
		second := q.call(ctx, "q", quorum.Call{Owner: fresh(2)})
		time.Sleep(time.Second)
		require.Len(t, w.names(), 4)
		time.Sleep(maxPoll)
		require.Len(t, w.names(), 6, "each polls")
		_, at := w.attempts()
		require.NotEqual(t, at[4].Sub(at[1]), at[5].Sub(at[3]), "after a time of its own")
		p.peers[0].confirm() // messages before the confirmation are lost
		time.Sleep(time.Second)
		require.Len(t, w.names(), 8)
		cancel()
		<-first
		<-second
		other.peers[0].release(named("other"))
		other.peers[1].release(named("other"))
	})
}

// TestACallThatGotSomeMembersPausesForLonger, so that calls stop taking members from each other.
// A release comes member by member, so each call that has slept pauses.
func TestACallThatGotSomeMembersPausesForLonger(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.process(), w.process()
		for _, m := range other.peers {
			require.True(t, m.take(named("other")))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := p.call(ctx, "p", quorum.Call{Owner: fresh(1)})
		// pauses are how long it takes until p asks after each of some releases.
		pauses := func() (least, most time.Duration) {
			least = time.Hour
			for range 30 {
				time.Sleep(time.Second)
				before := time.Now()
				asked := len(w.names())
				other.peers[2].release(named("other"))
				require.True(t, other.peers[2].take(named("other")))
				time.Sleep(time.Second)
				_, at := w.attempts()
				require.Greater(t, len(at), asked)
				least, most = min(least, at[asked].Sub(before)), max(most, at[asked].Sub(before))
			}
			return least, most
		}
		least, most := pauses()
		require.GreaterOrEqual(t, least, time.Millisecond)
		require.LessOrEqual(t, most, 2*time.Millisecond)
		other.peers[0].release(named("other"))
		_, most = pauses()
		require.Greater(t, most, 64*time.Millisecond)
		require.LessOrEqual(t, most, 129*time.Millisecond)
		require.True(t, other.peers[0].take(named("other")))
		time.Sleep(2 * maxPoll) // p asks, and gets no member
		_, most = pauses()
		require.LessOrEqual(t, most, 2*time.Millisecond)
		cancel()
		<-done
		for _, m := range other.peers {
			m.release(named("other"))
		}
	})
}

// TestPollsOfALockThatIsHeldMakeNoPauseLonger: the holder has two members, so each poll gets the
// third one, and no call takes members from another.
func TestPollsOfALockThatIsHeldMakeNoPauseLonger(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newLineWorld(t, seed)
			other, p := w.process(), w.process()
			for _, m := range other.peers[:2] {
				require.True(t, m.take(named("other")))
			}
			done := p.call(t.Context(), "p", quorum.Call{Owner: fresh(1)})
			time.Sleep(20 * maxPoll)
			require.Greater(t, len(w.names()), 10)
			began := time.Now()
			for _, m := range other.peers[:2] {
				m.release(named("other"))
			}
			require.NoError(t, <-done)
			require.Less(t, time.Since(began), 10*time.Millisecond)
			p.unlock(fresh(1))
		})
	}
}

// TestACallDoesNotAskBesideAnotherOfItsOwner, even if the other call began after the Line had allowed the
// first call to ask.
func TestACallDoesNotAskBesideAnotherOfItsOwner(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		same := named("same")
		waits := p.call(t.Context(), "waits", quorum.Call{Owner: same, SharesOwner: true})
		time.Sleep(time.Second)
		w.set(func() { w.slow = time.Second })
		other.unlock(named("other"))
		synctest.Wait() // it pauses
		var beside chan error
		w.set(func() {
			w.beforeNews = func() { // the Line has allowed the call to ask
				w.set(func() { w.beforeNews = nil })
				beside = p.call(t.Context(), "beside", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
			}
		})
		require.NoError(t, <-waits)
		require.NoError(t, <-beside)
		require.Equal(t, []string{"beside", "waits"}, w.names()[len(w.names())-2:])
		p.unlock(same)
		p.unlock(same)
	})
}

// TestAnAttemptThatWasLeftSaysNothing: its outcome reaches neither other calls of its owner nor the error.
func TestAnAttemptThatWasLeftSaysNothing(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		other, p := w.held()
		w.set(func() { w.slow = time.Second })
		same := named("same")
		ctx, cancel := context.WithCancel(t.Context())
		first := p.call(t.Context(), "first", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		left := p.call(ctx, "left", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		late := p.call(t.Context(), "late", quorum.Call{Owner: same, SharesOwner: true, NoWait: true})
		require.ErrorIs(t, <-first, errNoQuorum)
		synctest.Wait() // left asks
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.ErrorIs(t, <-late, errNoQuorum)
		require.Equal(t, []string{"other", "first", "left", "late"}, w.names())

		w.set(func() { w.slow = time.Millisecond })
		ctx, cancel = context.WithCancel(t.Context())
		waits := p.call(ctx, "waits", quorum.Call{Owner: fresh(1)})
		time.Sleep(time.Second)
		w.set(func() { w.unanswered, w.slow = 1, time.Hour })
		p.line.Nudge()
		time.Sleep(time.Second)
		w.set(func() { require.Zero(t, w.unanswered, "it asks") })
		cancel()
		err := <-waits
		require.ErrorIs(t, err, errNoQuorum, "as it was told last")
		require.NotErrorIs(t, err, errSilent)
		other.unlock(named("other"))
	})
}

func TestAFinalAnswerEndsTheWait(t *testing.T) {
	lineTest(t, func(t *testing.T, w *lineWorld) {
		p := w.process()
		err := p.line.Run(t.Context(), quorum.Call{
			Owner: fresh(1), ErrorOfEnd: left,
			Attempt: func(context.Context) (quorum.AttemptResult, error) {
				return quorum.AttemptResult{IsFinal: true}, errFinal
			},
		})
		require.ErrorIs(t, err, errFinal)
	})
}

// TestCallsOfManyOwnersAndProcesses: every seed has another order in which calls of two
// processes come, hold and leave. No two owners hold the lock at a time, and no two calls of an owner ask
// at a time. All calls end. The lock is never free for longer than MaxPoll while a call waits.
func TestCallsOfManyOwnersAndProcesses(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := newLineWorld(t, seed)
			w.set(func() { w.slow = 20 * time.Millisecond })
			choose := rand.New(rand.NewPCG(seed, 2))
			processes := []*process{w.process(), w.process()}
			var wg sync.WaitGroup
			var got, refused int
			for n := range uint64(24) {
				p := processes[choose.IntN(2)]
				o := []owner.Owner{fresh(100 + n), named(fmt.Sprint("a", slices.Index(processes, p))), named(fmt.Sprint("b", slices.Index(processes, p)))}[choose.IntN(3)]
				c := quorum.Call{Owner: o, SharesOwner: o.ID == 0, NoWait: choose.IntN(4) == 0}
				hold, patience := time.Duration(choose.IntN(300))*time.Millisecond, time.Duration(choose.IntN(20_000))*time.Millisecond
				w.mu.Lock()
				if choose.IntN(6) == 0 {
					w.unanswered++
				}
				w.mu.Unlock()
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience+time.Minute)
					defer cancel()
					c.Attempt = func(context.Context) (quorum.AttemptResult, error) { return p.attempt(fmt.Sprint(n), o) }
					c.ErrorOfEnd = left
					err := p.line.Run(ctx, c)
					w.mu.Lock()
					if err == nil {
						got++
					} else {
						refused++
						if !c.NoWait {
							t.Errorf("seed %d: call %d of %v: %v", seed, n, o, err)
						}
					}
					w.mu.Unlock()
					if err == nil {
						time.Sleep(hold)
						p.unlock(o)
					}
				})
				time.Sleep(time.Duration(choose.IntN(50)) * time.Millisecond)
			}
			wg.Wait()
			require.Equal(t, 24, got+refused)
			for _, s := range w.servers {
				require.Equal(t, owner.Nobody, s.holder, "seed %d", seed)
				require.Empty(t, s.listeners)
			}
			for _, p := range processes {
				require.Zero(t, p.line.Len())
				for _, m := range p.peers {
					for o, wakes := range m.watched {
						require.Empty(t, wakes, o)
					}
				}
			}
		})
	}
}
