package faults

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// bounded: the connections of a client do not grow.
func (s *scene) bounded(ctx context.Context, c *checks) {
	// For commands and for renewal two each, and one subscribes.
	const most = processes * 5
	if !eventually(ctx, patience, func() bool { return s.proxy.Open() <= most }) {
		c.wrong("%d processes have %d connections, %d are enough", processes, s.proxy.Open(), most)
	}
}

// nothingLeft: no connection, subscription or lock of theirs remains.
func (s *scene) nothingLeft(ctx context.Context, c *checks) {
	if !eventually(ctx, patience, func() bool { return s.proxy.Open() == 0 }) {
		c.wrong("%d connections are left", s.proxy.Open())
	}
	if !eventually(ctx, patience, func() bool {
		channels, err := redis.Strings(s.do("PUBSUB", "CHANNELS"))
		return err == nil && len(channels) == 0
	}) {
		c.wrong("subscriptions are left")
	}
	if s.row.Stretches {
		return
	}
	// What nobody could release goes with its lease, and what was asked while
	// that lasted a lease later.
	var left []string
	if !eventually(ctx, 3*s.Lease+patience, func() bool {
		left = nil
		for _, pattern := range []string{"mutex-*", "rw-*", "shared-*", "many-*"} {
			keys, err := redis.Strings(s.do("KEYS", pattern))
			if err != nil {
				return false
			}
			left = append(left, keys...)
		}
		return len(left) == 0
	}) {
		c.wrong("%d keys are left: %s", len(left), strings.Join(left[:min(len(left), 10)], ", "))
	}
}

// sums compares the register with what was written to it.
func (s *scene) sums(c *checks) {
	r := newRegister(s.Register.Addr(), s.Prefix)
	defer r.close()
	for _, key := range slices.Sorted(maps.Keys(s.history.lines)) {
		if !strings.HasPrefix(key, "mutex-") {
			continue
		}
		p := s.history.lines[key].past
		sure, maybe, raw := p.sure, p.maybe, p.raw
		value, err := r.value(key)
		if err != nil || value < sure || value > sure+maybe {
			c.wrong("%s: the fenced register counts %d, and from %d to %d were added (%v)", key, value, sure, sure+maybe, err)
		}
		if got, err := r.raw(key); !p.lost && (err != nil || got != raw) {
			c.wrong("%s: the register without tokens counts %d, and %d were added (%v)", key, got, raw, err)
		}
	}
}
