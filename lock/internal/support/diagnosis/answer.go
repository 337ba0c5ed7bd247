package diagnosis

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// meaning says what an error reply means for the call that was tried.
type meaning int

const (
	fine         meaning = iota // no error, or one about the type of the scratch key
	noCommand                   // the user may not run the command
	noKey                       // the user may not use the key
	noChannel                   // the user may not use the channel
	unknown                     // the server has no such command
	undetermined                // the server refuses writes after a call whose answer is not deterministic
	state                       // the server is in a state in which it refuses, see stateOf
	unanswered                  // the error is no reply
)

// meaningOf reads an error reply of any version of the server.
func meaningOf(err error) meaning {
	if err == nil {
		return fine
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return unanswered
	}
	text := strings.ToLower(string(reply))
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("noperm"), has("acl failure"), has("user executing the script can't"):
		switch {
		case has(" run "):
			return noCommand
		case has("channel"):
			return noChannel
		}
		return noKey
	case has("unknown command"), has("unknown redis command"), has("not allowed from script"):
		return unknown
	case has("non deterministic"):
		return undetermined
	case stateOf(err) != "":
		return state
	}
	return fine
}

// LacksCommand reports whether a server refused because the user may not run a command.
func LacksCommand(err error) bool { return meaningOf(err) == noCommand }

// LacksKey reports whether a server refused because the user may not use a key.
func LacksKey(err error) bool { return meaningOf(err) == noKey }

// states has the errors of servers that can take no lock now, by their code or the begin of their text, and
// what to do.
var states = []struct{ word, text string }{
	{"NOAUTH", "the server requires a password: give the user and the password in the URL, or to what the pool or the Topology dials with " +
		"(redis.DialPassword, redis.DialUsername)"},
	{"WRONGPASS", "the user or the password is wrong: give the right ones in the URL, or to what the pool or the Topology dials with " +
		"(redis.DialUsername, redis.DialPassword)"},
	{"invalid password", "the password is wrong: give the right one in the URL, or to what the pool or the Topology dials with (redis.DialPassword)"},
	{dialing.Protected, "the server is in protected mode and accepts only connections from its own machine: give it a password, or set protected-mode no"},
	{dialing.TooMany, "the server has as many connections as its maxclients allows: raise maxclients, or find out who has so many (CLIENT LIST)"},
	{"READONLY", "the server is a replica, and locks are on its master: dial the master, or let package lock/sentinel find it"},
	{"OOM", "the server's memory is full, so no lock can be taken: make room, or raise maxmemory"},
	{"NOREPLICAS", "the server has fewer replicas than its min-replicas-to-write asks for, so no lock can be taken: check that they are connected"},
	{"MISCONF", "the server cannot write its data to disk and takes no lock meanwhile: see its log and its disk"},
	{"LOADING", "the server is loading its data: try again when the data is loaded"},
	{"MASTERDOWN", "the server is a replica that has lost its master, and locks are on the master: dial the master"},
	{"CLUSTERDOWN", "the server's Cluster is down, or has slots that no master has: repair the Cluster (CLUSTER INFO)"},
	{"BUSY", "a script keeps the server busy: find out which script, and try again"},
}

// stateOf returns the state in which a server refuses, and what to do. It returns "" if the
// server is in no such state.
func stateOf(err error) string {
	var reply redis.Error
	errors.As(err, &reply)
	code := pipe.Code(err)
	for _, s := range states {
		if code == s.word || strings.HasPrefix(string(reply), "ERR "+s.word) {
			return s.text
		}
	}
	return ""
}

// isUnreadable reports whether err says that an answer has come that Redis does not give in RESP2.
// redigo, which reads the connections of a program's own pool, has no type for that.
func isUnreadable(err error) bool {
	var odd *resp.AnswerError
	return errors.As(err, &odd) || err != nil && strings.Contains(err.Error(), " (possible server error or ")
}
