package resp

import (
	"bytes"
	"math"
	"sync/atomic"
)

// requests reads all bytes that redigo writes, and records what limits the answers. Fields
// that the reader of answers needs are atomic, because one goroutine writes while another
// reads.
type requests struct {
	// of the goroutine that writes
	state  writing
	args   int64  // of the request that are to come
	nth    int    // of the argument that is being written: 0 is the command
	number int64  // the length that is being written
	body   int64  // bytes that are left of an argument, with its line end
	head   []byte // the argument's begin, of the first three
	room   [48]byte
	sent   uint64 // requests
	evalsha,
	pushes bool // an answer may come without a request: the connection subscribes

	largeUntil atomic.Uint64 // the last request that is answered at length
	keys       atomic.Int64  // the most that a request had
	longest    atomic.Int64  // the longest argument
}

type writing uint8

const (
	atRequest  writing = iota
	inCount            // the number of arguments
	atArgument         // the $ of an argument
	inLength
	inBody
	unknown // bytes that redigo would not write, so each answer may be large
)

// note reads p, before it is written.
func (r *requests) note(p []byte) {
	for i := 0; i < len(p); {
		c := p[i]
		switch r.state {
		case atRequest:
			if c != '*' {
				r.give()
				return
			}
			r.sent++
			r.state, r.number = inCount, 0
			i++
		case atArgument:
			if c != '$' {
				r.give()
				return
			}
			if text, end := whole(p[i:]); end > 0 { // most are, and so it takes half the time
				r.measure(int64(len(text)))
				r.argument(text)
				i += end
				continue
			}
			r.state, r.number = inLength, 0
			i++
		case inCount, inLength:
			switch {
			case c >= '0' && c <= '9':
				r.number = min(r.number*10+int64(c-'0'), math.MaxInt32)
			case c == '\n' && r.state == inCount:
				r.args, r.nth, r.evalsha = r.number, 0, false
				if r.state = atArgument; r.args == 0 {
					r.state = atRequest
				}
			case c == '\n':
				r.state, r.body, r.head = inBody, r.number+2, r.room[:0]
				r.measure(r.number)
			case c != '\r':
				r.give()
				return
			}
			i++
		case inBody:
			n := int(min(r.body, int64(len(p)-i)))
			if r.nth < 3 {
				r.head = append(r.head, p[i:i+min(n, cap(r.head)-len(r.head))]...)
			}
			i += n
			if r.body -= int64(n); r.body == 0 {
				r.argument(bytes.TrimSuffix(r.head, crlf))
			}
		case unknown:
			return
		}
	}
}

// whole returns the argument at the beginning of p, and the index of its end. It returns 0 if
// p does not have the whole argument.
func whole(p []byte) (text []byte, end int) {
	n, i := 0, 1
	for ; i < len(p) && i < 8 && p[i] >= '0' && p[i] <= '9'; i++ {
		n = n*10 + int(p[i]-'0')
	}
	if i+n+4 > len(p) || p[i] != '\r' {
		return nil, 0
	}
	return p[i+2 : i+2+n], i + n + 4
}

// measure records the length of an argument.
func (r *requests) measure(n int64) {
	if n > r.longest.Load() {
		r.longest.Store(n)
	}
}

// argument is called with each argument, at most the first 48 bytes of a long one.
func (r *requests) argument(text []byte) {
	switch {
	case r.nth == 0:
		r.command(text)
	case r.nth == 1 && r.evalsha:
		if large[string(text)] {
			r.large()
		}
	case r.nth == 2 && r.evalsha:
		keys := int64(0)
		for _, c := range text {
			keys = min(keys*10+int64(c-'0'), math.MaxInt32)
		}
		if keys > r.keys.Load() {
			r.keys.Store(keys)
		}
	}
	r.nth++
	if r.state = atArgument; int64(r.nth) == r.args {
		r.state = atRequest
	}
}

var crlf = []byte("\r\n")

// command is called with a request's command.
func (r *requests) command(name []byte) {
	switch string(name) {
	case "EVALSHA":
		r.evalsha = true
	case "SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE":
		r.pushes = true
	case "AUTH", "SELECT", "CLIENT", "ASKING", "READONLY", "PING", "TIME", "WAIT", "PUBLISH", "SPUBLISH":
	default:
		r.large()
	}
}

// large records that the request has a large answer.
func (r *requests) large() {
	until := r.sent
	if r.pushes {
		until = math.MaxUint64 // from now on answers are not matched to requests
	}
	if until > r.largeUntil.Load() {
		r.largeUntil.Store(until)
	}
}

// give stops reading the requests.
func (r *requests) give() {
	r.state = unknown
	r.largeUntil.Store(math.MaxUint64)
}

// bounds returns the bounds of the answer with this number. The first answer is number 1.
func (r *requests) bounds(answer uint64) bounds {
	return bound(answer <= r.largeUntil.Load(), r.keys.Load(), r.longest.Load())
}
