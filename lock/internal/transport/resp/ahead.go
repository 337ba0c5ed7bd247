package resp

import (
	"errors"
	"os"
)

// readAhead has the bytes that a Conn has read and redigo has not seen, in the order in which they
// came. redigo gets one answer at a time, so the answers behind it can be read without redigo. The
// zero readAhead is empty.
type readAhead struct {
	buf        []byte // of readAheadSize, made when it is first needed
	start, end int    // redigo has not seen buf[start:end]
	ends       []int  // where each whole answer ends in buf
	first      int    // the index in ends of the first answer that redigo has not seen completely
}

// readAheadSize is the number of bytes that redigo reads at once. Longer answers go to redigo in pieces.
const readAheadSize = 4096

// room returns the free part of buf, while no answer is whole. It is empty if a is full.
func (a *readAhead) room() []byte {
	if a.buf == nil {
		a.buf = make([]byte, readAheadSize)
	}
	if a.end == len(a.buf) && a.start > 0 {
		a.start, a.end = 0, copy(a.buf, a.buf[a.start:a.end])
	}
	return a.buf[a.end:]
}

// noteRead records that n bytes were read into room, and whether an answer ends with them.
func (a *readAhead) noteRead(n int, ends bool) {
	a.end += n
	if ends {
		a.ends = append(a.ends, a.end)
	}
}

// readTo moves the bytes that redigo may see next to p. These are at most one answer.
func (a *readAhead) readTo(p []byte) int {
	end := a.end
	if a.hasAnswer() {
		end = a.ends[a.first]
	}
	n := copy(p, a.buf[a.start:end])
	a.drop(n)
	return n
}

// drop drops the first n bytes, which belong to one answer.
func (a *readAhead) drop(n int) {
	a.start += n
	if a.hasAnswer() && a.ends[a.first] == a.start {
		a.first++
	}
	if !a.hasAnswer() {
		a.ends, a.first = a.ends[:0], 0
	}
	if a.isEmpty() {
		a.start, a.end = 0, 0
	}
}

// firstAnswer returns the first answer, or nil if it is not whole. redigo must have seen nothing of it.
func (a *readAhead) firstAnswer() []byte {
	if !a.hasAnswer() {
		return nil
	}
	return a.buf[a.start:a.ends[a.first]]
}

func (a *readAhead) isEmpty() bool   { return a.start == a.end }
func (a *readAhead) isFull() bool    { return a.end-a.start == readAheadSize }
func (a *readAhead) hasAnswer() bool { return a.first < len(a.ends) }

// readMore reads ahead once. It returns an error only if the read would have had to wait longer. Every
// other error that ends reading is in c.err.
func (c *Conn) readMore() error {
	a := &c.ahead
	room := a.room()
	n, err := c.Conn.Read(room)
	for rest := room[:n]; len(rest) > 0 && c.err == nil; {
		whole := c.answers.completed
		var seen int
		if seen, c.err = c.answers.scan(rest, c.requests.bounds); seen > 0 {
			a.noteRead(seen, c.answers.completed > whole)
		}
		rest = rest[seen:]
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errNothing) { // other timeouts end reading
		return err
	}
	if c.err == nil {
		c.err = err
	}
	return nil
}
