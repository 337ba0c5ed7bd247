package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// hold is one successful attempt as its process described it.
type hold struct {
	proc   int
	id     int64
	field  int64 // the id of the hold whose field it has in the lock's hash
	key    string
	kind   kind
	token  int64
	called stamp // Lock was called
	minted stamp // not before that, its token was: called, but of one that is stale by right
	handed bool  // it was handed on in memory, and may be stale
	got    stamp // and returned
	until  stamp // its deadline, as last heard of
	lost   stamp // its loss was seen; forever if it was not
	why    string
	free   stamp // the last Unlock was called; forever if it was not
	freed  stamp // and returned; forever if it did not
	over   stamp // nothing more is heard of it: freed, or its process was killed
	out    string
	whyOut string
	uses   []*use
}

// use is one request to the register.
type use struct {
	called, returned stamp // returned is forever if there was no answer
	write            bool
	value            int64
	out              string
}

func (h *hold) String() string { return fmt.Sprintf("p%d.%d at %s", h.proc, h.id, h.key) }

// end is when the holder no longer believed in it.
func (h *hold) end() stamp { return min(h.free, h.lost, h.until) }

// attempt is a call of Lock or TryLock that brought nothing, or not yet.
type attempt struct {
	proc         int
	id           int64
	key          string
	wait         bool
	called, left stamp // left is forever while it is under way
}

// period is a time in which something was done to the system.
type period struct {
	From, To stamp
	What     string
}

// renewed is a renewal that the server carried out.
type renewed struct {
	at   stamp
	proc int
	id   int64
}

// name is an attempt's or a hold's.
type name struct {
	proc int
	id   int64
}

// record is what the checks know of a run beside its holds. It grows with the
// faults and with the times in which somebody stood still, not with what is locked.
type record struct {
	faults  []period         // in their order
	stopped map[int][]period // by process: it stood still, whoever did that; in their order
	killed  map[int]stamp    // by process: it was gone then
}

// history is what is known of a run and was not checked yet: see settle. All of
// it is guarded by mu.
type history struct {
	mu sync.Mutex
	record
	log      io.Writer               // of all events; nil: they are not kept
	known    map[int]stamp           // by process: all that happened until then has been read
	fault    stamp                   // when the fault began that goes on now; forever if there is none
	lines    map[string]*line        // by key
	dirty    map[*line]bool          // those that may have a piece to be checked
	tries    map[name]*attempt       // under way
	open     map[name]*hold          // not over
	fields   map[name]*hold          // of them, those that were handed on in memory, by the hold whose field they have
	named    map[minted]*hold        // the newest of each contended mutex
	ended    map[int][]stamp         // by process and id: when a hold that is over ended; 0 if it is none
	renewals []renewed               // not judged yet
	wrongs   []event                 // what processes found out by themselves, not reported yet
	last     map[string]event        // newest opGot of each contended key
	holding  map[int]map[string]bool // by process: the contended keys that it holds
	ready    map[int]bool
	quiet    map[int]*Quiet // the newest of each process
	reports  map[int]*Report

	attempts, holds int
	longest         stamp // of all calls of Lock
}

func newHistory() *history {
	return &history{
		record: record{stopped: map[int][]period{}, killed: map[int]stamp{}},
		known:  map[int]stamp{}, fault: forever, lines: map[string]*line{}, dirty: map[*line]bool{},
		tries: map[name]*attempt{}, open: map[name]*hold{}, fields: map[name]*hold{}, named: map[minted]*hold{}, ended: map[int][]stamp{}, last: map[string]event{},
		holding: map[int]map[string]bool{}, ready: map[int]bool{}, quiet: map[int]*Quiet{}, reports: map[int]*Report{},
	}
}

