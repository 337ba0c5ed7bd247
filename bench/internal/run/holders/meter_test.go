package holders

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

func renewArgs(names ...string) []any {
	args := []any{script.Renew.SHA(), len(names)}
	for _, name := range names {
		args = append(args, []byte(name)) // as the library sends them
	}
	args = append(args, 1000, "id:")
	for range names {
		args = append(args, "f")
	}
	return append(args, 0)
}

func acquireArgs(name string) []any {
	return []any{script.Acquire.SHA(), 2, name, "wheellock_token", "f", 1000, 0, 0}
}

func releaseArgs(name string) []any { return []any{script.Release.SHA(), 1, name, "f", "c"} }

// What the meter says is what a slow and obvious count of the answers says.
func TestMeterCountsWhatItIsShown(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	m, err := newMeter("p:", 4, 1, lease)
	require.NoError(t, err)
	take := func(i int) {
		r := m.readRequest("EVALSHA", acquireArgs(fmt.Sprintf("p:%d", i)))
		m.noteAnswer(0, r, []any{int64(1), int64(0)}, nil)
	}
	for i := range 3 {
		take(i)
	}
	renew := func(reply any, err error, names ...string) {
		m.noteAnswer(0, m.readRequest("EVALSHA", renewArgs(names...)), reply, err)
	}
	renew([]any{}, nil, "p:0", "p:1", "p:2")
	renew([]any{int64(2)}, nil, "p:0", "p:1")                                           // p:1 is gone
	renew([]any{[]any{int64(1), redis.Error("OOM")}}, nil, "p:0", "p:2")                // p:0 is refused
	renew([]any{}, nil, "p:1")                                                          // gone for good
	renew([]any{}, nil, "p:3", "p:9", "p:x", "other:0")                                 // never taken, or not ours
	renew(nil, redis.Error("LOADING"), "p:0")                                           // unknown
	renew([]any{}, nil, "p:0")                                                          // was refused, but is held
	m.confirmedAt[0] -= lease                                                           // its trust has ended
	renew([]any{}, nil, "p:0")                                                          // too late
	m.confirmedAt[2] -= lease/3 + time.Minute                                           // a minute late
	renew([]any{}, nil, "p:2")                                                          //
	m.noteAnswer(0, m.readRequest("EVALSHA", releaseArgs("p:2")), []any{int64(1)}, nil) // no more
	renew([]any{}, nil, "p:2")
	require.Nil(t, m.readRequest("EVALSHA", []any{"another script", 1, "p:0"}))
	require.Nil(t, m.readRequest("GET", []any{"p:0", 1, 2}))
	c := m.Counters()
	require.Equal(t, uint64(3+1+1+1+1), c.Renewals)
	require.Equal(t, 1, c.Missed)
	require.InEpsilon(t, float64(time.Minute), float64(c.Max), 0.02)
	m.Begin()
	require.Zero(t, m.Counters().Renewals)
	require.Equal(t, 1, m.Counters().Missed, "what is missed counts since the acquisition")
}

func TestHoweverLateARenewalIsItCounts(t *testing.T) {
	t.Parallel()
	const lease, late = time.Hour, 37 * time.Minute
	m, err := newMeter("p:", 1, 1, lease)
	require.NoError(t, err)
	m.noteAnswer(0, m.readRequest("EVALSHA", acquireArgs("p:0")), []any{int64(1), int64(0)}, nil)
	m.confirmedAt[0] -= lease/3 + late
	m.noteAnswer(0, m.readRequest("EVALSHA", renewArgs("p:0")), []any{}, nil)
	c := m.Counters()
	require.Equal(t, uint64(1), c.Renewals)
	require.Zero(t, c.Missed)
	for _, got := range []time.Duration{c.P50, c.P99, c.Max} {
		require.InEpsilon(t, float64(late), float64(got), 0.02)
	}
}
