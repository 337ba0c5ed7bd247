package faults

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// input is an operation on a key, for porcupine.
type input struct {
	what  string // take, give, end, get, set
	kind  kind
	who   int  // index of the hold, from 1
	firm  bool // the hold lasts until it is given back
	stale bool // it was handed over in memory after a fault took the lock, so another hold may have its token
	token int64
	value int64
	out   string
}

// state is what a key and its register may be in.
type state struct {
	writer  int // 0: none
	readers int
	last    int64 // highest token that was given out
	fence   int64 // highest token the register has seen
	value   int64
}

// model is a lock with a register that it guards. A firm hold lasts until it is given
// back. The leases of others end: "end" frees a lock whose holder no longer believes in
// it, at any time from then on.
//
// A TryLock that was refused says nothing: a lock can be on its way from one waiter to
// the next. Requests without an answer may take effect at any time, or never.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, i, _ any) (bool, any) { return step(s.(state), i.(input)) },
	DescribeOperation: func(i, _ any) string {
		x := i.(input)
		return fmt.Sprintf("%s %s #%d token %d value %d %s", x.what, x.kind, x.who, x.token, x.value, x.out)
	},
	DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
}

func step(s state, i input) (bool, any) {
	switch i.what {
	case "take":
		switch {
		case s.writer != 0, i.kind != read && s.readers != 0:
			return false, s
		case i.kind == read:
			s.readers++
			return true, s
		case i.kind == mutex && (i.token < s.last || i.token == s.last && !i.stale):
			return false, s
		}
		s.writer, s.last = i.who, i.token
	case "give":
		switch {
		case i.kind == read:
			s.readers--
		case s.writer == i.who:
			s.writer = 0
		case i.firm:
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
		case i.token < s.fence || i.what == "get" && i.value != s.value || i.firm && s.writer != i.who:
			return false, s
		}
		s.fence = i.token
		if i.what == "set" {
			s.value = i.value
		}
	}
	return true, s
}

// maxSearch is how long porcupine looks for the order of the operations of a key.
const maxSearch = 10 * time.Second

// checkOrder checks the history of a key against the model.
func (c *checks) checkOrder(key string, l *keyHistory) {
	ops, ok := c.operations(l)
	if !ok {
		return
	}
	switch porcupine.CheckOperationsTimeout(model, ops, maxSearch) {
	case porcupine.Unknown:
		c.undecided++
	case porcupine.Illegal:
		// A picture needs a search that takes far more memory, so the search is repeated for it.
		_, info := porcupine.CheckOperationsVerbose(model, ops, maxSearch)
		picture := key + ".html"
		if err := porcupine.VisualizePath(model, info, filepath.Join(c.dir, picture)); err != nil {
			picture = err.Error()
		}
		c.addViolation("%s: no order of its %d operations is one of a lock (%s)", key, len(ops), picture)
	}
}

// operations returns the operations on a key. Readers and writers have a model only if no
// lock was lost.
func (c *checks) operations(l *keyHistory) (ops []porcupine.Operation, ok bool) {
	isFirm := func(h *hold) bool {
		return h.lost == forever && h.out == outOK && h.freed != forever && !c.mayBeTaken(h)
	}
	if slices.ContainsFunc(l.holds, func(h *hold) bool { return h.kind != mutex && !isFirm(h) }) {
		return nil, false
	}
	// A hold that ended by itself ended before the hold with the next token was granted. This makes
	// the search shorter.
	next := map[int64]stamp{} // by token: when the next had returned
	byToken := slices.SortedFunc(slices.Values(l.holds), func(a, b *hold) int { return cmp.Compare(a.token, b.token) })
	for i, h := range byToken {
		if next[h.token] = forever; i+1 < len(byToken) {
			next[h.token] = byToken[i+1].got
		}
	}
	for n, h := range l.holds {
		i := input{kind: h.kind, who: n + 1, firm: isFirm(h), stale: h.handed, token: h.token}
		// Every hold is a client of its own: in one process several goroutines work.
		add := func(what string, from, to stamp) {
			i.what = what
			ops = append(ops, porcupine.Operation{ClientId: n, Input: i, Call: int64(from), Return: int64(to)})
		}
		add("take", h.minted, h.got)
		for _, u := range h.uses {
			what := "get"
			if u.write {
				what = "set"
			}
			i.value, i.out = u.value, u.out
			add(what, u.called, u.returned)
		}
		i.value, i.out = 0, ""
		if h.freed != forever && h.out == outOK {
			add("give", h.free, h.freed)
		}
		if end := min(c.earliestEnd(h), h.free); !i.firm {
			by := next[h.token]
			if h.out == outOK {
				by = h.freed // or it was given back
			}
			add("end", end, max(end, by))
		}
	}
	return ops, true
}

// earliestEnd is when h may end by itself: when its holder no longer relies on it, or
// when a fault may take it away.
func (c *checks) earliestEnd(h *hold) stamp {
	end := h.end()
	if c.row.Loses {
		for _, f := range c.faults {
			if f.To >= h.minted {
				end = min(end, max(f.From, h.minted))
			}
		}
	}
	return end
}
