package diagnosis

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// meaning is what an error reply says of what was tried.
type meaning int

const (
	fine         meaning = iota // no error, or one that only says what the scratch key is
	noCommand                   // the user may not run the command
	noKey                       // or not use the key
	noChannel                   // or not the channel
	unknown                     // the server has no such command
	undetermined                // it writes nothing behind what differs from time to time
	state                       // the server is in a state in which it refuses, see stateOf
	unanswered                  // it is no reply
)

// meaningOf reads an answer in the words of all versions.
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

// states are what servers say that can take no lock now, and what to do.
var states = []struct{ word, text string }{
	{"NOAUTH", "it wants a password: give the user and the password in the URL, or to what the pool or the Topology dials with " +
		"(redis.DialPassword, redis.DialUsername)"},
	{"DENIED", "it is in protected mode and talks to its own machine alone: give it a password, or set protected-mode no"},
	{"READONLY", "it is a replica, and locks are on its master: dial the master, or let package lock/sentinel find it"},
	{"OOM", "its memory is full, so no lock can be taken: make room, or raise maxmemory"},
	{"NOREPLICAS", "it has fewer replicas than its min-replicas-to-write asks for, so no lock can be taken: check that they are connected"},
	{"MISCONF", "it cannot write its data to disk and takes no lock meanwhile: see its log and its disk"},
	{"LOADING", "it is loading its data: try again when that is done"},
	{"MASTERDOWN", "it is a replica that has lost its master, and locks are on the master: dial the master"},
	{"CLUSTERDOWN", "its Cluster is down, or has slots that no master has: mend it (CLUSTER INFO)"},
	{"BUSY", "a script keeps it busy: see which one, and try again"},
}

// stateOf says in what state a server refuses, and what to do; "" if it is in none.
func stateOf(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	words := strings.FieldsFunc(string(reply), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') })
	for _, s := range states {
		for _, word := range words {
			if word == s.word {
				return s.text
			}
		}
	}
	return ""
}
