package pipe

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// nonLocal is what a script in a Cluster is told that looks at a key on another
// server. Redis 4 to 6 say "Lua script attempted ...", later ones "Script
// attempted ...".
const nonLocal = "attempted to access a non local key"

// passing are the error codes, and texts without one, of a server that may
// answer differently soon. In a script they can stand behind a prefix.
var passing = []string{
	"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF",
	"NOREPLICAS", "MOVED", "ASK", "UNBLOCKED", "LATE",
	nonLocal,                    // it was deleted, or moved, while its slot was on its way
	"max number of clients",     // "reached", in a Cluster "+ cluster connections reached"
	"while the cluster is down", // told to a script, CLUSTERDOWN otherwise
	"Script killed by user",     // it had written nothing, or it could not be killed
}

// broken reports whether err is one, and no reply of Redis.
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

// RefusesWrites reports whether err says that the server refuses to write for as long as
// its disk fails, or its replicas are missing. It has done nothing.
func RefusesWrites(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !Definite(reply) && (hasWord(string(reply), "MISCONF") || hasWord(string(reply), "NOREPLICAS"))
}

// WantsReplicas reports whether err says that replicas of the server are missing.
func WantsReplicas(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && hasWord(string(reply), "NOREPLICAS")
}

// LoggedOut reports whether err says that the server wants a password first.
func LoggedOut(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "NOAUTH")
}

// WrongType reports whether err says that the key is of another type.
func WrongType(err error) bool { return hasWord(err.Error(), "WRONGTYPE") }

// readOnly reports whether err is the answer of a master that was demoted: its
// connection is of no more use.
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

// Lateness reports whether err says that a script was not run because it came after
// its limit, and what the server's clock showed.
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
	return time.UnixMilli(ms + 1), true // which was rounded down
}

// TryAgain reports whether a script with several keys was not run because
// their slot is on its way from one server to another. One with one key always
// is run.
func TryAgain(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && strings.HasPrefix(string(reply), "TRYAGAIN")
}

// apart reports whether a script met a key, which it had not named, that has
// gone ahead of the others to another server.
func apart(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && strings.Contains(string(reply), nonLocal)
}

// OfCluster reports whether only a node of a Cluster says so.
func OfCluster(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && (strings.HasPrefix(string(reply), "MOVED ") || hasWord(string(reply), "CROSSSLOT"))
}

// Redirection is what a server of a Cluster says of a key that it has not got.
type Redirection struct {
	Ask    bool // this once, with ASKING; else from now on
	Slot   int
	Server string
}

// redirectionOf reads an answer of the server from. It returns false if that
// is no redirection.
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

// hasWord reports whether word stands in text by itself.
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

// unpublished takes the refusal of its message off the answer of a script that
// publishes.
func unpublished(s *script.Script, reply any) (number any, refusal string, refused bool) {
	pair, ok := reply.([]any)
	if !ok || len(pair) != 2 {
		return reply, "", false
	}
	text, ok := pair[1].([]byte)
	if !ok || !s.Publishes() {
		return reply, "", false
	}
	return pair[0], string(text), true
}
