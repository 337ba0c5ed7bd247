package lock

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// parseInfo reads the answer of the inspect script.
func (m *RWMutex) parseInfo(reply any) (RWInfo, error) {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return RWInfo{}, m.c.badReply("inspect", m.name, reply)
	}
	pttl, ok := values[0].(int64)
	switch {
	case ok && pttl >= 0 && len(values) == 2:
		return RWInfo{Foreign: true, TTL: ttlOf(pttl)}, nil
	case !ok || len(values)%2 == 0:
		return RWInfo{}, m.c.badReply("inspect", m.name, reply)
	case pttl == -2:
		return RWInfo{}, nil
	}
	info := RWInfo{TTL: ttlOf(pttl)}
	hash, err := redis.StringMap(values[1:], nil)
	if err != nil {
		return RWInfo{}, m.c.badReply("inspect", m.name, reply)
	}
	mode := hash["mode"]
	if mode != "read" && mode != "write" {
		return RWInfo{}, fmt.Errorf("lock: inspect of %q: the key is a hash but no read-write lock's", m.name)
	}
	info.Writing = mode == "write"
	for i := 1; i < len(values); i += 2 { // in Redis' order
		text, _ := redis.String(values[i], nil)
		if text == "mode" {
			continue
		}
		field, writing := strings.CutSuffix(text, ":write")
		count, err := strconv.Atoi(hash[text])
		if err != nil {
			return RWInfo{}, fmt.Errorf("lock: inspect of %q: field %.50q is %.50q", m.name, text, hash[text])
		}
		info.Holders = append(info.Holders, RWHolder{Field: field, Writing: writing, Count: count})
	}
	return info, nil
}
