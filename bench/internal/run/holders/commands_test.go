package holders

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

// recorder records the commands that are written on the connections of a row.
type recorder struct {
	mu    sync.Mutex // guards what follows
	lines []string
	conns int
}

// recorded is a connection that a recorder listens to.
type recorded struct {
	redis.Conn
	to *recorder
}

func (r *recorder) wrap(conn redis.Conn) redis.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns++
	return recorded{conn, r}
}

func (r *recorder) note(command string, args []any) {
	line := command
	for _, arg := range args {
		line += fmt.Sprintf(" %s", redisText(arg))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func redisText(arg any) string {
	if b, ok := arg.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(arg)
}

func (c recorded) Send(command string, args ...any) error {
	c.to.note(command, args)
	return c.Conn.Send(command, args...)
}

func (c recorded) Do(command string, args ...any) (any, error) {
	c.to.note(command, args)
	return c.Conn.Do(command, args...)
}

func (c recorded) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	c.to.note(command, args)
	return redis.DoWithTimeout(c.Conn, timeout, command, args...)
}

func (c recorded) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

// story returns the commands that a row of n locks has written, from the first acquisition to the
// last release, after every lock was renewed. Each command is there once, with ID and LEASE
// in place of the row's random id and its lease. calls has the numbers of keys in calls of the
// renewal script.
func story(t *testing.T, driver string, n int) (lines []string, calls map[int]bool) {
	t.Helper()
	var rec *recorder
	var id, milliseconds string
	keptUp(t, func(lease time.Duration) error {
		milliseconds = fmt.Sprintf(" %d ", lease.Milliseconds())
		rec = &recorder{}
		target := OneServer(fixture.RedisOrMini(t))
		target.wrap = rec.wrap
		h := holdingOn(t, target, driver, n, lease)
		id = h.Holder.(*timed).id
		h.Begin()
		awaitRenewals(t, h, 3*n)
		bounded.Until(t, func() bool { return h.Counters().Missed > 0 || rec.hasRenewed(n) })
		return releaseAll(h, n)
	})
	calls = map[int]bool{}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, line := range rec.lines {
		if isRenewal(line) {
			var keys int
			_, err := fmt.Sscanf(strings.Fields(line)[2], "%d", &keys)
			require.NoError(t, err)
			calls[keys] = true
		}
		if strings.HasPrefix(line, "EVAL") {
			line = strings.ReplaceAll(line, milliseconds, " LEASE ")
		}
		lines = append(lines, strings.ReplaceAll(line, id, "ID"))
	}
	slices.Sort(lines)
	return slices.Compact(lines), calls
}

// hasRenewed reports whether each of n locks was renewed once at least.
func (r *recorder) hasRenewed(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		if !slices.ContainsFunc(r.lines, func(l string) bool { return isRenewal(l) && strings.Contains(l, fmt.Sprintf(" s%d ", i)) }) {
			return false
		}
	}
	return true
}

func isRenewal(line string) bool { return strings.HasPrefix(line, "EVALSHA "+script.Renew.SHA()) }

// The rows are made for this comparison, so only the timer may differ.
func TestWheelAndAfterFuncSendTheSameCommands(t *testing.T) {
	t.Parallel()
	const n = 20
	wheel, _ := story(t, "wheel", n)
	afterFunc, _ := story(t, "afterfunc", n)
	require.Equal(t, afterFunc, wheel)
	renewals := 0
	for _, line := range wheel {
		if isRenewal(line) {
			renewals++
		}
	}
	require.Equal(t, n, renewals, "one form of renewal for each lock")
}

// Chance decides which locks share a call, so the calls are split into one line for each lock.
func TestBatchesOfWheelAndAfterFuncAreTheSameCommands(t *testing.T) {
	t.Parallel()
	const n = 300
	apart := func(driver string) []string {
		lines, calls := story(t, driver, n)
		for keys := range calls {
			require.LessOrEqual(t, keys, BatchSize)
		}
		var out []string
		for _, line := range lines {
			if !isRenewal(line) {
				out = append(out, line)
				continue
			}
			var keys int
			words := strings.Fields(line)
			_, err := fmt.Sscanf(words[2], "%d", &keys)
			require.NoError(t, err)
			require.Len(t, words, 3+keys+2+keys+1)
			for k := range keys {
				out = append(out, strings.Join([]string{words[0], words[1], words[3+k], words[3+keys], words[4+keys], words[5+keys+k]}, " "))
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	require.Equal(t, apart("afterfunc-batch"), apart("wheel-batch"))
}
