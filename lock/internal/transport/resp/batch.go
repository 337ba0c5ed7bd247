package resp

import (
	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// Batch collects requests for one connection, to write them together. Only the goroutine that
// writes the connection uses it.
type Batch struct {
	conn  redis.Conn
	below *Conn  // the Conn below conn; nil if conn was made without limits, see Below
	text  []byte // the bytes to write, if there is a Conn
	args  []any  // the arguments of a script call through redigo, if there is no Conn
	boxes boxes  // the memory of the arguments of all such calls until Flush
}

// NewBatch returns the Batch of a connection. Between the first request of the Batch and Flush,
// nothing else may be written to the connection.
func NewBatch(conn redis.Conn) *Batch { return &Batch{conn: conn, below: Below(conn)} }

// keptBatch is how much memory a Batch keeps. It has a limit, because the texts of scripts are long. A
// Batch that is longer is written before Flush.
const keptBatch = 64 << 10

// Command adds a command whose answer is short.
func (b *Batch) Command(name string, texts ...string) error {
	if b.below == nil {
		all := make([]any, len(texts))
		for i, s := range texts {
			all[i] = s
		}
		return b.conn.Send(name, all...)
	}
	longest := len(name)
	b.text = AppendBulk(AppendCount(b.text, 1+len(texts)), name)
	for _, s := range texts {
		b.text = AppendBulk(b.text, s)
		longest = max(longest, len(s))
	}
	b.below.requests.count(0, int64(longest), false)
	return nil
}

// Script adds a call of a script by its SHA or, if asText, with its text. The first keys of list
// are keys. limit is the last argument of a script that expires. Others do not get it.
func (b *Batch) Script(s *script.Script, asText bool, keys int, list Args, limit int64) error {
	list = list.Now()
	if b.below == nil {
		return b.sendByRedigo(s, asText, keys, list, limit)
	}
	n := 3 + list.n
	if s.Expires() {
		n++
	}
	command, id := "EVALSHA", s.SHA()
	if asText {
		command, id = "EVAL", s.Text()
	}
	b.text = AppendCount(b.text, n)
	b.text = AppendBulk(b.text, command)
	b.text = AppendBulk(b.text, id)
	b.text = AppendInt(b.text, int64(keys))
	b.text = append(b.text, list.text...)
	if s.Expires() {
		b.text = AppendInt(b.text, limit)
	}
	b.below.requests.count(int64(keys), int64(max(list.longest, len(id))), asText || s.Large())
	if len(b.text) >= keptBatch/2 {
		return b.Flush()
	}
	return nil
}

// sendByRedigo is Script through redigo.
func (b *Batch) sendByRedigo(s *script.Script, asText bool, keys int, list Args, limit int64) error {
	command, all := "EVALSHA", append(b.args[:0], s.SHAArg(), keys)
	if asText {
		command, all[0] = "EVAL", s.Text()
	}
	for text := range list.All() {
		all = append(all, b.boxes.copied(text))
	}
	if s.Expires() {
		all = append(all, limit)
	}
	err := b.conn.Send(command, all...)
	clear(all) // long texts are not kept
	if b.args = all; cap(all) > keptBoxes {
		b.args = nil
	}
	return err
}

// Flush writes the requests that were added.
func (b *Batch) Flush() error {
	if b.below == nil {
		defer b.boxes.reset()
		return b.conn.Flush()
	}
	text := b.text
	if b.text = b.text[:0]; cap(text) > keptBatch {
		b.text = nil
	}
	return b.below.write(text)
}

// count records a request as scan does, but without reading it: the number of its keys, the length of
// its longest argument, and whether its answer is large are known.
func (r *requestReader) count(keys, longest int64, large bool) {
	r.sentCount++
	r.measure(longest)
	if keys > r.keys.Load() {
		r.keys.Store(keys)
	}
	if large {
		r.expectLarge()
	}
}
