package faults

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// register is the resource that locks guard: for each key a number, on a server of its
// own to which nothing happens. It remembers the highest token that came, with a read or
// a write, and refuses lower ones.
type register struct {
	pool   *redis.Pool
	script *redis.Script
	prefix string
}

// errRefused: a higher token has come.
var errRefused = errors.New("faults: refused by the register")

const registerText = `
local highest = tonumber(redis.call('hget', KEYS[1], 'token') or '0')
if tonumber(ARGV[1]) < highest then
  return false
end
redis.call('hset', KEYS[1], 'token', ARGV[1])
if ARGV[2] then
  redis.call('hset', KEYS[1], 'value', ARGV[2])
end
return tonumber(redis.call('hget', KEYS[1], 'value') or '0')`

func newRegister(addr, prefix string) *register {
	return &register{
		prefix: prefix,
		script: redis.NewScript(1, registerText),
		pool: &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(10*time.Second),
				redis.DialReadTimeout(10*time.Second), redis.DialWriteTimeout(10*time.Second))
		}},
	}
}

func (r *register) close() { _ = r.pool.Close() }

// do reads the number, or writes one.
func (r *register) do(key string, token int64, write ...any) (int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := redis.Int64(r.script.Do(conn, append([]any{r.prefix + key, token}, write...)...))
	if errors.Is(err, redis.ErrNil) {
		err = errRefused
	}
	return v, err
}

// value returns the number. It is for callers without a token.
func (r *register) value(key string) (int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := redis.Int64(conn.Do("HGET", r.prefix+key, "value"))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return v, err
}
