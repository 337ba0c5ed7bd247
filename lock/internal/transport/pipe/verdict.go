package pipe

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Verdict is what follows from the answer to a request.
type Verdict uint8

const (
	Final     Verdict = iota // the caller gets the answer, which is a value or an error reply
	Demoted                  // the caller gets the answer, but the server is a replica now (with MOVED too, where keys have no slots), so the connection is of no more use
	Parted                   // the caller gets the answer: just now no server has all keys of the call
	AsText                   // the server does not know the SHA and ran nothing: the script's text is sent over the same connection
	Elsewhere                // the server ran nothing, and says which other server has the key
	Late                     // the server ran nothing, because the call came after its limit: the call is sent again over the same connection, with another limit
	Broken                   // there is no answer, because the connection has failed
)

// maxHops bounds the redirections of one request.
const maxHops = 5

// MaxLates is how often a request gets another limit. After that the server's clock counts
// as unknown, and the request has no limit.
const MaxLates = 2

// VerdictOf says what follows from an answer of the server from. sentText says that the
// script was sent as text. All packages that send to Redis use it.
func VerdictOf(err error, sentText bool, from string) (v Verdict, to Redirection) {
	if err == nil {
		return Final, Redirection{}
	}
	if isBroken(err) {
		return Broken, Redirection{}
	}
	if Code(err) == "NOSCRIPT" && !sentText {
		return AsText, Redirection{}
	}
	if _, late := Lateness(err); late {
		return Late, Redirection{}
	}
	if to, ok := redirectionOf(err, from); ok {
		return Elsewhere, to
	}
	if TryAgain(err) || KeysApart(err) {
		return Parted, Redirection{}
	}
	if Code(err) == "READONLY" {
		return Demoted, Redirection{}
	}
	return Final, Redirection{}
}

// judgeAnswer returns the verdict on an answer to r, and does the part of it that concerns only
// r. It redirects r if the key is on another server, and r must not be used then. It
// prepares r to be sent as text. A request that did not run is sent again only if it is
// still needed.
func (cfg *Config) judgeAnswer(r *Request, err error) Verdict {
	v, to := VerdictOf(err, r.asText, cfg.Server)
	again := v == AsText || v == Late || v == Elsewhere
	if again || NotRun(err) {
		r.markNotRun()
	}
	if cfg.Redirect == nil && Code(err) == "MOVED" {
		return Demoted
	}
	if again && r.isAbandoned() {
		return Final
	}
	switch v {
	case AsText:
		r.asText, r.askingAnswered = true, false
	case Late:
		if r.lates == MaxLates || !r.notAfter.IsZero() && wait.Left(r.notAfter, time.Now()) < cfg.Timeout {
			return Final
		}
		r.lates++
		r.askingAnswered = false
	case Elsewhere:
		if cfg.Redirect == nil || r.hops == maxHops || to.Ask && r.script.Concludes() {
			return Final
		}
		r.hops++
		r.needsAsking, r.askingAnswered = to.Ask, false
		cfg.Redirect(r, to)
	}
	return v
}
