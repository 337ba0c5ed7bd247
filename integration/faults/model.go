package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// in is an operation on a key, for porcupine.
type in struct {
	what  string // take, give, end, get, set
	kind  kind
	who   int // index of the hold in the history, from 1
	token int64
	value int64
	out   string
}

// state is what a key and its register may be in. A reader counts, a writer
// has a name.
type state struct {
	writer  int
	readers int
	last    int64 // highest token that was given out
	fence   int64 // highest token the register has seen
	value   int64
}

// model is a lock with a register that it guards. strict: a lock is held until
// it is given back. Otherwise leases end: "end" frees a lock whose holder no
// longer believes in it, at any time from then on.
//
// A TryLock that was refused says nothing: a lock can be on its way from one
// waiter to the next. Requests without an answer may take effect at any time, or
// never.
func model(strict bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, i, _ any) (bool, any) { return step(strict, s.(state), i.(in)) },
		DescribeOperation: func(i, _ any) string {
			x := i.(in)
			return fmt.Sprintf("%s %s #%d token %d value %d %s", x.what, x.kind, x.who, x.token, x.value, x.out)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func step(strict bool, s state, i in) (bool, any) {
	switch i.what {
	case "take":
		switch i.kind {
		case read:
			if s.writer != 0 {
				return false, s
			}
			s.readers++
		case permit, count:
			if s.readers == permits {
				return false, s
			}
			s.readers++
		default:
			if s.writer != 0 || s.readers != 0 || i.kind == mutex && i.token <= s.last {
				return false, s
			}
			s.writer, s.last = i.who, i.token
		}
	case "give":
		switch {
		case i.kind == read || i.kind == permit || i.kind == count:
			s.readers--
		case s.writer == i.who:
			s.writer = 0
		case strict:
			return false, s
		}
	case "end": // by itself
		if s.writer == i.who {
			s.writer = 0
		}
	case "get", "set":
		switch {
		case i.out == outUnknown && i.token < s.fence:
			return true, s
		case i.out == outRefused:
			return i.token < s.fence, s
		case i.out == outUnknown:
		case i.token < s.fence || i.what == "get" && i.value != s.value || strict && s.writer != i.who:
			return false, s
		}
		s.fence = i.token
		if i.what == "set" {
			s.value = i.value
		}
	}
	return true, s
}

// linear checks each key's history against the model, and returns how many
// could not be decided in time. Pictures go to dir.
func (c *checks) linear(dir string) (undecided int) {
	for _, key := range c.keys() {
		if strings.HasPrefix(key, "many-") {
			continue // of one process, one after the other
		}
		ops, strict, ok := c.operations(key)
		if !ok {
			continue
		}
		m := model(strict)
		result, info := porcupine.CheckOperationsVerbose(m, ops, 10*time.Second)
		switch result {
		case porcupine.Unknown:
			undecided++
		case porcupine.Illegal:
			picture := key + ".html"
			if err := porcupine.VisualizePath(m, info, filepath.Join(dir, picture)); err != nil {
				picture = err.Error()
			}
			c.wrong("%s: no order of its %d operations is one of a lock (%s)", key, len(ops), picture)
		}
	}
	return undecided
}

// operations are those of a key, and whether the strict model is theirs. Keys
// of readers and permits have a model only if nothing was lost.
func (c *checks) operations(key string) (ops []porcupine.Operation, strict, ok bool) {
	hs := c.byKey[key]
	strict = true
	for _, h := range hs {
		if h.lost != forever || h.out != outOK || h.freed == forever || c.mayBeTaken(h) {
			strict = false
		}
	}
	if !strict && hs[0].kind != mutex {
		return nil, false, false
	}
	client := 0
	add := func(i in, from, to stamp) {
		// An own client for each: in one process several goroutines work.
		ops = append(ops, porcupine.Operation{ClientId: client, Input: i, Call: int64(from), Return: int64(to)})
	}
	for n, h := range hs {
		i := in{kind: h.kind, who: n + 1, token: h.token}
		client = n
		i.what = "take"
		add(i, h.called, h.got)
		for _, u := range h.uses {
			i := i
			i.what, i.value, i.out = "get", u.value, u.out
			if u.write {
				i.what = "set"
			}
			add(i, u.called, u.returned)
		}
		if h.freed != forever && h.out == outOK {
			i.what = "give"
			add(i, h.free, h.freed)
		}
		if end := c.endsFrom(h); !strict && end < h.free {
			i.what = "end"
			add(i, end, forever)
		} else if !strict && (h.out != outOK || h.freed == forever) {
			i.what = "end"
			add(i, min(h.free, end), forever)
		}
	}
	return ops, strict, true
}

// endsFrom is when h may end by itself: when its holder no longer relies on it,
// or when a fault may take it away.
func (c *checks) endsFrom(h *hold) stamp {
	end := h.end()
	if c.row.Loses {
		for _, f := range c.faults {
			if f.To >= h.called {
				end = min(end, max(f.From, h.called))
			}
		}
	}
	return end
}
