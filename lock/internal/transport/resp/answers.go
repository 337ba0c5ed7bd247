package resp

import (
	"bytes"
	"fmt"
)

// The limits of an answer. See doc.go.
const (
	maxDepth = 6

	smallElements       = 64
	smallElementsPerKey = 4
	smallBytes          = 64 << 10
	smallBytesPerKey    = 32

	largeElements = 1 << 20
	largeBytes    = 16 << 20
)

// AnswerError says that a server's answer was larger than its request allows, or is no
// answer of Redis. The connection cannot be used any more. It is not known whether the
// request was carried out.
type AnswerError struct {
	What string // what is wrong with the answer
}

// Error implements error.
func (e *AnswerError) Error() string {
	return "the answer was given up because " + e.What + ": check that this address is that of a Redis server, and if the request was your own, ask for less at once"
}

// bounds has the limits for the rest of an answer.
type bounds struct {
	elements, bytes int64
	line            int64 // how long each line may be
}

// answerReader reads all bytes that a server answers, before redigo does. It is at least as strict
// as redigo: bytes that redigo could read in another way are an error.
type answerReader struct {
	state state
	kind  byte // of the header or the line that is being read
	// header
	digits int  // how many digits were read
	minus  bool // a minus was read
	length int64
	// line
	read int64 // how many bytes of the line were read
	last byte  // the last byte that was read of a line
	// bulk string
	skip int64 // how many of its bytes are still to come

	left      [maxDepth]int64 // for each open array, how many elements are still to come
	depth     int             // how many arrays are open
	completed uint64          // how many answers were read to their end

	allowed bounds // the limits for the rest of the answer that is being read
}

type state uint8

const (
	atType      state = iota // the first byte of an element
	inHeader                 // the length of an array or a bulk string
	afterHeader              // the line feed of a header
	inLine                   // a simple string, an error or an integer
	inBulk
	afterBulk // the carriage return behind a bulk string
	endOfBulk // the line feed behind that
)

// scan reads p up to the end of an answer. It returns how many bytes redigo may see: the bytes up
// to that end, all bytes if no answer ends, or only the bytes before the error. scan calls begin at
// the beginning of each answer, with the number of the answer, for its bounds.
func (a *answerReader) scan(p []byte, begin func(answer uint64) bounds) (int, error) {
	i, whole := 0, a.completed
	for i < len(p) && a.completed == whole {
		switch a.state {
		case atType:
			if a.depth == 0 {
				a.allowed = begin(a.completed + 1)
			}
			if err := a.beginLine(p[i]); err != nil {
				return i, err
			}
			i++
		case inHeader, afterHeader:
			if err := a.readHeader(p[i]); err != nil {
				return i, err
			}
			i++
		case inLine:
			n := bytes.IndexByte(p[i:], '\n') + 1
			if n == 0 {
				n = len(p) - i
			}
			if most := min(a.allowed.line, a.allowed.bytes); a.read+int64(n) > most {
				return i, &AnswerError{fmt.Sprintf("it has a line of more than %d bytes", most)}
			}
			a.read += int64(n)
			if n > 1 {
				a.last = p[i+n-2]
			}
			ends := p[i+n-1] == '\n'
			if ends && a.last != '\r' {
				return i + n - 1, &AnswerError{"it has a line without a carriage return"}
			}
			a.last = p[i+n-1]
			i += n
			if ends {
				a.allowed.bytes -= a.read
				a.endElement()
			}
		case inBulk:
			n := min(a.skip, int64(len(p)-i))
			a.skip -= n
			i += int(n)
			if a.skip == 0 {
				a.state = afterBulk
			}
		case afterBulk, endOfBulk:
			if want := "\r\n"[a.state-afterBulk]; p[i] != want {
				return i, &AnswerError{"it has a string that is longer than its length"}
			}
			i++
			if a.state++; a.state > endOfBulk {
				a.endElement()
			}
		}
	}
	return i, nil
}

// beginLine reads the first byte of an element.
func (a *answerReader) beginLine(kind byte) error {
	switch a.kind = kind; kind {
	case '*', '$':
		a.state, a.digits, a.minus, a.length = inHeader, 0, false, 0
	case '+', '-', ':':
		a.state, a.read, a.last = inLine, 0, 0
	case '_', '#', ',', '(', '!', '=', '%', '~', '|', '>':
		return &AnswerError{fmt.Sprintf("it begins with %q as in RESP3, for which nobody has asked", kind)}
	default:
		return &AnswerError{fmt.Sprintf("it begins with %q", kind)}
	}
	return nil
}

// readHeader reads one byte of a length, or the line feed behind it.
func (a *answerReader) readHeader(c byte) error {
	switch {
	case a.state == afterHeader:
		return a.beginElement(c)
	case c == '\r' && a.digits > 0:
		a.state = afterHeader
		return nil
	case c == '-' && a.digits == 0 && !a.minus:
		a.minus = true
		return nil
	case c < '0' || c > '9' || a.minus && (a.digits > 0 || c != '1'): // the only negative length is -1, which means nil
		return &AnswerError{fmt.Sprintf("it has a length with a byte %q", c)}
	}
	a.digits++
	a.length = a.length*10 + int64(c-'0')
	if a.minus {
		return nil
	}
	most, text := a.allowed.bytes, "it has a string of %d bytes or more, where at most %d can come"
	if a.kind == '*' {
		most, text = a.allowed.elements, "it has an array of %d elements or more, where at most %d can come"
	}
	if a.length > most || a.digits > 18 {
		return &AnswerError{fmt.Sprintf(text, a.length, most)}
	}
	return nil
}

// beginElement is called with the last byte of a header.
func (a *answerReader) beginElement(c byte) error {
	switch {
	case c != '\n':
		return &AnswerError{"it has a length without a line feed"}
	case a.minus, a.kind == '*' && a.length == 0:
		a.endElement()
	case a.kind == '$':
		a.allowed.bytes -= a.length
		a.skip = a.length
		if a.state = inBulk; a.skip == 0 {
			a.state = afterBulk
		}
	case a.depth == maxDepth:
		return &AnswerError{fmt.Sprintf("it has arrays more than %d deep", maxDepth)}
	default:
		a.allowed.elements -= a.length
		a.left[a.depth] = a.length
		a.depth++
		a.state = atType
	}
	return nil
}

// endElement is called at the end of an element that is no array, or is an empty array.
func (a *answerReader) endElement() {
	a.state = atType
	for a.depth > 0 {
		if a.left[a.depth-1]--; a.left[a.depth-1] > 0 {
			return
		}
		a.depth--
	}
	a.completed++
}
