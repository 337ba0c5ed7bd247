package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/renewal"
)

const (
	noScript   = redis.Error("NOSCRIPT No matching script. Please use EVAL.")
	readOnly   = redis.Error("READONLY You can't write against a read only replica.")
	loading    = redis.Error("LOADING Redis is loading the dataset in memory")
	masterDown = redis.Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
	noPerm     = redis.Error("NOPERM this user has no permissions to run the 'evalsha' command")
	tryAgain   = redis.Error("TRYAGAIN Multiple keys request during rehashing of slot")
	apart      = redis.Error("ERR Script attempted to access a non local key in a cluster node script: 6d2b, on @user_script:9.")
	ask        = redis.Error("ASK 3999 host:2")
	moved      = redis.Error("MOVED 3999 host:2")
)

// demotions are the answers of a master that has become a replica, where keys have no slots. One in
// cluster mode redirects.
var demotions = []redis.Error{readOnly, moved, "MOVED 3999 :0", masterDown}

// call is one script call as the server reads it.
type call struct {
	asked  bool // ASKING came before the call
	asText bool
	keys   []string
	lease  string // in ms
	limit  int64  // the time limit of the call
}

func (c call) String() string {
	text := strings.Join(c.keys, ",")
	if c.asText {
		text = "text:" + text
	}
	if c.asked {
		text = "asking:" + text
	}
	return text
}

// server answers as a test says. answer returns a value, an error reply, or nil for no answer.
type server struct {
	answer func(c call) any

	mu    sync.Mutex      // guards what follows
	clock pipe.Clock      // of connections that are dialled
	time  func() any      // the answer to TIME
	timed []time.Duration // what Config.Timed was told
	dials int
	heard []string // calls
	cut   func()   // called once, when the next answer has been read; may be nil
}

// calls returns the calls since calls was last called.
func (s *server) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.heard, " ")
	s.heard = nil
	return text
}

func (s *server) dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

func (s *server) dial(context.Context, *dialing.Bound) (pipe.Connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	return pipe.Connection{Conn: &conn{srv: s, closed: make(chan struct{})}, Clock: s.clock}, nil
}

// conn is a connection to a server. An answer takes a millisecond.
type conn struct {
	redis.Conn // nil: nothing else of it is called
	srv        *server
	asking     bool
	replies    []any
	once       sync.Once
	closed     chan struct{}
}

func (c *conn) Send(command string, args ...any) error {
	select {
	case <-c.closed:
		return io.ErrClosedPipe
	default:
	}
	switch command {
	case "ASKING":
		c.asking = true
		c.replies = append(c.replies, "OK")
		return nil
	case "TIME":
		c.replies = append(c.replies, c.srv.time())
		return nil
	case "PING":
		c.replies = append(c.replies, "PONG")
		return nil
	}
	what := call{asked: c.asking, asText: command == "EVAL", limit: args[len(args)-1].(int64)}
	for _, key := range args[2 : 2+args[1].(int)] {
		what.keys = append(what.keys, fmt.Sprintf("%s", key))
	}
	what.lease = fmt.Sprintf("%s", args[2+args[1].(int)])
	slices.Sort(what.keys) // the watchdog spreads leases at random
	c.asking = false
	c.srv.mu.Lock()
	c.srv.heard = append(c.srv.heard, what.String())
	c.srv.mu.Unlock()
	c.replies = append(c.replies, c.srv.answer(what))
	return nil
}

func (c *conn) Flush() error { return nil }

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *conn) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("not of a renewer")
}

func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	wait := time.Millisecond
	if len(c.replies) == 0 || c.replies[0] == nil {
		wait = timeout
	}
	select {
	case <-c.closed:
		return nil, io.ErrClosedPipe
	case <-time.After(wait):
	}
	if wait == timeout {
		return nil, errors.New("timeout")
	}
	reply := c.replies[0]
	c.replies = c.replies[1:]
	c.srv.mu.Lock()
	cut := c.srv.cut
	c.srv.cut = nil
	c.srv.mu.Unlock()
	if cut != nil {
		cut()
	}
	if err, refused := reply.(error); refused {
		return nil, err
	}
	return reply, nil
}

