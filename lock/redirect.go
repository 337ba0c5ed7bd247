package lock

import (
	"net"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// maxHops bounds the redirections of one request.
const maxHops = 5

// redirection is what a server of a Cluster says of a key that it has not got.
type redirection struct {
	ask    bool // this once, with ASKING; else from now on
	slot   int
	server string
}

// redirectionOf reads an answer of the server from. It returns false if that
// is no redirection.
func redirectionOf(err error, from string) (redirection, bool) {
	reply, ok := err.(redis.Error)
	if !ok {
		return redirection{}, false
	}
	words := strings.Fields(string(reply))
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}, false
	}
	slot, err := strconv.Atoi(words[1])
	if err != nil || slot < 0 || slot >= slots {
		return redirection{}, false
	}
	server := words[2]
	if strings.HasPrefix(server, ":") { // on the very host that answered
		host, _, err := net.SplitHostPort(from)
		if err != nil {
			return redirection{}, false
		}
		server = net.JoinHostPort(host, server[1:])
	}
	return redirection{ask: words[0] == "ASK", slot: slot, server: server}, true
}

// isTryAgain reports whether a script with several keys was not run because
// their slot is on its way from one server to another. One with one key always
// is run.
func isTryAgain(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && strings.HasPrefix(string(reply), "TRYAGAIN")
}

// isApart reports whether a script met a key, which it had not named, that has
// gone ahead of the others to another server.
func isApart(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && strings.Contains(string(reply), nonLocal)
}

// redirect sends a request that the node refused to where its key is. It
// returns false if err is no redirection, or if there were too many.
func (n *node) redirect(r *request, err error) bool {
	if n.fleet == nil || !n.fleet.traits.Slots {
		return false
	}
	to, ok := redirectionOf(err, n.server)
	if !ok || r.hops == maxHops || to.ask && concludes(r.script) {
		return false
	}
	r.hops++
	r.asking, r.asked = to.ask, false
	n.target(to).put(r)
	return true
}

// concludes reports whether s deletes a lock because of keys that are not there,
// beside those that it names. Where a slot is just being moved to they may not
// have arrived, so s waits until the slot has.
func concludes(s *script.Script) bool {
	return s == script.RwReadRelease || s == script.RwWriteRelease
}

// target returns the node that a redirection leads to.
func (n *node) target(to redirection) *node {
	if to.ask {
		return n.fleet.open(to.server)
	}
	return n.fleet.moved(to.slot, to.server)
}
