package resp

import (
	"fmt"
	"iter"
	"strconv"
)

// Args has the arguments of a command as they are sent, in one piece of memory.
type Args struct {
	text    []byte
	n       int
	longest int            // an upper bound of the length of the longest argument
	later   []lateArgument // the arguments whose text is chosen when they are written; few commands have any
}

// lateArgument is an argument whose text is chosen when it is written. Until then Args.text has an
// empty string in its place.
type lateArgument struct {
	nth int
	arg Argument
}

// Argument chooses its text when it is written. It is the same as redigo's redis.Argument.
type Argument interface{ RedisArg() any }

// ArgsOf returns Args of values, with room for the arguments of most calls. Each value is a string,
// bytes, an int, an int32, an int64, or nil for the empty string.
func ArgsOf(values ...any) Args {
	return Args{text: make([]byte, 0, roomForArgs)}.Add(values...)
}

// roomForArgs is the room in bytes, see ArgsOf.
const roomForArgs = 192

// Add returns a with more values, as append does. Do not use a afterwards.
func (a Args) Add(values ...any) Args {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			a = a.AddString(v)
		case []byte:
			a = a.AddBytes(v)
		case int:
			a = a.AddInt(int64(v))
		case int32:
			a = a.AddInt(int64(v))
		case int64:
			a = a.AddInt(v)
		case nil:
			a = a.AddString("")
		default:
			panic("args: an argument of another type: use AddAny")
		}
	}
	return a
}

// AddStrings is Add of strings.
func (a Args) AddStrings(values []string) Args {
	for _, v := range values {
		a = a.AddString(v)
	}
	return a
}

// AddBytes is Add of one value, in memory that may be used again.
func (a Args) AddBytes(value []byte) Args {
	a.text = AppendBulk(a.text, value)
	a.n++
	a.longest = max(a.longest, len(value))
	return a
}

// AddInt is Add of a number.
func (a Args) AddInt(n int64) Args {
	a.text = AppendInt(a.text, n)
	a.n++
	a.longest = max(a.longest, 20)
	return a
}

// AddAny is Add of values of any type that redigo takes, encoded as redigo does. RedisArg of an
// Argument is called each time that the Args are written.
func (a Args) AddAny(values ...any) Args {
	for _, v := range values {
		switch w := v.(type) {
		case Argument:
			a.later = append(a.later[:len(a.later):len(a.later)], lateArgument{a.n, w})
			a = a.AddString("")
		case string, []byte, int, int64, nil:
			a = a.Add(w)
		case float64:
			a = a.AddString(strconv.FormatFloat(w, 'g', -1, 64))
		case bool:
			if w {
				a = a.AddString("1")
			} else {
				a = a.AddString("0")
			}
		default:
			a = a.AddString(fmt.Sprint(w))
		}
	}
	return a
}

// AddString is Add of one string.
func (a Args) AddString(s string) Args {
	a.text = AppendBulk(a.text, s)
	a.n++
	a.longest = max(a.longest, len(s))
	return a
}

// Len returns the number of arguments.
func (a Args) Len() int { return a.n }

// First returns the first argument.
func (a Args) First() string {
	s, _ := cutBulk(a.text)
	return string(s)
}

// Behind returns the arguments after the first n. They share memory with a.
func (a Args) Behind(n int) Args {
	b := Args{text: a.text, n: a.n - n, longest: a.longest}
	for range n {
		_, b.text = cutBulk(b.text)
	}
	for _, l := range a.later {
		if l.nth >= n {
			b.later = append(b.later, lateArgument{l.nth - n, l.arg})
		}
	}
	return b
}

// Emptied returns empty Args that use the memory of a, which must not be used any more, up to keptText.
func (a Args) Emptied() Args {
	if cap(a.text) > keptText {
		return Args{}
	}
	return Args{text: a.text[:0]}
}

// keptText is how much memory in bytes Emptied keeps. A hold of many permits needs more.
const keptText = 1 << 20

// Into returns a copy of a that uses the memory of old, which must not be used any more.
func (a Args) Into(old Args) Args {
	a.text = append(old.text[:0], a.text...)
	return a
}

// Append returns a with the arguments of b added.
func (a Args) Append(b Args) Args {
	c := Args{text: append(a.text, b.text...), n: a.n + b.n, longest: max(a.longest, b.longest), later: a.later}
	for _, l := range b.later {
		c.later = append(c.later[:len(c.later):len(c.later)], lateArgument{l.nth + a.n, l.arg})
	}
	return c
}

// Now returns a with the present text of each Argument.
func (a Args) Now() Args {
	if len(a.later) == 0 {
		return a
	}
	known, rest := Args{text: make([]byte, 0, len(a.text)+64)}, a.text
	for i := range a.n {
		var s []byte
		if s, rest = cutBulk(rest); len(a.later) > 0 && a.later[0].nth == i {
			known, a.later = known.AddAny(a.later[0].arg.RedisArg()), a.later[1:]
		} else {
			known = known.AddBytes(s)
		}
	}
	return known
}

// All returns the arguments one by one. They share memory with a. An Argument is empty, see
// Now.
func (a Args) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := a.text; len(rest) > 0; {
			var s []byte
			if s, rest = cutBulk(rest); !yield(s) {
				return
			}
		}
	}
}

// Strings returns the arguments as strings.
func (a Args) Strings() []string {
	all := make([]string, 0, a.n)
	for s := range a.Now().All() {
		all = append(all, string(s))
	}
	return all
}

// Text returns the arguments as they are sent. An Argument is empty, see Now.
func (a Args) Text() []byte { return a.text }

// AppendBulk appends a bulk string.
func AppendBulk[T string | []byte](to []byte, s T) []byte {
	to = append(to, '$')
	to = strconv.AppendInt(to, int64(len(s)), 10)
	to = append(to, '\r', '\n')
	to = append(to, s...)
	return append(to, '\r', '\n')
}

// cutBulk returns the bulk string at the beginning of text, and the rest.
func cutBulk(text []byte) (s, rest []byte) {
	n, i := 0, 1
	for ; text[i] != '\r'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	i += 2
	return text[i : i+n], text[i+n+2:]
}

// AppendInt appends a number as a bulk string.
func AppendInt(to []byte, n int64) []byte {
	var room [20]byte
	return AppendBulk(to, strconv.AppendInt(room[:0], n, 10))
}

// AppendCount appends the beginning of a request of n arguments, including its command.
func AppendCount(to []byte, n int) []byte {
	to = append(to, '*')
	to = strconv.AppendInt(to, int64(n), 10)
	return append(to, '\r', '\n')
}