// renewed is the answer to a call whose leases are all held.
var renewed = []any{}

// holder is an Owner.
type holder struct {
	key   string
	class renewer.Class
	lease renewal.Lease
	asked atomic.Bool
	lost  atomic.Int32 // times

	home   *renewal.Lane // where MoveIfAbsent moves the lease to
	absent atomic.Bool
}

func (h *holder) Lost(renewal.Reason)             { h.lost.Add(1) }
func (h *holder) Class() renewer.Class            { return h.class }
func (h *holder) Name() string                    { return h.key }
func (h *holder) Key() string                     { return h.key }
func (h *holder) AppendFieldTail(b []byte) []byte { return append(b, ":1"...) }
func (h *holder) Weight() int                     { return 1 }
func (h *holder) Touch() byte                     { return 0 }
func (h *holder) NeedsAsking() bool               { return h.asked.Load() }

func (h *holder) MoveTo(lane *renewal.Lane, asking bool) {
	h.asked.Store(asking)
	h.lease.Move(lane)
}

func (h *holder) MoveIfAbsent() bool {
	if h.absent.Swap(!h.absent.Load()) {
		return false
	}
	h.MoveTo(h.home, false)
	return true
}

func (h *holder) Found() { h.absent.Store(false) }

// ttl is the lease of all holders, in a bubble.
const ttl = 30 * time.Second

// harness is a Renewer with a lane, and the other lane that redirections lead to.
type harness struct {
	t     *testing.T
	srv   *server // renews the leases of lane
	other *server // renews the leases of there
	lane  *renewal.Lane
	there *renewal.Lane
	r     *renewer.Renewer // the Renewer of lane

	follows atomic.Bool  // Config.Resumed makes all leases due at once, as with a Topology
	resumed atomic.Int32 // calls of it

	mu    sync.Mutex // guards what follows
	ended []string   // what Config.Answered got for each batch of lane
}

// outcomes returns the errors of the batches of lane that have ended since outcomes was last called.
func (b *harness) outcomes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := b.ended
	b.ended = nil
	return ended
}

// hold takes locks with fixed leases. The server is asked about them only at round or Verify.
func (b *harness) hold(class renewer.Class, keys ...string) []*holder {
	holders := make([]*holder, len(keys))
	for i, key := range keys {
		h := &holder{key: key, class: class, home: b.lane}
		require.NoError(b.t, b.lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: ttl, Fixed: true}))
		holders[i] = h
	}
	return holders
}

