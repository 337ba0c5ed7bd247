package pubsub

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// question is a command that was sent and not yet answered. The server answers
// once for each of its channels, or with one error.
type question struct {
	command string // the name that its answers have
	channel string // the first channel
	answers int    // how many are still to come
	at      time.Time
}

// send writes a command with arguments, in parts of subscribeMax. A sharded
// command takes channels of one slot, so each sharded channel has its own command.
func (s *Subscriber) send(conn redis.Conn, command string, args []any) error {
	if len(args) == 0 {
		return nil
	}
	// A server that does not read may fill the buffers, and a pool's connection may have no limit.
	defer time.AfterFunc(s.cfg.Timeout, func() { conn.Close() }).Stop()
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

// ofShards reports whether a command, or the name of its answers, is about sharded
// channels.
func ofShards(command string) bool {
	switch command {
	case "SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage":
		return true
	}
	return false
}

// ask records a command that is about to be sent.
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

// answered records an answer. When a server gives a slot away, it ends the
// subscriptions of the slot's channels without a question.
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

// endLocked removes the first question, because it is answered. The server answers
// questions in order. A message that was published before an answer comes before it.
func (s *Subscriber) endLocked() {
	if s.asked[0].command == pong {
		s.heard = s.asked[0].at
	}
	s.asked = s.asked[1:]
}

// refused records an error reply and returns the question that it refuses. It returns a
// zero question if there is none.
func (s *Subscriber) refused() (q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) > 0 {
		q = s.asked[0]
		s.endLocked()
	}
	return q
}
