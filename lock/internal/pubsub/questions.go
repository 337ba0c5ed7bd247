package pubsub

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// question is a command on its way. It is answered once for each of its
// channels, or by one error.
type question struct {
	command string // as its answers name it
	channel string // the first
	answers int    // still to come
	at      time.Time
}

// send writes a command with arguments, in parts of subscribeMax; the sharded
// ones take channels of one slot, so there each has a command of its own.
func (s *Subscriber) send(conn redis.Conn, command string, args []any) error {
	if len(args) == 0 {
		return nil
	}
	most := subscribeMax
	if ofShards(command) {
		most = 1
	}
	for len(args) > 0 {
		n := min(len(args), most)
		s.ask(command, args[:n])
		if err := conn.Send(command, args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return conn.Flush()
}

// ofShards reports whether a command, or what its answers are called, is about
// sharded channels.
func ofShards(command string) bool {
	switch command {
	case "SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage":
		return true
	}
	return false
}

// ask notes a command that is about to be sent.
func (s *Subscriber) ask(command string, args []any) {
	q := question{command: strings.ToLower(command), answers: len(args), at: time.Now()}
	if command == "PING" {
		q.command = pong
	}
	q.channel, _ = args[0].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q)
}

// answered notes an answer. A server that gives a slot away tells of the end of
// its channels unasked.
func (s *Subscriber) answered(kind, channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 || s.asked[0].command != kind || ofShards(kind) && s.asked[0].channel != channel {
		return
	}
	if s.asked[0].answers--; s.asked[0].answers == 0 {
		s.endLocked()
	}
}

// endLocked takes the first question away, which is answered. The server answers in the
// order in which it was asked, and sends messages before that which were published
// before.
func (s *Subscriber) endLocked() {
	if s.asked[0].command == pong {
		s.heard = s.asked[0].at
	}
	s.asked = s.asked[1:]
}

// refused notes an error reply, and says what it refuses; a zero question if nothing
// was asked.
func (s *Subscriber) refused() (q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		q = s.asked[0]
		s.endLocked()
	}
	return q
}