// round makes all leases due, and returns when all are answered.
func (b *harness) round() {
	b.lane.Verify()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// bubble runs f with a server that answers with answer. slots says that keys have slots.
func bubble(t *testing.T, slots bool, answer func(c call) any, f func(t *testing.T, b *harness)) {
	synctest.Test(t, func(t *testing.T) {
		b := &harness{t: t, srv: &server{answer: answer}, other: &server{answer: func(call) any { return renewed }}}
		dog, err := renewal.New(renewal.Config{TTL: ttl, Dispatchers: 1})
		require.NoError(t, err)
		config := func(srv *server, target func(pipe.Redirection) *renewal.Lane) renewer.Config {
			return renewer.Config{
				Timeout: time.Second, Conns: 1, Prefix: "client", Slots: slots, Server: "host:1", Dial: srv.dial,
				Epoch: func() uint32 { return 0 }, Target: target,
				Answered: func(error) {}, Failed: func(error) {}, Resumed: func() {},
				Timed: func(_ pipe.Clock, off time.Duration) {
					srv.mu.Lock()
					defer srv.mu.Unlock()
					srv.timed = append(srv.timed, off)
				},
			}
		}
		cfg := config(b.srv, func(to pipe.Redirection) *renewal.Lane {
			if !slots {
				t.Errorf("there are no slots, but it follows %v", to)
			}
			return b.there
		})
		cfg.Answered = func(err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended = append(b.ended, fmt.Sprint(err))
		}
		cfg.Resumed = func() {
			b.resumed.Add(1)
			if b.follows.Load() {
				b.lane.Verify()
			}
		}
		r, elsewhere := renewer.New(cfg), renewer.New(config(b.other, func(pipe.Redirection) *renewal.Lane { return b.lane }))
		b.r = r
		b.lane, err = dog.Lane("here", r)
		require.NoError(t, err)
		b.there, err = dog.Lane("there", elsewhere)
		require.NoError(t, err)
		defer func() {
			dog.Close()
			r.Close()
			elsewhere.Close()
		}()
		f(t, b)
	})
}

// once answers the first call with first, and later calls with renewed.
func once(first any) func(call) any {
	var again atomic.Bool
	return func(call) any {
		if again.Swap(true) {
			return renewed
		}
		return first
	}
}

func TestAScriptThatTheServerForgotIsSentAsText(t *testing.T) {
	bubble(t, false, func(c call) any {
		if !c.asText {
			return noScript
		}
		return renewed
	}, func(t *testing.T, b *harness) {
		b.hold(renewer.Fields, "a", "b")
		b.round()
		require.Equal(t, "a,b text:a,b", b.srv.calls())
		require.Equal(t, []string{"<nil>"}, b.outcomes())
		require.Equal(t, 1, b.srv.dialled())
	})
}

// TestALeaseThatIsOnlyCheckedIsNotExtended: the check is a renewal with the shortest lease.
func TestALeaseThatIsOnlyCheckedIsNotExtended(t *testing.T) {
	var mu sync.Mutex
	leases := make(map[string]string)
	bubble(t, false, func(c call) any {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range c.keys {
			leases[key] = c.lease
		}
		return renewed
	}, func(t *testing.T, b *harness) {
		b.hold(renewer.Fields, "checked")
		h := &holder{key: "renewed", class: renewer.Fields}
		require.NoError(t, b.lane.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: ttl}))
		b.round()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[string]string{"checked": "1", "renewed": fmt.Sprint(ttl.Milliseconds())}, leases)
	})
}

func TestAServerThatForgetsTheTextToldIsNotAskedForEver(t *testing.T) {
	bubble(t, false, func(call) any { return noScript }, func(t *testing.T, b *harness) {
		b.hold(renewer.Fields, "a")
		b.round()
		require.Equal(t, noScript.Error(), b.outcomes()[0])
		calls := b.srv.calls()
		require.True(t, strings.HasPrefix(calls, "a text:a"), calls)
		require.NotContains(t, calls, "text:a text:a")
	})
}

// TestACallWhoseKeysPartIsSentOneByOne: the keys that are at the server are renewed.
func TestACallWhoseKeysPartIsSentOneByOne(t *testing.T) {
	for _, refusal := range []redis.Error{tryAgain, apart, ask} {
		t.Run(strings.Fields(refusal.Error())[0], func(t *testing.T) {
			bubble(t, true, func(c call) any {
				if slices.Contains(c.keys, "{s}b") {
					return refusal
				}
				return renewed
			}, func(t *testing.T, b *harness) {
				b.hold(renewer.Fields, "{s}a", "{s}b", "{s}c")
				b.round()
				calls := strings.Fields(b.srv.calls())
				require.Equal(t, "{s}a,{s}b,{s}c", calls[0])
				require.ElementsMatch(t, []string{"{s}a", "{s}b", "{s}c"}, calls[1:4])
				if refusal == ask { // it goes alone, and is asked for there
					require.Equal(t, "asking:{s}b", b.other.calls())
					require.Equal(t, []string{"<nil>"}, b.outcomes())
				} else {
					require.Empty(t, b.other.calls())
					require.Equal(t, refusal.Error(), b.outcomes()[0])
				}
				require.Equal(t, 1, b.srv.dialled())
			})
		})
	}
}