// read takes the events of a process until it writes no more.
func (hy *history) read(proc int, r io.Reader) error {
	defer hy.hear(proc, forever)
	lines := bufio.NewReader(r)
	for {
		line, end := lines.ReadBytes('\n')
		if end != nil {
			return nil // a last line without its end was cut by a kill
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("faults: process %d wrote %q: %w", proc, line, err)
		}
		e.Proc = proc
		hy.add(e)
	}
}

// hear says that all that happened to proc until at has been read. Nothing is
// checked before that was said of all processes that were ever heard.
func (hy *history) hear(proc int, at stamp) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	hy.known[proc] = max(hy.known[proc], at)
}

// faultBegins and faultEnds stand around a fault.
func (hy *history) faultBegins() {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	hy.fault = now()
}

func (hy *history) faultEnds(what string) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	p := period{From: hy.fault, To: now(), What: what}
	hy.faults = append(hy.faults, p)
	hy.fault = forever
	hy.keep(p)
}

// keep writes down what happened, for whoever looks at a run that failed.
func (hy *history) keep(what any) {
	if hy.log != nil {
		// Without it a run can still be judged.
		_ = json.NewEncoder(hy.log).Encode(what)
	}
}

func (hy *history) add(e event) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	switch e.Op {
	case opMark:
		hy.known[e.Proc] = max(hy.known[e.Proc], e.At)
		return
	case opReady:
		hy.ready[e.Proc] = true
	case opStill:
		hy.stopped[e.Proc] = append(hy.stopped[e.Proc], period{From: e.Until, To: e.At})
	case opQuiet:
		hy.quiet[e.Proc] = e.Quiet
	case opReport:
		hy.reports[e.Proc] = e.Report
	case opWrong:
		hy.wrongs = append(hy.wrongs, e)
	default:
		hy.step(e)
	}
	hy.keep(e)
	if strings.HasPrefix(e.Key, "many-") {
		return
	}
	switch e.Op {
	case opFree:
		delete(hy.holding[e.Proc], e.Key)
	case opGot:
		if hy.holding[e.Proc] == nil {
			hy.holding[e.Proc] = map[string]bool{}
		}
		hy.last[e.Key] = e
		hy.holding[e.Proc][e.Key] = true
	}
}

// step makes attempts and holds of events.
func (hy *history) step(e event) {
	n := name{e.Proc, e.ID}
	h := hy.open[n]
	switch e.Op {
	case opTry:
		hy.attempts++
		a := &attempt{proc: e.Proc, id: e.ID, key: e.Key, wait: e.Wait, called: e.At, left: forever}
		hy.tries[n] = a
		hy.line(e.Key).attempts[a] = true
	case opNot:
		a := hy.tries[n]
		delete(hy.tries, n)
		a.left = e.At
		hy.longest = max(hy.longest, e.At-a.called)
		hy.dirty[hy.line(e.Key)] = true
	case opGot:
		a, l := hy.tries[n], hy.line(e.Key)
		delete(hy.tries, n)
		delete(l.attempts, a)
		h = &hold{
			proc: e.Proc, id: e.ID, key: l.key, kind: e.Kind, token: e.Token, called: a.called, got: e.At,
			until: e.Until, lost: forever, free: forever, freed: forever, over: forever,
		}
		h.field = h.id
		if g := hy.named[minted{h.proc, h.key, h.token - 1}]; g != nil && h.kind == mutex {
			h.field = g.field // it was handed on in memory
			hy.fields[name{h.proc, h.field}] = h
		}
		if h.kind == mutex {
			hy.named[minted{h.proc, h.key, h.token}] = h
			delete(hy.named, minted{h.proc, h.key, h.token - 2})
		}
		hy.open[n] = h
		l.holds = append(l.holds, h)
		hy.holds++
		hy.longest = max(hy.longest, e.At-a.called)
	case opLost:
		h.lost, h.why, h.until = e.At, e.Why, max(h.until, e.Until)
	case opFree:
		h.free, h.until = e.At, max(h.until, e.Until)
	case opFreed:
		h.freed, h.out, h.whyOut = e.At, e.Out, e.Why
		hy.isOver(n, e.At)
	case opUse:
		h.uses = append(h.uses, &use{called: e.At, returned: forever, write: e.Write, value: e.Value, out: outUnknown})
	case opUsed:
		u := h.uses[len(h.uses)-1]
		u.returned, u.out, u.value = e.At, e.Out, e.Value
	}
}

