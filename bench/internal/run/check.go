package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

// pipelined is how many keys are asked for at once when locks are checked.
const pipelined = 500

// checkHeld looks at lock 0 to n-1 on the server with plain commands. lost counts the
// locks that are absent or have another owner; oddTTL counts the locks whose TTL is not
// within the lease. done is called with the progress.
func checkHeld(t *holders.Target, n int, name func(i int) string, h holders.Holder, lease time.Duration, done func(int)) (lost, oddTTL int, err error) {
	all, err := dialMasters(t)
	if err != nil {
		return 0, 0, fmt.Errorf("bench: check: %w", err)
	}
	defer all.close()
	for from := 0; from < n; from += pipelined {
		to := min(from+pipelined, n)
		for i := from; i < to; i++ {
			conn := all[t.Lane(name(i))]
			_ = conn.Send("HGETALL", name(i))
			_ = conn.Send("PTTL", name(i)) // an error shows at Flush
		}
		if err := all.flush(); err != nil {
			return 0, 0, fmt.Errorf("bench: check: %w", err)
		}
		for i := from; i < to; i++ {
			conn := all[t.Lane(name(i))]
			fields, err := redis.StringMap(conn.Receive())
			if err != nil && !isServerError(err) {
				return 0, 0, fmt.Errorf("bench: check: %w", err)
			}
			pttl, err := redis.Int64(conn.Receive())
			if err != nil {
				return 0, 0, fmt.Errorf("bench: check: %w", err)
			}
			switch {
			case !isHeldBy(h, i, fields), pttl == -2:
				lost++
			case pttl < 0 || pttl > lease.Milliseconds():
				oddTTL++
			}
		}
		done(to)
	}
	return lost, oddTTL, nil
}

// isHeldBy says whether the lock's hash is one hold of h, and nothing else.
func isHeldBy(h holders.Holder, i int, fields map[string]string) bool {
	for field, count := range fields {
		return len(fields) == 1 && count == "1" && h.Owns(i, field)
	}
	return false
}

// isServerError says whether an error is the server's answer, like WRONGTYPE, after
// which the connection can be used.
func isServerError(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused)
}

// countKeys counts which of lock 0 to n-1 exist.
func countKeys(t *holders.Target, n int, name func(i int) string, done func(int)) (int, error) {
	return sumOverKeys(t, "EXISTS", n, name, done)
}

// deleteKeys deletes lock 0 to n-1 and counts which of them existed.
func deleteKeys(t *holders.Target, n int, name func(i int) string, done func(int)) (int, error) {
	return sumOverKeys(t, "DEL", n, name, done)
}

// sumOverKeys gives the command to every key and adds up the answers.
func sumOverKeys(t *holders.Target, command string, n int, name func(i int) string, done func(int)) (int, error) {
	all, err := dialMasters(t)
	if err != nil {
		return 0, fmt.Errorf("bench: %s: %w", command, err)
	}
	defer all.close()
	sum := 0
	for from := 0; from < n; from += pipelined {
		to := min(from+pipelined, n)
		for i := from; i < to; i++ {
			_ = all[t.Lane(name(i))].Send(command, name(i)) // an error shows at Flush
		}
		if err := all.flush(); err != nil {
			return sum, fmt.Errorf("bench: %s: %w", command, err)
		}
		for i := from; i < to; i++ {
			found, err := redis.Int(all[t.Lane(name(i))].Receive())
			if err != nil {
				return sum, fmt.Errorf("bench: %s: %w", command, err)
			}
			sum += found
		}
		done(to)
	}
	return sum, nil
}