func TestLeasesGoWhereTheirKeysAre(t *testing.T) {
	bubble(t, true, func(call) any { return moved }, func(t *testing.T, b *harness) {
		b.hold(renewer.Fields, "{s}a", "{s}b")
		b.round()
		require.Equal(t, "{s}a,{s}b", b.srv.calls())
		require.Equal(t, "{s}a,{s}b", b.other.calls())
		require.Equal(t, []string{"<nil>"}, b.outcomes())
		require.Equal(t, 2, b.there.Stats().Leases)
	})
}

// TestARefusalThatIsNoneOfItsConnectionKeepsIt: the connection stays in use, because the
// server may soon answer differently over it.
func TestARefusalThatIsNoneOfItsConnectionKeepsIt(t *testing.T) {
	for _, refusal := range []redis.Error{loading, noPerm, masterDown, "CLUSTERDOWN The cluster is down", "BUSY Redis is busy"} {
		bubble(t, true, once(refusal), func(t *testing.T, b *harness) {
			b.hold(renewer.Fields, "a")
			b.round()
			time.Sleep(ttl / 10)
			require.Equal(t, []string{refusal.Error(), "<nil>"}, b.outcomes())
			require.Equal(t, 1, b.srv.dialled())
		})
	}
}

func TestTheConnectionToADemotedMasterIsGivenUp(t *testing.T) {
	for _, refusal := range demotions {
		bubble(t, false, once(refusal), func(t *testing.T, b *harness) {
			b.hold(renewer.Fields, "a")
			b.round()
			time.Sleep(ttl / 10)
			require.Equal(t, []string{refusal.Error(), "<nil>"}, b.outcomes())
			require.Equal(t, 2, b.srv.dialled())
		})
	}
}

// TestRenewalsLeaveAServerThatLoads, because a name may lead to another one by now: the old master has
// become a replica, which ends no connection. A new connection is kept for a while, because a master that
// has restarted loads too.
func TestRenewalsLeaveAServerThatLoads(t *testing.T) {
	for _, isUsed := range []bool{true, false} {
		bubble(t, false, nil, func(t *testing.T, b *harness) {
			var loads atomic.Int32 // so many connections, from the first on, get LOADING
			b.srv.answer = func(call) any {
				if b.srv.dialled() <= int(loads.Load()) {
					return loading
				}
				return renewed
			}
			b.hold(renewer.Fields, "a")
			if isUsed {
				b.round()
			} else {
				b.r.Open()
			}
			time.Sleep(ttl / 7)
			b.outcomes()
			loads.Store(1)
			b.round()
			time.Sleep(ttl / 10)
			require.Equal(t, []string{loading.Error(), "<nil>"}, b.outcomes()[:2])
			require.Equal(t, 2, b.srv.dialled())

			time.Sleep(ttl / 7)
			loads.Store(1000)
			b.hold(renewer.Fields, "b")
			b.round()
			time.Sleep(ttl / 2)
			require.GreaterOrEqual(t, len(b.outcomes()), 10)
			require.GreaterOrEqual(t, b.srv.dialled()-2, 3, "the name may change later")
			require.LessOrEqual(t, b.srv.dialled()-2, 5, "not every batch costs a dial")
		})
	}
}

// TestARenewalThatAReplicaRefusesKeepsItsPauses: each answer ends its connection. If the next
// connection made all leases due at once, renewal would dial without a pause.
func TestARenewalThatAReplicaRefusesKeepsItsPauses(t *testing.T) {
	for _, refusal := range demotions {
		var calls atomic.Int32
		const most = 4 * 2 * 24 // a lease has pauses of up to a twenty-fourth of the TTL
		bubble(t, false, func(call) any {
			if calls.Add(1) > most { // no time would pass any more
				return renewed
			}
			return refusal
		}, func(t *testing.T, b *harness) {
			b.follows.Store(true)
			for _, h := range b.hold(renewer.Fields, "a", "b", "c", "d") {
				h.lease.SetFixed(false)
			}
			time.Sleep(2 * ttl)
			require.LessOrEqual(t, calls.Load(), int32(most))
			require.Zero(t, b.resumed.Load())
		})
	}
}

