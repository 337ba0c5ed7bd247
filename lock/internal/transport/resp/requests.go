package resp

import (
	"bytes"
	"math"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// requestReader reads all bytes that redigo writes, and records what limits the answers. Fields
// that the reader of answers needs are atomic, because one goroutine writes while another
// reads.
type requestReader struct {
	// used by the goroutine that writes
	state        writeState
	args         int64    // how many arguments the request has, with the command
	argIndex     int      // the index of the argument that is being written; 0 is the command
	number       int64    // the length that is being written
	body         int64    // how many bytes of an argument are still to come, with its line end
	head         []byte   // the first bytes of the argument, for the first three arguments
	room         [48]byte // the memory of head
	sentCount    uint64   // how many requests were written
	isEVALSHA    bool     // the request is an EVALSHA
	isCLIENT     bool     // the request is a CLIENT
	isSubscriber bool     // the connection has subscribed, so answers may come without a request
	isLimited    bool     // see LimitMessages

	largeUntil atomic.Uint64 // the number of the last request that may have a large answer
	keys       atomic.Int64  // the most keys that a request had
	longest    atomic.Int64  // the length of the longest argument
}

type writeState uint8

const (
	atRequest  writeState = iota
	inCount               // the number of arguments
	atArgument            // the $ of an argument
	inLength
	inBody
	unreadable // bytes came that redigo would not write; nothing is read any more, and every answer may be large
)

// scan reads p, before it is written.
func (r *requestReader) scan(p []byte) {
	for i := 0; i < len(p); {
		c := p[i]
		switch r.state {
		case atRequest:
			if c != '*' {
				r.giveUp()
				return
			}
			r.sentCount++
			r.state, r.number = inCount, 0
			i++
		case atArgument:
			if c != '$' {
				r.giveUp()
				return
			}
			if text, end := wholeArgument(p[i:]); end > 0 { // most arguments are whole, and this path takes half the time
				r.measure(int64(len(text)))
				r.endArgument(text)
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
				r.args, r.argIndex, r.isEVALSHA, r.isCLIENT = r.number, 0, false, false
				if r.state = atArgument; r.args == 0 {
					r.state = atRequest
				}
			case c == '\n':
				r.state, r.body, r.head = inBody, r.number+2, r.room[:0]
				r.measure(r.number)
			case c != '\r':
				r.giveUp()
				return
			}
			i++
		case inBody:
			n := int(min(r.body, int64(len(p)-i)))
			if r.argIndex < 3 {
				r.head = append(r.head, p[i:i+min(n, cap(r.head)-len(r.head))]...)
			}
			i += n
			if r.body -= int64(n); r.body == 0 {
				r.endArgument(bytes.TrimSuffix(r.head, crlf))
			}
		case unreadable:
			return
		}
	}
}

// wholeArgument returns the argument at the beginning of p, and the index of its end. It returns 0 if
// p does not have the whole argument.
func wholeArgument(p []byte) (text []byte, end int) {
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
func (r *requestReader) measure(n int64) {
	if n > r.longest.Load() {
		r.longest.Store(n)
	}
}

// endArgument is called at the end of each argument. text is the argument, or at most its first 48
// bytes.
func (r *requestReader) endArgument(text []byte) {
	switch r.argIndex {
	case 0:
		r.noteCommand(text)
	case 1:
		if r.isEVALSHA && !smallScripts[string(text)] || r.isCLIENT && string(text) != "SETNAME" {
			r.expectLarge()
		}
	case 2:
		if !r.isEVALSHA {
			break
		}
		keys := int64(0)
		for _, c := range text {
			keys = min(keys*10+int64(c-'0'), math.MaxInt32)
		}
		if keys > r.keys.Load() {
			r.keys.Store(keys)
		}
	}
	r.argIndex++
	if r.state = atArgument; int64(r.argIndex) == r.args {
		r.state = atRequest
	}
}

var crlf = []byte("\r\n")

// noteCommand is called with a request's command. An answer is small only if Redis never gives a larger
// one, because programs use connections for commands of their own, too.
func (r *requestReader) noteCommand(name []byte) {
	switch string(name) {
	case "EVALSHA":
		r.isEVALSHA = true
	case "CLIENT":
		r.isCLIENT = true
	case "AUTH", "SELECT", "ASKING", "READONLY", "PING", "TIME", "WAIT", "PUBLISH", "SPUBLISH":
	default:
		subscribes := len(name) >= len(subscribe) && bytes.EqualFold(name[len(name)-len(subscribe):], subscribe)
		r.isSubscriber = r.isSubscriber || subscribes
		if !subscribes || !r.isLimited {
			r.expectLarge()
		}
	}
}

// subscribe is the end of the commands that subscribe and unsubscribe.
var subscribe = []byte("SUBSCRIBE")

// LimitMessages makes messages on conn small answers. The library calls it before it subscribes its own
// channels. A program's messages are large answers. conn must not be in use yet.
func LimitMessages(conn redis.Conn) {
	if c := Below(conn); c != nil {
		c.requests.isLimited = true
	}
}

// expectLarge records that the request has a large answer.
func (r *requestReader) expectLarge() {
	until := r.sentCount
	if r.isSubscriber {
		until = math.MaxUint64 // from now on answers are not matched to requests
	}
	if until > r.largeUntil.Load() {
		r.largeUntil.Store(until)
	}
}

// giveUp stops reading the requests.
func (r *requestReader) giveUp() {
	r.state = unreadable
	r.largeUntil.Store(math.MaxUint64)
}

// bounds returns the bounds of the answer with this number. The first answer is number 1.
func (r *requestReader) bounds(answer uint64) bounds {
	keys, longest := r.keys.Load(), r.longest.Load()
	b := bounds{
		elements: smallElements + smallElementsPerKey*keys,
		bytes:    smallBytes + smallBytesPerKey*keys + longest,
		line:     smallBytes + longest,
	}
	if answer <= r.largeUntil.Load() {
		b.elements, b.bytes = max(b.elements, largeElements), max(b.bytes, largeBytes)
	}
	return b
}
