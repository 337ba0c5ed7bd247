package faults

import (
	"cmp"
	"slices"
)

// line is what happens at one key and was not checked yet.
type line struct {
	key      string            // immutable
	attempts map[*attempt]bool // that are under way or brought nothing
	holds    []*hold           // in the order in which they were heard of
	fence    int64             // highest token that the register took in pieces before

	past past // owned by who checks the pieces
}

// piece is what happened at a key between two moments at which nothing was under
// way there.
type piece struct {
	line     *line
	holds    []*hold    // in the order of got
	attempts []*attempt // that brought nothing, in the order of called
}

// past is what the pieces of a key before this one leave to it. At the cut nobody
// is in a call and nobody believes, so it is all that they can have left.
type past struct {
	token int64 // highest that was given out
	of    *hold // that had it; nil: nobody
	free  stamp // from when the server has nothing of them, at the latest; 0: nothing was held
	fence int64 // highest token the register has seen
	value int64 // of the register

	// What was written to the register: that it took, that it may have taken, and
	// to the number without tokens. lost: that one may have missed some.
	sure, maybe, raw int64
	lost             bool
}

// span is a time in which something is under way at a key.
type span struct {
	from, to stamp
	h        *hold // nil for an attempt
}

// cut takes from l what happened before its last quiet point that is not after until. A
// point is quiet if every call before it has returned, every hold before it is over,
// and no request without an answer can still change the register, because the register
// has seen a higher token. So all of a piece happened before all of the next, and the
// key and its register can be in one state only in between: past.after says in which.
func (l *line) cut(until stamp) (p piece, ok bool) {
	spans := make([]span, 0, len(l.holds)+len(l.attempts))
	for _, h := range l.holds {
		spans = append(spans, span{h.called, h.over, h})
	}
	for a := range l.attempts {
		spans = append(spans, span{a.called, a.left, nil})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var latest, quiet stamp
	fence, doubt := l.fence, int64(-1)
	for i, s := range spans {
		latest = max(latest, s.to)
		if latest > until {
			break
		}
		if s.h != nil {
			for _, u := range s.h.uses {
				switch u.out {
				case outOK:
					fence = max(fence, s.h.token)
				case outUnknown:
					doubt = max(doubt, s.h.token)
				}
			}
		}
		if (i+1 == len(spans) || latest < spans[i+1].from) && doubt < fence {
			quiet, l.fence = latest, fence
		}
	}
	if quiet == 0 {
		return piece{}, false
	}
	return l.take(quiet), true
}

// rest is all that is left, quiet or not. The run is over.
func (l *line) rest() piece { return l.take(forever) }

func (l *line) take(until stamp) piece {
	p := piece{line: l}
	var later []*hold
	for _, h := range l.holds {
		if until == forever || h.over <= until {
			p.holds = append(p.holds, h)
		} else {
			later = append(later, h)
		}
	}
	l.holds = later
	for a := range l.attempts {
		if until == forever || a.left <= until {
			p.attempts = append(p.attempts, a)
			delete(l.attempts, a)
		}
	}
	slices.SortFunc(p.holds, func(a, b *hold) int { return cmp.Compare(a.got, b.got) })
	slices.SortFunc(p.attempts, func(a, b *attempt) int { return cmp.Compare(a.called, b.called) })
	return p
}

// after is what p leaves, beside free and lost, which the checks know. The register's
// number is what the holder of the highest token did last: it took no lower one after.
func (b past) after(p piece) past {
	for _, h := range p.holds {
		if b.of == nil || h.token > b.token {
			b.token, b.of = h.token, h
		}
		for _, u := range h.uses {
			if u.out == outOK && h.token >= b.fence {
				b.fence, b.value = h.token, u.value
			}
			switch {
			case !u.write:
				continue
			case u.out == outOK:
				b.sure++
			case u.out == outUnknown:
				b.maybe++
			}
			b.raw++
		}
	}
	return b
}