// TestAConnectionAfterAFailureIsToldOnce: Resumed is called when the connection has answered,
// because the server may have lost data meanwhile.
func TestAConnectionAfterAFailureIsToldOnce(t *testing.T) {
	bubble(t, false, once(readOnly), func(t *testing.T, b *harness) {
		b.follows.Store(true)
		b.hold(renewer.Fields, "a")
		b.round()
		time.Sleep(ttl / 10)
		require.EqualValues(t, 1, b.resumed.Load())
		require.Equal(t, []string{readOnly.Error(), "<nil>", "<nil>"}, b.outcomes(), "the last is asked after it")
		require.Equal(t, 2, b.srv.dialled())
	})
}

// TestABatchThatIsHalfAnswered: the answers that came count, and their leases are not sent again.
func TestABatchThatIsHalfAnswered(t *testing.T) {
	for name, reply := range map[string]any{"lost": nil, "cut": io.EOF, "no answer of this script": "OK"} {
		t.Run(name, func(t *testing.T) {
			var dead atomic.Bool
			dead.Store(true)
			bubble(t, false, func(c call) any {
				if c.keys[0] == "p" && dead.Swap(false) {
					return reply
				}
				return renewed
			}, func(t *testing.T, b *harness) {
				holders := append(b.hold(renewer.Fields, "a", "b"), b.hold(renewer.Permits, "p")...)
				b.lane.Verify()
				time.Sleep(3 * time.Second)
				require.Equal(t, "a,b p p", b.srv.calls())
				require.Equal(t, 2, b.srv.dialled())
				for _, h := range holders {
					require.Zero(t, h.lost.Load())
				}
			})
		})
	}
}

// TestAConnectionThatIsCutWhileItIsAnsweredIsNotUsedAgain: the last answer came just before
// the connection was closed.
func TestAConnectionThatIsCutWhileItIsAnsweredIsNotUsedAgain(t *testing.T) {
	bubble(t, false, func(call) any { return renewed }, func(t *testing.T, b *harness) {
		b.hold(renewer.Fields, "a")
		b.srv.cut = b.r.Drop
		b.round()
		b.round()
		require.Equal(t, []string{"<nil>", "<nil>"}, b.outcomes())
		require.Equal(t, 2, b.srv.dialled())
	})
}

func TestARedirectionWhereThereAreNoSlotsIsAnError(t *testing.T) {
	for refusal, dials := range map[redis.Error]int{moved: 2, ask: 1} {
		bubble(t, false, once(refusal), func(t *testing.T, b *harness) {
			b.hold(renewer.Fields, "a", "b")
			b.round()
			time.Sleep(ttl / 10)
			require.Equal(t, []string{refusal.Error(), "<nil>"}, b.outcomes())
			require.Equal(t, "a,b a,b", b.srv.calls())
			require.Equal(t, dials, b.srv.dialled())
		})
	}
}

// TestWhatElseIsAnsweredDoesNotHideADemotion: another call of the batch is refused for
// another reason, or is to be sent again.
func TestWhatElseIsAnsweredDoesNotHideADemotion(t *testing.T) {
	for _, other := range []redis.Error{loading, noPerm, noScript} {
		var demoted atomic.Bool
		demoted.Store(true)
		bubble(t, false, func(c call) any {
			switch {
			case !demoted.Load():
				return renewed
			case c.keys[0] == "a":
				return readOnly
			}
			demoted.Store(false)
			return other
		}, func(t *testing.T, b *harness) {
			b.hold(renewer.Fields, "a")
			b.hold(renewer.Permits, "p")
			b.round()
			time.Sleep(ttl / 10)
			require.Equal(t, readOnly.Error(), b.outcomes()[0], other)
			require.Equal(t, "a p a p", b.srv.calls())
			require.Equal(t, 2, b.srv.dialled(), other)
		})
	}
}

