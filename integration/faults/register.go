package faults

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// register is the resource that locks guard: for each key a number, on a
// server of its own to which nothing happens. Fenced, it remembers the highest
// token that came, with a read or a write, and refuses lower ones. Raw, it
// takes what comes: two holders at once lose an update.
type register struct {
	pool   *redis.Pool
	fenced *redis.Script
	prefix string
}

// errRefused: a higher token has come.
var errRefused = errors.New("faults: refused by the register")

const fencedText = `
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
		fenced: redis.NewScript(1, fencedText),
		pool: &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, redis.DialConnectTimeout(10*time.Second),
				redis.DialReadTimeout(10*time.Second), redis.DialWriteTimeout(10*time.Second))
		}},
	}
}

func (r *register) close() { _ = r.pool.Close() }

// get reads the number that is fenced.
func (r *register) get(key string, token int64) (int64, error) {
	return r.do(key, token)
}

// set writes the number that is fenced.
func (r *register) set(key string, token, value int64) error {
	_, err := r.do(key, token, value)
	return err
}

func (r *register) do(key string, token int64, value ...any) (int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := redis.Int64(r.fenced.Do(conn, append([]any{r.prefix + key, token}, value...)...))
	if errors.Is(err, redis.ErrNil) {
		err = errRefused
	}
	return v, err
}

// addRaw adds one to the other number in two steps, which only a lock makes one.
func (r *register) addRaw(key string) error {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := r.raw(key)
	if err != nil {
		return err
	}
	_, err = conn.Do("SET", r.prefix+key+":raw", v+1)
	return err
}

func (r *register) raw(key string) (int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := redis.Int64(conn.Do("GET", r.prefix+key+":raw"))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return v, err
}

// value is the fenced number, for who has no token.
func (r *register) value(key string) (int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	v, err := redis.Int64(conn.Do("HGET", r.prefix+key, "value"))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return v, err
}
