package pipe

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// nonLocal is the error of a script in a Cluster that uses a key on another
// server. Redis 4 to 6 say "Lua script attempted ...", later versions "Script
// attempted ...".
const nonLocal = "attempted to access a non local key"

// passing has the error codes, and the texts without a code, of a server that may
// answer differently soon. An error of a script can have a prefix before them.
var passing = []string{
	"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF",
	"NOREPLICAS", "MOVED", "ASK", "UNBLOCKED", "LATE",
	nonLocal,                    // it was deleted, or moved, while its slot was on its way
	"max number of clients",     // "reached", in a Cluster "+ cluster connections reached"
	"while the cluster is down", // told to a script, CLUSTERDOWN otherwise
	"Script killed by user",     // it had written nothing, or it could not be killed
}

// broken reports whether err is an error and no reply of Redis.
func broken(err error) bool {
	_, reply := err.(redis.Error)
	return err != nil && !reply
}

// Definite reports whether err is a reply of Redis that will not change by
// itself (NOPERM, WRONGTYPE, a script error), as opposed to I/O that failed or
// a passing state.
func Definite(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	if strings.HasPrefix(string(reply), "NOPERM") {
		return true // the user's name stands in it, which may be anything
	}
	for _, code := range passing {
		if hasWord(string(reply), code) {
			return false
		}
	}
	return true
}

// RefusesWrites reports whether err says that the server refuses to write while its disk
// fails or its replicas are missing. The server has then done nothing.
func RefusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !Definite(reply) && (hasWord(string(reply), "MISCONF") || hasWord(string(reply), "NOREPLICAS"))
}

// WantsReplicas reports whether err says that replicas of the server are missing.
func WantsReplicas(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && hasWord(string(reply), "NOREPLICAS")
}

// LoggedOut reports whether err says that the server requires a password.
func LoggedOut(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "NOAUTH")
}

// WrongType reports whether err says that the key is of another type.
func WrongType(err error) bool { return hasWord(err.Error(), "WRONGTYPE") }

// readOnly reports whether err is the answer of a master that was demoted. The
// connection is then not usable.
func readOnly(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "READONLY")
}

// noScript reports whether the server did not run the script because it does
// not know its SHA.
func noScript(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "NOSCRIPT")
}

// LateUnit is the unit in which LATE says the time.
const LateUnit = time.Millisecond

// Lateness reports whether err says that a script was not run because it came after
// its limit. server is the time on the server's clock, rounded up to LateUnit.
func Lateness(err error) (server time.Time, late bool) {
	reply, ok := err.(redis.Error)
	if !ok {
		return time.Time{}, false
	}
	text, ok := strings.CutPrefix(string(reply), "LATE ")
	if !ok {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(ms + 1), true // the script rounds down
}

// TryAgain reports whether a script with several keys was not run because their
// slot is moving from one server to another. A script with one key is always run.
func TryAgain(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && strings.HasPrefix(string(reply), "TRYAGAIN")
}

// SlotMoves reports whether err says that a script was not run because the slot of its keys
// is moving to another server, and not all keys have arrived there.
func SlotMoves(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (TryAgain(reply) || strings.HasPrefix(string(reply), "ASK "))
}

// KeysApart reports whether a script used a key that its call does not name, and that has
// moved to another server before the other keys. The script may have run in part.
func KeysApart(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(string(reply), nonLocal)
}

// OfCluster reports whether err is an error that only a node of a Cluster returns.
func OfCluster(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && (strings.HasPrefix(string(reply), "MOVED ") || hasWord(string(reply), "CROSSSLOT"))
}

// Redirection is the answer of a server of a Cluster about a key that it does not have.
type Redirection struct {
	Ask    bool // this once, with ASKING; else from now on
	Slot   int
	Server string
}

// redirectionOf reads an answer of the server from. It returns false if the answer is
// no redirection.
func redirectionOf(err error, from string) (Redirection, bool) {
	reply, ok := err.(redis.Error)
	if !ok {
		return Redirection{}, false
	}
	words := strings.Fields(string(reply))
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return Redirection{}, false
	}
	slot, err := strconv.Atoi(words[1])
	if err != nil || slot < 0 || slot >= keys.Slots {
		return Redirection{}, false
	}
	server := words[2]
	if strings.HasPrefix(server, ":") { // on the very host that answered
		host, _, err := net.SplitHostPort(from)
		if err != nil {
			return Redirection{}, false
		}
		server = net.JoinHostPort(host, server[1:])
	}
	return Redirection{Ask: words[0] == "ASK", Slot: slot, Server: server}, true
}

// hasWord reports whether text has word as a whole word.
func hasWord(text, word string) bool {
	for rest := text; ; {
		i := strings.Index(rest, word)
		if i < 0 {
			return false
		}
		end := i + len(word)
		if (i == 0 || !isWord(rest[i-1])) && (end == len(rest) || !isWord(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func isWord(b byte) bool { return b == '_' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' }

// unpublished splits the answer of a script that publishes into the number and the
// refusal of its message.
func unpublished(s *script.Script, reply resp.Reply) (number resp.Reply, refusal string, refused bool) {
	pair, ok := reply.Other().([]any)
	if !ok || len(pair) != 2 {
		return reply, "", false
	}
	text, ok := pair[1].([]byte)
	if !ok || !s.Publishes() {
		return reply, "", false
	}
	return resp.ReplyOf(pair[0]), string(text), true
}
