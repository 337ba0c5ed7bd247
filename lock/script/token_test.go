package script_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// minter calls the scripts that mint tokens, each time for the next holder of a lock.
type minter struct {
	t      *testing.T
	s      *redistest.Server
	holder int
	fenced bool // its least token is 1
	more   int  // tokens to reserve
}

// call sends a script with a time limit of a minute.
func (m *minter) call(code *script.Script, all []string, args ...any) any {
	words := []any{code.Text(), len(all)}
	for _, key := range all {
		words = append(words, key)
	}
	clock, err := redis.Int64s(fixture.Do(m.t, m.s, "TIME"), nil)
	require.NoError(m.t, err)
	return fixture.Do(m.t, m.s, "EVAL", append(append(words, args...), clock[0]*1000+60_000)...)
}

// token returns the first token of an answer, and the last one that was reserved with it.
func (m *minter) token(reply any) (first, last int64) {
	if n, ok := reply.(int64); ok {
		return n, n
	}
	values, err := redis.Int64s(reply, nil)
	require.NoError(m.t, err)
	require.EqualValues(m.t, 1, values[0])
	if len(values) == 2 {
		return values[1], values[1]
	}
	return values[1], values[1] + values[2]
}

func (m *minter) least(clock time.Time) int64 {
	if m.fenced {
		return 1
	}
	return clock.Unix() << 20
}

func (m *minter) next() string {
	m.holder++
	return "c:1:" + strconv.Itoa(m.holder)
}

func (m *minter) acquire(clock time.Time) any {
	fixture.Do(m.t, m.s, "DEL", "m")
	return m.call(script.Acquire, []string{"m", keys.Counter}, m.next(), 30_000, m.least(clock), m.more, 0)
}

func (m *minter) handOff(clock time.Time) any {
	from := m.next()
	fixture.Do(m.t, m.s, "DEL", "m")
	fixture.Do(m.t, m.s, "HSET", "m", from, 1)
	return m.call(script.Handoff, []string{"m", keys.Counter}, from, m.next(), 30_000, m.least(clock), m.more)
}

func (m *minter) mint(clock time.Time) any {
	return m.call(script.Token, []string{keys.Counter}, m.least(clock))
}

func (m *minter) takeFair(clock time.Time) any {
	fixture.Do(m.t, m.s, "DEL", "m")
	return m.call(script.FairTake, []string{"m", keys.FairQueue("m"), keys.FairScores("m"), keys.FairSigns("m"), keys.Counter},
		m.next(), 30_000, m.least(clock), clock.UnixMilli(), 300_000, "", "", "", 30_000, "channel", "publish", 10_000, 0)
}

func minters(t *testing.T, f func(*testing.T, *minter, func(time.Time) any)) {
	m := &minter{s: fixture.Server(t)}
	for name, mint := range map[string]func(time.Time) any{
		"acquire": m.acquire, "handoff": m.handOff, "token": m.mint, "fair_take": m.takeFair,
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			fixture.Do(t, m.s, "FLUSHALL")
			f(t, m, mint)
		})
	}
}

// TestTokensRiseWhateverTheClocksOfClientsAreWhenTheirCounterIsLost: requests are made at the same
// time, or by clients whose clocks are minutes apart.
func TestTokensRiseWhateverTheClocksOfClientsAreWhenTheirCounterIsLost(t *testing.T) {
	minters(t, func(t *testing.T, m *minter, mint func(time.Time) any) {
		now, highest := time.Now(), int64(0)
		for _, clock := range []time.Time{now.Add(time.Hour), now, now, now.Add(-time.Minute), now.Add(time.Minute), now} {
			token, _ := m.token(mint(clock))
			require.Greater(t, token, highest)
			highest = token
			fixture.Do(t, m.s, "FLUSHALL")
		}
	})
}

// TestACounterOfItsOwnKnowsNoTime, because the counter is Redisson's.
func TestACounterOfItsOwnKnowsNoTime(t *testing.T) {
	minters(t, func(t *testing.T, m *minter, mint func(time.Time) any) {
		m.fenced = true
		defer func() { m.fenced = false }()
		for i := range int64(3) {
			token, _ := m.token(mint(time.Now()))
			require.Equal(t, i+1, token)
		}
		fixture.Do(t, m.s, "SET", keys.Counter, "no number")
		token, _ := m.token(mint(time.Now()))
		require.EqualValues(t, 1, token)
	})
}

// TestReservedTokensAreBelowThoseAfterALoss: they are up to 10 ms ahead of the time, and
// the counter is lost at once.
func TestReservedTokensAreBelowThoseAfterALoss(t *testing.T) {
	minters(t, func(t *testing.T, m *minter, mint func(time.Time) any) {
		for _, reserve := range []func(time.Time) any{m.acquire, m.handOff} {
			fixture.Do(t, m.s, "SET", keys.Counter, int64(1)<<49)
			m.more = 10_000
			token, highest := m.token(reserve(time.Now()))
			require.Equal(t, token+10_000, highest)
			m.more = 0
			for range 3 { // the second loss comes at once, too
				fixture.Do(t, m.s, "FLUSHALL")
				token, _ = m.token(mint(time.Now()))
				require.Greater(t, token, highest)
				highest, _ = m.token(mint(time.Now()))
				require.Greater(t, highest, token)
			}
		}
	})
}
