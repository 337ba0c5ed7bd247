package resp

import "bytes"

// Reply is an answer. Most scripts answer with one integer or with an array of a few. A Reply has such
// an answer in itself, so it needs no other memory.
type Reply struct {
	other   any // an answer that is not of integers; nil otherwise
	numbers [mostNumbers]int64
	n       uint8 // how many of numbers are used
	array   bool  // the answer is an array of numbers, and not one number
}

// mostNumbers is how many integers a Reply has room for.
const mostNumbers = 3

// ReplyOf returns the Reply that redigo returns as v.
func ReplyOf(v any) Reply {
	switch v := v.(type) {
	case int64:
		return Reply{numbers: [mostNumbers]int64{v}, n: 1}
	case []any:
		if r, ok := arrayOf(v); ok {
			return r
		}
	}
	return Reply{other: v}
}

func arrayOf(values []any) (r Reply, ok bool) {
	if len(values) == 0 || len(values) > mostNumbers {
		return Reply{}, false
	}
	for i, v := range values {
		if r.numbers[i], ok = v.(int64); !ok {
			return Reply{}, false
		}
	}
	r.n, r.array = uint8(len(values)), true
	return r, true
}

// Any returns r as redigo returns it.
func (r *Reply) Any() any {
	switch {
	case r.n == 0:
		return r.other
	case !r.array:
		return r.numbers[0]
	}
	values := make([]any, r.n)
	for i := range values {
		values[i] = r.numbers[i]
	}
	return values
}

// Other returns r as redigo returns it, or nil if Number or Numbers returns r.
func (r *Reply) Other() any { return r.other }

// Number returns r if it is one integer.
func (r *Reply) Number() (n int64, ok bool) { return r.numbers[0], r.n == 1 && !r.array }

// Numbers returns r if it is an array of one to three integers, and nil otherwise. Do not
// change them.
func (r *Reply) Numbers() []int64 {
	if !r.array {
		return nil
	}
	return r.numbers[:r.n]
}

// parse reads text, which is a whole answer as Redis writes it, into r. It returns false if r has no
// room for the answer. Then redigo must read it.
func (r *Reply) parse(text []byte) bool {
	*r = Reply{n: 1}
	if text[0] == '*' {
		if text[1] == '0' || text[1] > '0'+mostNumbers || text[2] != '\r' {
			return false
		}
		r.n, r.array, text = text[1]-'0', true, text[len("*1\r\n"):]
	}
	for i := range r.n {
		end := bytes.IndexByte(text, '\n')
		var ok bool
		if r.numbers[i], ok = parseInteger(text[:end+1]); !ok {
			return false
		}
		text = text[end+1:]
	}
	return true
}

// parseInteger reads the line of an integer, as redigo does. It returns false if the
// line is no integer.
func parseInteger(line []byte) (n int64, ok bool) {
	if line[0] != ':' {
		return 0, false
	}
	digits := line[1 : len(line)-2]
	minus := len(digits) > 0 && digits[0] == '-'
	if minus {
		digits = digits[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if minus {
		n = -n
	}
	return n, true
}
