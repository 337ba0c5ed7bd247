package pubsub

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// read passes messages on until the connection fails. Its timeout is above the
// period of pings, so silence means that the connection is dead.
func (s *Subscriber) read(conn redis.Conn) error {
	for hasAnswered := false; ; {
		reply, err := resp.Receive(conn, pingPeriod+s.cfg.Timeout)
		_, refused := err.(redis.Error)
		if !hasAnswered && s.cfg.Answered != nil && (err == nil || refused) {
			hasAnswered = true
			s.cfg.Answered()
		}
		if refused && s.staysUsable(s.noteRefusal(), err) {
			continue
		}
		if err != nil {
			return err
		}
		push, ok := reply.([]any)
		if !ok || len(push) < 2 {
			s.noteAnswer(pong, "") // without a subscription, PING has a plain answer
			continue
		}
		kind, _ := redis.String(push[0], nil)
		channel, _ := redis.String(push[1], nil)
		if s.handlePush(kind, channel, s.noteAnswer(kind, channel)) {
			s.cfg.Logger.Log(record.PubSubWorks, s.cfg.Where())
		}
	}
}

// handlePush handles what the server says about a channel. answers says that it answers a question.
// worksAgain is true for the first subscription after a warning.
func (s *Subscriber) handlePush(kind, channel string, answers bool) (worksAgain bool) {
	i := plain
	if isOfShards(kind) {
		i, channel = sharded, keys.PlainChannel(channel)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	switch kind {
	case "message", "smessage":
		if t != nil {
			t.messages++
			t.wakeLocked()
		}
	case "sunsubscribe":
		if !answers && t != nil && t.ways[i].asked { // an answer to an earlier SUNSUBSCRIBE is no move
			s.endedLocked(t)
		}
	case "subscribe", "ssubscribe":
		if t != nil && t.ways[i].asked {
			t.ways[i].confirmed, t.confirmed = true, false
			if s.confirmLocked(t); t.confirmed {
				delete(s.refused, channel)
			}
		}
		if len(s.refused) == 0 {
			worksAgain, s.isWarned = s.isWarned, false
		}
	}
	return worksAgain
}

// confirmLocked marks t as confirmed, and wakes its listeners, if t is now subscribed in all its
// ways and was not before.
func (s *Subscriber) confirmLocked(t *topic) {
	s.looks++
	if t.confirmed || len(t.listeners) > 0 && s.lacksLocked(t) || !t.ways[plain].confirmed && !t.ways[sharded].confirmed {
		return
	}
	for _, w := range t.ways {
		if w.asked && !w.confirmed {
			return
		}
	}
	t.confirmed = true
	t.generation = int(generations.Add(1))
	t.wakeLocked()
}

// staysUsable reports whether the connection can still be used after an error reply to q.
func (s *Subscriber) staysUsable(q question, err error) bool {
	if q.command == pong { // a refused ping also shows that the connection works
		return true
	}
	if pipe.LoggedOut(err) || q.command != "subscribe" && !isOfShards(q.command) {
		return false
	}
	verdict, to := pipe.VerdictOf(err, true, s.cfg.Server)
	switch {
	case q.command == "sunsubscribe": // a server has no subscription for a slot that it does not have
		return verdict == pipe.Elsewhere
	case q.command == "subscribe":
		s.refuse(q.channels, err)
	case verdict == pipe.Elsewhere:
		s.redirect(keys.PlainChannel(q.first()), s.cfg.Redirect(to))
	case pipe.Definite(err) && s.cfg.SSubscribeRefused != nil && s.cfg.SSubscribeRefused(err):
		s.giveUpSharded(keys.PlainChannel(q.first()))
	default:
		s.refuse([]any{keys.PlainChannel(q.first())}, err)
	}
	return true
}

// refuse is called when the server has refused to subscribe channels. If there are several, one of them
// may be the reason, so each is asked for alone from now on. Otherwise the listeners of the channel
// poll. The server is asked for it again after a refusedPause, or at the next ping if the
// refusal may pass.
func (s *Subscriber) refuse(channels []any, err error) {
	s.mu.Lock()
	isAlone := len(channels) == 1
	for _, name := range channels {
		channel := name.(string)
		switch t := s.topics[channel]; {
		case t == nil:
		case isAlone && pipe.Definite(err):
			s.refused[channel] = time.Now().Add(refusedPause)
		case isAlone:
			s.refused[channel] = time.Now()
		default:
			s.askAgainLocked(t)
		}
	}
	if !isAlone {
		s.asksAlone = true
		wait.Signal(s.work)
	}
	s.mu.Unlock()
	if isAlone {
		s.warn(err)
	}
}

// redirect is called when the server says that the slot of channel is on another server. If that
// server is known, the listeners are sent away, but only once in a period of pings, because the
// other server may send them back. Otherwise they poll, and the server is asked again at the next
// ping.
func (s *Subscriber) redirect(channel string, isKnown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil || !t.ways[sharded].asked || t.ways[sharded].confirmed {
		return
	}
	s.looks++
	if _, again := s.redirected[channel]; isKnown && !again {
		s.redirected[channel] = nil
		s.forgetMovedLocked(t)
		return
	}
	s.redirected[channel] = t // the way still counts as asked, so the server is not asked before the ping
}

// endedLocked is called when the server has ended the subscription of t, because its slot has gone to
// another server. The listeners are sent away. If that happens again before the next ping, they are
// only woken, and the server is asked again at the ping. So servers are not asked without a pause.
func (s *Subscriber) endedLocked(t *topic) {
	if _, again := s.ended[t.channel]; !again {
		s.ended[t.channel] = struct{}{}
		s.forgetMovedLocked(t)
		return
	}
	s.redirected[t.channel] = t
	t.ways[sharded].confirmed = false // the way still counts as asked, so the server is not asked before the ping
	t.unconfirmLocked()
	t.wakeLocked()
}

// giveUpSharded records that the server has refused SSUBSCRIBE of channel. From now on channels
// are subscribed without SSUBSCRIBE if they can be.
func (s *Subscriber) giveUpSharded(channel string) {
	now := s.cfg.Modes()
	s.mu.Lock()
	defer s.mu.Unlock()
	isFirst := !s.isShardedRefused
	s.isShardedRefused = true
	t := s.topics[channel]
	if t != nil {
		t.ways[sharded] = way{}
	}
	switch isRetuned := s.retuneLocked(now); {
	case isFirst || isRetuned: // other topics may lack nothing any more
		for _, t := range s.topics {
			s.confirmLocked(t)
		}
	case t != nil: // each topic that was asked for is refused, so no refusal may cost work for all
		s.confirmLocked(t)
	}
}

// forgetMovedLocked forgets a topic whose slot is on another server now, and wakes its
// listeners. Before they sleep again, they look for their channel on the server of
// the key.
func (s *Subscriber) forgetMovedLocked(t *topic) {
	if t.ways[plain].asked {
		s.movedChannels = append(s.movedChannels, t.channel)
		wait.Signal(s.work)
	}
	t.ways = [2]way{}
	t.unconfirmLocked()
	delete(s.topics, t.channel)
	t.wakeLocked()
}