// TestALeaseThatIsSentInCirclesCostsLittle: two servers each say that the other one
// has the key, for as long as they do not agree.
func TestALeaseThatIsSentInCirclesCostsLittle(t *testing.T) {
	for _, first := range []redis.Error{moved, ask} {
		var agreed atomic.Bool
		bubble(t, true, func(call) any {
			if agreed.Load() {
				return renewed
			}
			return first
		}, func(t *testing.T, b *harness) {
			b.other.answer = func(call) any { return redis.Error("MOVED 3999 host:1") }
			holders := b.hold(renewer.Fields, "{s}a")
			b.lane.Verify()
			time.Sleep(10 * time.Second)
			calls := len(strings.Fields(b.srv.calls() + " " + b.other.calls()))
			require.Less(t, calls, 50)
			agreed.Store(true)
			time.Sleep(3 * time.Second)
			require.NotEmpty(t, b.srv.calls())
			require.Same(t, b.lane, holders[0].lease.Lane())
			require.Zero(t, holders[0].lost.Load())
		})
	}
}

// gone is the answer to a call of one lease that is gone.
var gone = []any{int64(1)}

// TestAKeyThatHasGoneBackIsFound: its slot was moving, and then the move was taken back. The server that no
// longer gets the slot does not have the key, and behind ASKING it does not redirect.
func TestAKeyThatHasGoneBackIsFound(t *testing.T) {
	for _, class := range []renewer.Class{renewer.Fields, renewer.Readers, renewer.Permits} {
		var isBack atomic.Bool
		bubble(t, true, func(call) any {
			if isBack.Load() {
				return renewed
			}
			return ask
		}, func(t *testing.T, b *harness) {
			b.other.answer = func(call) any {
				if isBack.Load() {
					return gone
				}
				return renewed
			}
			h := b.hold(class, "{s}a")[0]
			for range 3 {
				isBack.Store(false)
				b.round()
				require.Same(t, b.there, h.lease.Lane())
				b.srv.calls()
				b.other.calls()
				isBack.Store(true)
				b.there.Verify()
				time.Sleep(100 * time.Millisecond)
				require.Equal(t, "asking:{s}a", b.other.calls())
				require.Equal(t, "{s}a", b.srv.calls(), "it is not asked for behind ASKING")
				require.Same(t, b.lane, h.lease.Lane())
				require.Zero(t, h.lost.Load())
			}
		})
	}
}

// TestAKeyThatIsGoneWhileItsSlotMovesIsToldSoon: the server that has the slot is asked once more, and no more
// than that. The second key of a reader may be on its way, so a reader is not told.
func TestAKeyThatIsGoneWhileItsSlotMovesIsToldSoon(t *testing.T) {
	for _, class := range []renewer.Class{renewer.Fields, renewer.Readers, renewer.Permits} {
		bubble(t, true, func(call) any { return ask }, func(t *testing.T, b *harness) {
			b.other.answer = func(call) any { return gone }
			h := b.hold(class, "{s}a")[0]
			h.lease.SetFixed(false)
			end := h.lease.Deadline()
			b.lane.Verify()
			time.Sleep(100 * time.Millisecond)
			if class == renewer.Readers {
				time.Sleep(10 * time.Second)
				require.Zero(t, h.lost.Load())
				calls := len(strings.Fields(b.srv.calls() + " " + b.other.calls()))
				require.Less(t, calls, 60)
				require.Equal(t, end, h.lease.Deadline(), "nothing was renewed")
				return
			}
			require.EqualValues(t, 1, h.lost.Load())
			require.Equal(t, "{s}a {s}a", b.srv.calls())
			require.Equal(t, "asking:{s}a asking:{s}a", b.other.calls())
		})
	}
}

// TestAKeyThatIsGoneFromTheServerOfItsSlotIsToldAtOnce.
func TestAKeyThatIsGoneFromTheServerOfItsSlotIsToldAtOnce(t *testing.T) {
	bubble(t, true, func(call) any { return gone }, func(t *testing.T, b *harness) {
		h := b.hold(renewer.Fields, "{s}a")[0]
		b.round()
		require.EqualValues(t, 1, h.lost.Load())
		require.Equal(t, "{s}a", b.srv.calls())
	})
}

