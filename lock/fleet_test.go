package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// islands is a Topology of servers that know nothing of each other; the test
// says who has which slots.
type islands struct {
	servers map[string]*redistest.Server // immutable
	news    chan topology.Layout         // to every Follow that looks

	mu     sync.Mutex
	open   map[string]int    // connections by server
	moving map[string]string // who has the keys of a server whose slots are just being moved to it
	sent   int               // scripts that were told so
}

func newIslands(t *testing.T, names ...string) *islands {
	is := &islands{servers: map[string]*redistest.Server{}, news: make(chan topology.Layout), open: map[string]int{}, moving: map[string]string{}}
	for _, name := range names {
		is.servers[name] = fixture.Virtual(t)
	}
	return is
}

func (is *islands) GetContext(context.Context) (redis.Conn, error) {
	return nil, errors.New("not used")
}
func (is *islands) Traits() topology.Traits { return topology.Traits{Slots: true} }

func (is *islands) Dial(ctx context.Context, server string) (redis.Conn, error) {
	s := is.servers[server]
	if s == nil {
		return nil, errors.New("no such server: " + server)
	}
	conn, err := s.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	is.count(server, 1)
	return &counted{Conn: conn, is: is, server: server, closed: sync.OnceFunc(func() { is.count(server, -1) })}, nil
}

func (is *islands) Follow(ctx context.Context, period time.Duration, _ <-chan struct{}, update func(topology.Layout)) {
	var last topology.Layout
	for {
		t := time.NewTimer(period)
		select {
		case last = <-is.news:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
		if last.Servers != nil {
			update(last)
		}
	}
}

func (is *islands) count(server string, n int) {
	is.mu.Lock()
	defer is.mu.Unlock()
	is.open[server] += n
}

// connections returns how many are open to the server.
func (is *islands) connections(server string) int {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.open[server]
}

// give gives the slots to the servers in turn; none to "".
func (is *islands) give(names ...string) {
	l := topology.Layout{Slots: make([]int, 16384)}
	for i, name := range names {
		if name != "" {
			l.Servers = append(l.Servers, topology.Server{Name: name})
		}
		for slot := i; slot < len(l.Slots); slot += len(names) {
			if l.Slots[slot] = len(l.Servers) - 1; name == "" {
				l.Slots[slot] = -1
			}
		}
	}
	is.news <- l
	synctest.Wait()
}

// sendOn makes a server say of every script that another one has its key yet.
func (is *islands) sendOn(from, to string) {
	is.mu.Lock()
	defer is.mu.Unlock()
	is.moving[from] = to
}

// sentOn is how many scripts were told so.
func (is *islands) sentOn() int {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.sent
}

// elsewhere is what a server answers to a script in the place of its result; nil if it
// has its key.
func (is *islands) elsewhere(server string) error {
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.moving[server] == "" {
		return nil
	}
	is.sent++
	return redis.Error("ASK 1 " + is.moving[server])
}

// counted tells of its end.
type counted struct {
	redis.Conn
	is     *islands
	server string
	closed func()

	mu      sync.Mutex
	answers []error // of the requests that are not answered yet: what is said in the place of the answer, or nil
}

func (c *counted) Send(command string, args ...any) error {
	var answer error
	if command == "EVALSHA" || command == "EVAL" {
		if answer = c.is.elsewhere(c.server); answer != nil {
			command, args = "PING", nil
		}
	}
	c.mu.Lock()
	c.answers = append(c.answers, answer)
	c.mu.Unlock()
	return c.Conn.Send(command, args...)
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *counted) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 { // a message
		return reply, err
	}
	answer := c.answers[0]
	if c.answers = c.answers[1:]; answer != nil && err == nil {
		return nil, answer
	}
	return reply, err
}

func (c *counted) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, d, cmd, args...)
}

// do runs a command on a server, as a bystander.
func (is *islands) do(t *testing.T, server, cmd string, args ...any) any {
	return fixture.Do(t, is.servers[server], cmd, args...)
}

func TestHoldsFollowTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		_, err = c.Mutex("early").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnknown, "no server is known")
		is.give("a")
		var helds []*lock.Held
		for i := range 100 {
			held, err := c.Mutex(fmt.Sprint("m", i)).Lock(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		fixed, err := c.Mutex("fixed").LockFor(ctx, time.Hour)
		require.NoError(t, err)
		// Half of the slots go to b, which has got some of the locks.
		got := map[string]bool{}
		for i, held := range helds {
			if i%2 == 0 {
				field, err := redis.Strings(is.do(t, "a", "HKEYS", held.Name()), nil)
				require.NoError(t, err)
				is.do(t, "b", "HSET", held.Name(), field[0], 1)
				is.do(t, "b", "PEXPIRE", held.Name(), 20000)
				got[held.Name()] = true
			}
		}
		renewed := c.Stats().Renewal.Renewed
		is.give("a", "b")
		time.Sleep(100 * time.Millisecond) // far less than to the next renewals
		lost := 0
		for _, held := range helds {
			onB := keys.Slot(held.Name())%2 == 1
			if onB && !got[held.Name()] {
				var e *lock.LostError
				require.ErrorAs(t, held.Err(), &e)
				require.Equal(t, lock.NotOwner, e.Reason)
				lost++
				continue
			}
			require.True(t, held.Valid(), held.Name())
			if onB {
				renewed++
			}
		}
		require.Greater(t, lost, 10)
		if keys.Slot("fixed")%2 == 1 {
			require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		} else {
			require.NoError(t, fixed.Err())
		}
		require.InDelta(t, renewed, c.Stats().Renewal.Renewed, 5, "those on b at once, and some because they are due")
		time.Sleep(time.Minute)
		is.give("", "b") // a hole stays with whom it was
		time.Sleep(time.Minute)
		for _, held := range helds {
			if held.Valid() {
				require.NoError(t, held.Unlock(ctx))
				lost++
			}
		}
		require.Equal(t, 100, lost)
		fixture.CloseNow(c)
	})
}

// TestAServerThatIsNoMoreIsForgotten, with its connections and goroutines, but
// not before nobody can be on the way to it; if it comes back it is used again.
func TestAServerThatIsNoMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIslands(t, "a", "b")
		c, err := lock.NewTopology(is, lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		go func() { is.news <- topology.Layout{Servers: []topology.Server{{Name: "a"}}, Slots: make([]int, 16384)} }()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		fixed, err := c.Mutex("fixed").LockFor(ctx, time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		is.give("b")
		time.Sleep(time.Minute)
		require.ErrorIs(t, held.Err(), lock.ErrLost, "b has it not")
		require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		require.Positive(t, is.connections("a"), "somebody may be on the way")
		before := c.Stats().Renewal
		time.Sleep(2 * time.Minute)
		require.Zero(t, is.connections("a"))
		require.Equal(t, before.Renewed, c.Stats().Renewal.Renewed, "what was counted stays")
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 2}, c.Stats().Renewal.Lost)
		is.give("a")
		held, err = c.Mutex("n").Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
		require.Zero(t, is.connections("a")+is.connections("b"))
	})
}

// TestNoPoolAndNoTopology are refused in words.
func TestNoPoolAndNoTopology(t *testing.T) {
	_, err := lock.New(nil, lock.Config{})
	require.ErrorContains(t, err, "lock: New needs a *redis.Pool, got nil")
	_, err = lock.NewTopology(nil, lock.Config{})
	require.ErrorContains(t, err, "lock: NewTopology needs a Topology, got nil")
}
