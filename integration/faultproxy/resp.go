package faultproxy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Raw is a reply as it goes over the wire.
type Raw string

// ReadCommand reads an array of bulk strings, as clients send it.
func ReadCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("faultproxy: a command of %d words", n)
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("faultproxy: %c was to come, and %q came", kind, line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func appendCommand(b []byte, args []string) []byte { return AppendReply(b, Bulks(args...)) }

// appendRawReply appends one reply as it is read.
func appendRawReply(b []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	b = append(b, line...)
	if err != nil || line[0] != '$' && line[0] != '*' {
		return b, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch {
	case err != nil || n < 0:
		return b, err
	case line[0] == '$':
		from := len(b)
		b = append(b, make([]byte, n+2)...)
		_, err = io.ReadFull(r, b[from:])
		return b, err
	}
	for range n {
		if b, err = appendRawReply(b, r); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Bulks returns an array of bulk strings, as AppendReply takes it.
func Bulks(texts ...string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = []byte(text)
	}
	return out
}

// AppendReply appends a reply: nil, an int64, a []byte, a string (a status), an error, a []any of
// these, or Raw.
func AppendReply(b []byte, reply any) []byte {
	switch v := reply.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case Raw:
		return append(b, v...)
	case int64:
		return fmt.Appendf(b, ":%d\r\n", v)
	case string:
		return fmt.Appendf(b, "+%s\r\n", v)
	case []byte:
		return fmt.Appendf(b, "$%d\r\n%s\r\n", len(v), v)
	case error:
		return fmt.Appendf(b, "-%s\r\n", v)
	case []any:
		b = fmt.Appendf(b, "*%d\r\n", len(v))
		for _, e := range v {
			b = AppendReply(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("faultproxy: bug: a reply of type %T", reply))
}
