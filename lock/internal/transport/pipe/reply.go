package pipe

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// scriptPrefix matches what Redis before version 7 writes before the code of an error of a command
// in a script. The rest of a reply may have the names of keys and users, which may be anything.
var scriptPrefix = regexp.MustCompile(`^(ERR Error running script \(call to f_[0-9a-f]*\): )?(@user_script: ?\d+: )+-?`)

// replyText returns the text of an error reply, from its code on. It returns "" if err is no reply.
func replyText(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return string(reply)[len(scriptPrefix.FindString(string(reply))):]
}

// Code returns the code of an error reply, its first word. It returns "" if err is no reply.
func Code(err error) string {
	code, _, _ := strings.Cut(strings.TrimSpace(replyText(err)), " ")
	return code
}

// beginsWith reports whether an error reply whose only code is ERR begins with that text.
func beginsWith(err error, text string) bool {
	reply := strings.TrimPrefix(strings.TrimPrefix(replyText(err), "ERR "), "Error running script: ")
	if lua, ok := strings.CutPrefix(reply, "Lua script "); ok { // before Redis 7
		reply = "Script " + lua
	}
	return strings.HasPrefix(reply, text)
}

// nonLocal is the error of a script in a Cluster that uses a key on another server. The
// key was deleted, or has moved, while its slot was on its way.
const nonLocal = "Script attempted to access a non local key"

// NotRun reports whether err is a reply which says that a script has changed nothing and never
// will. Redis gives these replies before it runs a script, or in place of the first write of a
// script: READONLY, MISCONF and NOREPLICAS. After the first write Redis 7 refuses nothing for its
// own state, and before Redis 7 that state does not change while a script runs. OOM is none of
// these codes, because a script may go on after it. An error that wraps a reply is the reply to
// another request, which ended the connection.
func NotRun(err error) bool {
	if isBroken(err) {
		return false
	}
	switch Code(err) {
	case "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOAUTH", dialing.Protected, "READONLY", "MISCONF", "NOREPLICAS":
		return true
	}
	return beginsWith(err, dialing.TooMany)
}

// isBroken reports whether err is an error and no reply of Redis.
func isBroken(err error) bool {
	_, reply := err.(redis.Error)
	return err != nil && !reply
}

// Definite reports whether err is a reply of Redis that will not change by
// itself (NOPERM, WRONGTYPE, a script error), as opposed to I/O that failed or
// a passing state.
func Definite(err error) bool {
	switch Code(err) {
	case "", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "MOVED", "ASK",
		"UNBLOCKED", "LATE":
		return false
	}
	for _, passing := range []string{
		nonLocal, dialing.TooMany,
		"Script attempted to execute ", // a command "while the cluster is down", CLUSTERDOWN otherwise
		"Script killed by user",        // it had written nothing, or it could not be killed
	} {
		if beginsWith(err, passing) {
			return false
		}
	}
	return true
}

// RefusesWrites reports whether err says that the server refuses to write while its disk
// fails or its replicas are missing. The server has then done nothing.
func RefusesWrites(err error) bool { return Code(err) == "MISCONF" || WantsReplicas(err) }

// WantsReplicas reports whether err says that replicas of the server are missing.
func WantsReplicas(err error) bool { return Code(err) == "NOREPLICAS" }

// Distrusts reports whether a connection was not made because of the server's certificate.
func Distrusts(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad)
}

// LoggedOut reports whether err says that the server requires a password.
func LoggedOut(err error) bool { return Code(err) == "NOAUTH" }

// WrongType reports whether err says that the key is of another type.
func WrongType(err error) bool { return Code(err) == "WRONGTYPE" }

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
// slot is moving from one server to another. A script with one key never gets this answer.
func TryAgain(err error) bool { return Code(err) == "TRYAGAIN" }

// SlotMoves reports whether err says that a script was not run because the slot of its keys
// is moving to another server, and not all keys have arrived there.
func SlotMoves(err error) bool { return TryAgain(err) || Code(err) == "ASK" }

// KeysApart reports whether a script used a key that its call does not name, and that has
// moved to another server before the other keys. The script may have run in part.
func KeysApart(err error) bool { return beginsWith(err, nonLocal) }

// OfCluster reports whether err is an error that only a node of a Cluster returns.
func OfCluster(err error) bool { return Moved(err) || Code(err) == "CROSSSLOT" }

// Moved reports whether err says that another server has the key.
func Moved(err error) bool { return Code(err) == "MOVED" }

// OfReplica reports whether err says that the server is a replica, where keys have no slots. MASTERDOWN
// is the answer of one that does not follow its master and must not serve old data. A server in cluster
// mode that has all slots as a master redirects all requests as a replica.
func OfReplica(err error) bool {
	switch Code(err) {
	case "READONLY", "MASTERDOWN", "MOVED":
		return true
	}
	return false
}

// givenUp returns the error of a connection to a server whose answer err says that it is or may be a
// replica. It is no reply, because it is also the error of other requests.
func givenUp(err error) error { return fmt.Errorf("the connection was given up: %w", err) }

// Redirection is the answer of a server of a Cluster about a key that it does not have.
type Redirection struct {
	Ask    bool // only this request goes there, behind ASKING; otherwise all requests for the slot
	Slot   int
	Server string // "?:port" if it has no name, so that only its port is known
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
	to := Redirection{Ask: words[0] == "ASK", Slot: slot, Server: words[2]}
	last := strings.LastIndexByte(to.Server, ':') // an IPv6 address has no brackets
	if last < 0 {
		return to, true // no address, but a name of a Topology
	}
	host, port := strings.Trim(to.Server[:last], "[]"), to.Server[last+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Redirection{}, false
	}
	if host == "" { // the key is on the host of the server from
		if host, _, err = net.SplitHostPort(from); err != nil {
			return Redirection{}, false
		}
	}
	to.Server = net.JoinHostPort(host, port)
	return to, true
}

// splitPublishRefusal splits the answer of a script that publishes into the number and the
// refusal of its message.
func splitPublishRefusal(s *script.Script, reply resp.Reply) (number resp.Reply, refusal string, refused bool) {
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