// timed makes the server one whose clock is known, an hour ahead of ours, and whose
// scripts heed their limits.
func (b *harness) timed() (ahead *atomic.Int64, limits func() []int64) {
	var mu sync.Mutex
	var seen []int64
	ahead = &atomic.Int64{}
	ahead.Store(int64(time.Hour))
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b.srv.clock.NoteQuestionSent(time.Now())
	b.srv.clock.Sample(time.Now(), time.Now(), now(), 0)
	b.srv.time = func() any { return []any{[]byte(fmt.Sprint(now().Unix())), []byte("0")} }
	b.srv.answer = func(c call) any {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c.limit)
		if ms := now().UnixMilli(); c.limit != 0 && ms > c.limit {
			return redis.Error(fmt.Sprint("LATE ", ms))
		}
		return renewed
	}
	return ahead, func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func TestARenewalSaysUntilWhenItMayBeCarriedOut(t *testing.T) {
	bubble(t, false, nil, func(t *testing.T, b *harness) {
		_, limits := b.timed()
		b.hold(renewer.Fields, "a")
		b.hold(renewer.Permits, "b")
		begun := time.Now()
		b.round()
		require.Len(t, limits(), 2)
		for _, limit := range limits() {
			require.InDelta(t, begun.Add(time.Hour+time.Second).UnixMilli(), limit, 100, "Timeout, by the server's clock")
		}
	})
}

// TestOurOwnSlownessIsNoSecondServer: if the client stands still before it writes, its
// request is late although the client knows the server's clock.
func TestOurOwnSlownessIsNoSecondServer(t *testing.T) {
	bubble(t, false, nil, func(t *testing.T, b *harness) {
		ahead, limits := b.timed()
		inTime, lates := b.srv.answer, 0
		b.srv.answer = func(c call) any {
			answer := inTime(c)
			if lates < pipe.MaxLates {
				lates++
				return redis.Error(fmt.Sprint("LATE ", time.Now().UnixMilli()+ahead.Load()/1e6))
			}
			return answer
		}
		b.hold(renewer.Fields, "a")
		b.round()
		b.round()
		require.Len(t, limits(), pipe.MaxLates+2)
		require.NotContains(t, limits(), int64(0))
	})
}

func TestALateRenewalIsSentAgainWithAnotherLimit(t *testing.T) {
	bubble(t, false, nil, func(t *testing.T, b *harness) {
		ahead, limits := b.timed()
		b.hold(renewer.Fields, "a")
		b.round()
		ahead.Add(int64(time.Hour)) // the server's clock is set
		b.round()
		require.Len(t, limits(), 3)
		require.Equal(t, []string{"<nil>", "<nil>"}, b.outcomes())
		b.round()
		require.Len(t, limits(), 4, "the next one knows")
		require.Equal(t, 1, b.srv.dialled())
		require.InDelta(t, time.Hour, slices.Max(b.srv.timed), float64(2*time.Second))
	})
}

func TestARenewalOfAServerWithTwoClocksHasNoLimit(t *testing.T) {
	bubble(t, false, nil, func(t *testing.T, b *harness) {
		ahead, limits := b.timed()
		one := b.srv.answer
		b.srv.answer = func(c call) any {
			ahead.Add(int64(time.Hour))
			return one(c)
		}
		b.hold(renewer.Fields, "a")
		b.round()
		require.Len(t, limits(), 3)
		require.Zero(t, limits()[2])
		require.Equal(t, []string{"<nil>"}, b.outcomes())
	})
}

func TestAConnectionForRenewalAsksForTheTimeEachMinute(t *testing.T) {
	bubble(t, false, nil, func(t *testing.T, b *harness) {
		ahead, limits := b.timed()
		b.hold(renewer.Fields, "a")
		b.round()
		require.Empty(t, b.srv.timed)
		ahead.Add(-int64(time.Hour))
		time.Sleep(20 * time.Second)
		b.round() // nothing tells that the clock was set back
		for range 3 {
			b.hold(renewer.Fields, "b")
			time.Sleep(20 * time.Second)
			b.round()
		}
		require.Len(t, b.srv.timed, 1)
		seen := limits()
		require.InDelta(t, time.Now().Add(time.Second).UnixMilli(), seen[len(seen)-1], 1500)
	})
}
