package pubsub

import (
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// question is a command that was sent and not yet answered. The server answers
// once for each of its channels, or with one error.
type question struct {
	command  string    // the name that the answers have
	channels []any     // its channels, one if they are sharded; a PING has an empty text
	answers  int       // how many answers are still to come
	at       time.Time // when it was sent
}

// first returns the first channel.
func (q question) first() string { return q.channels[0].(string) }

// send writes a command with arguments, in parts of subscribeMax. A sharded
// command takes channels of one slot, so each sharded channel has its own command.
func (s *Subscriber) send(conn redis.Conn, command string, args []any) error {
	for part := range slices.Chunk(args, subscribeMax) {
		if err := s.sendPart(conn, command, part); err != nil {
			return err
		}
	}
	return nil
}

// sendPart writes a part of send. Each part has the whole of Config.Timeout, because all together may
// take long over a slow link.
func (s *Subscriber) sendPart(conn redis.Conn, command string, part []any) error {
	// A server that does not read may fill the buffers, and a pool's connection may have no limit.
	defer time.AfterFunc(s.cfg.Timeout, func() { conn.Close() }).Stop()
	most := len(part)
	if isOfShards(command) || command == "SUBSCRIBE" && s.mustAskAlone() {
		most = 1
	}
	for args := range slices.Chunk(part, most) {
		s.noteQuestion(command, args)
		if err := conn.Send(command, args...); err != nil {
			return err
		}
	}
	return conn.Flush()
}

func (s *Subscriber) mustAskAlone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asksAlone
}

// isOfShards reports whether command, which is a command or the name of its answers, is about
// sharded channels.
func isOfShards(command string) bool {
	switch command {
	case "SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage":
		return true
	}
	return false
}

// noteQuestion records a command that is about to be sent.
func (s *Subscriber) noteQuestion(command string, args []any) {
	q := question{command: strings.ToLower(command), channels: args, answers: len(args), at: time.Now()}
	if command == "PING" {
		q.command = pong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.questions = append(s.questions, q)
}

// noteAnswer records an answer to the first question. It returns false for what answers no question: when
// a server gives a slot away, it ends the subscriptions of the slot's channels by itself.
func (s *Subscriber) noteAnswer(kind, channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.questions) == 0 || s.questions[0].command != kind || isOfShards(kind) && s.questions[0].first() != channel {
		return false
	}
	if s.questions[0].answers--; s.questions[0].answers == 0 {
		s.popQuestionLocked()
	}
	return true
}

// popQuestionLocked removes the first question, because it is answered. The server answers
// questions in order. A message that was published before a ping was answered comes before the
// answer, so no earlier message is still to come.
func (s *Subscriber) popQuestionLocked() {
	if s.questions[0].command == pong {
		s.lastPong = s.questions[0].at
	}
	s.questions = s.questions[1:]
}

// noteRefusal records an error reply and returns the question that it refuses. It returns a
// zero question if there is none.
func (s *Subscriber) noteRefusal() (q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.questions) > 0 {
		q = s.questions[0]
		s.popQuestionLocked()
	}
	return q
}
