package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// mutexes are the rules of a lock that one owner holds at a time: a hash {field:
// count} under its name. With or without a counter of its own.
type mutexes struct{}

func (mutexes) acquire(a *attempt, field string) command {
	counter, least := a.c.scripts.counterOf(a.kind, a.name)
	cmd := command{script: script.Acquire, keys: 2, args: make([]any, 0, 8)}
	cmd.args = append(cmd.args, a.name, counter)
	again := time.Duration(0)
	if w := a.waiter; w != nil && w.again > 0 {
		cmd.keys, again = 3, w.again
		cmd.args = append(cmd.args, keys.Polls(a.name))
	}
	cmd.args = append(cmd.args, field, ms(a.lease), least, a.more(), ms(again))
	return cmd
}

func (mutexes) release(s *scripts, name, field string) command {
	return command{script: script.Release, keys: 1, args: s.publishing(name, []any{name, field, keys.Channel(name)})}
}

func (mutexes) reenter(h *hold, count int32, lease time.Duration) command {
	return command{script: script.Reenter, keys: 1, args: []any{h.name, h.field(), count, ms(lease)}}
}

func (mutexes) class() carrier.Class         { return carrier.Fields }
func (mutexes) key(name string) string       { return name }
func (mutexes) channel(name string) string   { return keys.Channel(name) }
func (mutexes) locks(i Info) bool            { return i.Locked }
func (mutexes) orphanOutlived(*hold, Reason) {}

func (mutexes) held(t *tables, name string, o owner) *hold {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownLocked(name, o)
}

// notMutex is what a hash is that no exclusive lock has made.
const notMutex = "is a hash of other things than owners and counts"

func (mutexes) force(s *scripts, name string) (command, string) {
	return command{script: script.Force, keys: 1, args: []any{name, keys.Channel(name), s.publish(name)}}, notMutex
}

func (mutexes) take(ctx context.Context, m *Mutex, a *attempt) (*Held, error) {
	w := newWaiter(a.shard, queueKey{m.name, mutexQueue}, a)
	defer endWaiter(w)
	return a.stand(ctx, w)
}