// minted is a token of a process.
type minted struct {
	proc  int
	key   string
	token int64
}

func (hy *history) line(key string) *line {
	l := hy.lines[key]
	if l == nil {
		l = &line{key: key, attempts: map[*attempt]bool{}}
		hy.lines[key] = l
	}
	return l
}

// isOver: nothing more will be heard of a hold.
func (hy *history) isOver(n name, at stamp) {
	h := hy.open[n]
	delete(hy.open, n)
	if f := (name{n.proc, h.field}); hy.fields[f] == h {
		delete(hy.fields, f)
	}
	h.over = at
	hy.dirty[hy.line(h.key)] = true
	ends := hy.ended[n.proc]
	if missing := int(max(n.id, h.field)) + 1 - len(ends); missing > 0 { // one that began later may have made the field
		ends = append(ends, make([]stamp, missing)...)
	}
	ends[n.id] = max(ends[n.id], h.renewable())
	ends[h.field] = max(ends[h.field], ends[n.id]) // the last that has a field is the last that it is renewed for
	hy.ended[n.proc] = ends
}

// renewable is until when h may be renewed.
func (h *hold) renewable() stamp {
	if h.freed != forever && h.out == outOK {
		return min(h.lost, h.freed)
	}
	return h.lost
}

// isKilled: what a process that is gone had believes nothing any more, and its
// attempts bring nothing that anybody knows of.
func (hy *history) isKilled(proc int, at stamp) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	hy.killed[proc] = at
	for n, h := range hy.open {
		if n.proc != proc {
			continue
		}
		if h.free == forever && h.lost == forever {
			h.free = at
			h.until = forever // its last deadline died with it
		}
		hy.isOver(n, at)
	}
	for n, a := range hy.tries {
		if n.proc == proc {
			delete(hy.tries, n)
			delete(hy.line(a.key).attempts, a)
			hy.dirty[hy.line(a.key)] = true
		}
	}
}

// The numbers of processes that do not work.
const (
	parent    = 0  // has the proxy
	theServer = -1 // is Redis, as seen by one who asks it directly
)

// excused is how much of the time from a to b the process stood still.
func (r *record) excused(proc int, a, b stamp) (sum stamp) {
	stood := r.stopped[proc]
	for i := firstAfter(stood, a); i < len(stood) && stood[i].From < b; i++ {
		sum += max(0, min(stood[i].To, b)-max(stood[i].From, a))
	}
	return sum
}

// calm is the last moment from a to b at which a fault ended, or at which somebody
// ran again who had stood still for at least long; a if there is none. stood is how
// long all others stood still after a, together.
func (r *record) calm(a, b stamp, long time.Duration) (since stamp, stood time.Duration) {
	since = a
	look := func(ps []period, long time.Duration) {
		i, _ := slices.BinarySearchFunc(ps, b, func(p period, at stamp) int { return int(p.From - at) })
		for i--; i >= 0 && ps[i].To > a; i-- {
			if ps[i].To.sub(ps[i].From) >= long {
				since = max(since, ps[i].To)
				return
			}
			stood += min(ps[i].To, b).sub(max(ps[i].From, a))
		}
	}
	look(r.faults, 0)
	for _, ps := range r.stopped {
		look(ps, long)
	}
	return since, stood
}

// firstAfter is the first of them that ends after at.
func firstAfter(ps []period, at stamp) int {
	i, _ := slices.BinarySearchFunc(ps, at+1, func(p period, at stamp) int { return int(p.To - at) })
	return i
}
