package resp

import (
	"errors"
	"os"
)

// ahead is what a Conn has read and redigo has not seen, in the order in which it came. redigo gets
// one answer at a time, so that what is behind it can be read without redigo. The zero ahead is
// empty.
type ahead struct {
	buf        []byte // of its own size, made when it is first needed
	start, end int    // what redigo has not seen yet
	ends       []int  // where answers end in it; of those that are whole, from first on
	first      int
}

// aheadSize is as much as redigo reads at once. Longer answers go to redigo in pieces.
const aheadSize = 4096

// room returns where more can be read to, while no answer is whole. There is none if a is full.
func (a *ahead) room() []byte {
	if a.buf == nil {
		a.buf = make([]byte, aheadSize)
	}
	if a.end == len(a.buf) && a.start > 0 {
		a.start, a.end = 0, copy(a.buf, a.buf[a.start:a.end])
	}
	return a.buf[a.end:]
}

// took notes that n bytes were read to where room says, and whether an answer ends with them.
func (a *ahead) took(n int, ends bool) {
	a.end += n
	if ends {
		a.ends = append(a.ends, a.end)
	}
}

// take moves what redigo may see next to p: no more than one answer.
func (a *ahead) take(p []byte) int {
	end := a.end
	if a.whole() {
		end = a.ends[a.first]
	}
	n := copy(p, a.buf[a.start:end])
	a.drop(n)
	return n
}

// drop drops the first n bytes, which are of one answer.
func (a *ahead) drop(n int) {
	a.start += n
	if a.whole() && a.ends[a.first] == a.start {
		a.first++
	}
	if !a.whole() {
		a.ends, a.first = a.ends[:0], 0
	}
	if a.empty() {
		a.start, a.end = 0, 0
	}
}

// answer returns the first answer, of which redigo has seen nothing; nil if it is not whole.
func (a *ahead) answer() []byte {
	if !a.whole() {
		return nil
	}
	return a.buf[a.start:a.ends[a.first]]
}

func (a *ahead) empty() bool { return a.start == a.end }
func (a *ahead) full() bool  { return a.end-a.start == aheadSize }
func (a *ahead) whole() bool { return a.first < len(a.ends) }

// more reads ahead once. The error is one of reading, and may be a timeout; what else has ended
// reading is in c.err.
func (c *Conn) more() error {
	a := &c.ahead
	room := a.room()
	n, err := c.Conn.Read(room)
	for rest := room[:n]; len(rest) > 0 && c.err == nil; {
		whole := c.answers.whole
		var seen int
		if seen, c.err = c.answers.check(rest, c.requests.bounds); seen > 0 {
			a.took(seen, c.answers.whole > whole)
		}
		rest = rest[seen:]
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errNothing) { // and no others that are timeouts
		return err
	}
	if c.err == nil {
		c.err = err
	}
	return nil
}
