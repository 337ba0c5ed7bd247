package faults

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// in is an operation on a key, for porcupine.
type in struct {
	what  string // take, give, end, get, set
	kind  kind
	who   int  // index of the hold in the piece, from 1; of kind shared its process
	firm  bool // the hold lasts until it is given back
	stale bool // it may be, and have the token of another
	token int64
	value int64
	out   string
}

// state is what a key and its register may be in. A reader counts, a writer
// has a name, and one with several goroutines has both.
type state struct {
	writer  int
	readers int
	last    int64 // highest token that was given out
	fence   int64 // highest token the register has seen
	value   int64
}

// model is a lock with a register that it guards, as pieces before have left it.
// A firm hold lasts until it is given back. The leases of others end: "end" frees a
// lock whose holder no longer believes in it, at any time from then on.
//
// A TryLock that was refused says nothing: a lock can be on its way from one
// waiter to the next. Requests without an answer may take effect at any time, or
// never.
func model(b past) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{last: b.token, fence: b.fence, value: b.value} },
		Step: func(s, i, _ any) (bool, any) { return step(s.(state), i.(in)) },
		DescribeOperation: func(i, _ any) string {
			x := i.(in)
			return fmt.Sprintf("%s %s #%d token %d value %d %s", x.what, x.kind, x.who, x.token, x.value, x.out)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func step(s state, i in) (bool, any) {
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
		case shared:
			if s.writer != i.who && (s.writer != 0 || i.token <= s.last) || s.writer == i.who && i.token != s.last {
				return false, s
			}
			s.writer, s.last = i.who, i.token
			s.readers++
		default:
			if s.writer != 0 || s.readers != 0 || i.kind == mutex && (i.token < s.last || i.token == s.last && !i.stale) {
				return false, s
			}
			s.writer, s.last = i.who, i.token
		}
	case "give":
		switch {
		case i.kind == read || i.kind == permit || i.kind == count:
			s.readers--
		case i.kind == shared:
			if s.readers--; s.readers == 0 {
				s.writer = 0
			}
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

// longestSearch is how long porcupine looks for the order of a piece.
const longestSearch = 10 * time.Second

// linear checks a piece against the model.
func (c *checks) linear(p piece) {
	if strings.HasPrefix(p.line.key, "many-") {
		return // of one process, one after the other
	}
	ops, ok := c.operations(p)
	if !ok {
		return
	}
	m := model(p.line.past)
	switch porcupine.CheckOperationsTimeout(m, ops, longestSearch) {
	case porcupine.Unknown:
		c.undecided++
	case porcupine.Illegal:
		// What a picture needs takes far more memory, so it is sought again.
		_, info := porcupine.CheckOperationsVerbose(m, ops, longestSearch)
		picture := fmt.Sprintf("%s-%d.html", p.line.key, c.checked)
		if err := porcupine.VisualizePath(m, info, filepath.Join(c.dir, picture)); err != nil {
			picture = err.Error()
		}
		c.wrong("%s: no order of its %d operations is one of a lock (%s)", p.line.key, len(ops), picture)
	}
}

// operations are those of a piece. Readers, permits and owners of many have a model
// only if nothing was lost.
func (c *checks) operations(p piece) (ops []porcupine.Operation, ok bool) {
	firm := func(h *hold) bool {
		return h.lost == forever && h.out == outOK && h.freed != forever && !c.mayBeTaken(h)
	}
	if slices.ContainsFunc(p.holds, func(h *hold) bool { return h.kind != mutex && !firm(h) }) {
		return nil, false
	}
	// A lock that ended by itself did before the next was given: the one with the next
	// token. To say so spares the search what it would try in vain.
	next := map[int64]stamp{} // by token: when the next had returned
	byToken := slices.SortedFunc(slices.Values(p.holds), func(a, b *hold) int { return cmp.Compare(a.token, b.token) })
	for i, h := range byToken {
		if next[h.token] = forever; i+1 < len(byToken) {
			next[h.token] = byToken[i+1].got
		}
	}
	client := 0
	add := func(i in, from, to stamp) {
		// An own client for each: in one process several goroutines work.
		ops = append(ops, porcupine.Operation{ClientId: client, Input: i, Call: int64(from), Return: int64(to)})
	}
	for n, h := range p.holds {
		i := in{kind: h.kind, who: n + 1, firm: firm(h), stale: h.handed, token: h.token}
		if h.kind == shared {
			i.who = h.proc
		}
		client = n
		i.what = "take"
		add(i, h.minted, h.got)
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
		if end := min(c.endsFrom(h), h.free); !i.firm {
			i.what = "end"
			by := next[h.token]
			if h.out == outOK {
				by = h.freed // or it was given back
			}
			add(i, end, max(end, by))
		}
	}
	return ops, true
}

// endsFrom is when h may end by itself: when its holder no longer relies on it,
// or when a fault may take it away.
func (c *checks) endsFrom(h *hold) stamp {
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
