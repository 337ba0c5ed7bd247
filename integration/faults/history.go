package faults

import (
	"bufio"
	"cmp"
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
	key    string
	kind   kind
	token  int64
	called stamp // Lock was called
	minted stamp // its token was not minted before; the same as called, unless handed is set
	handed bool  // a client handed it over in memory after a fault took the lock away
	got    stamp // Lock returned
	until  stamp // the latest deadline that the process recorded
	lost   stamp // its loss was seen; forever if it was not
	why    string
	free   stamp // the last Unlock was called; forever if it was not
	freed  stamp // and returned; forever if it did not
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

// end returns when the holder stopped relying on it.
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

// holdID identifies an attempt or a hold.
type holdID struct {
	proc int
	id   int64
}

// keyHistory is what happened at one key.
type keyHistory struct {
	holds    []*hold    // in the order of got
	attempts []*attempt // that brought nothing, in the order of called
}

// history has all events of a run. mu guards its fields until all writers have ended.
// After that the checks read it without mu.
type history struct {
	mu       sync.Mutex
	log      io.Writer              // of all events; nil: they are not kept
	faults   []period               // in their order
	stopped  map[int][]period       // by process: when it stood still, for any reason; in their order
	killed   map[int]stamp          // by process: when it was killed
	keys     map[string]*keyHistory // by key
	tries    map[holdID]*attempt
	open     map[holdID]*hold        // not freed
	wrongs   []event                 // what processes found out by themselves
	last     map[string]stamp        // newest opGot of each contended key
	holding  map[int]map[string]bool // by process: the contended keys that it holds
	ready    map[int]bool
	reports  map[int]*Report
	attempts int
	holds    int
	longest  time.Duration // of all calls of Lock
}

func newHistory() *history {
	return &history{
		stopped: map[int][]period{}, killed: map[int]stamp{}, keys: map[string]*keyHistory{},
		tries: map[holdID]*attempt{}, open: map[holdID]*hold{}, last: map[string]stamp{},
		holding: map[int]map[string]bool{}, ready: map[int]bool{}, reports: map[int]*Report{},
	}
}

// readEvents takes the events of a process until it writes no more.
func (hy *history) readEvents(proc int, r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		text, end := lines.ReadBytes('\n')
		if end != nil {
			return nil //nolint:nilerr // a last line without its end was cut by a kill
		}
		var e event
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("faults: process %d wrote %q: %w", proc, text, err)
		}
		e.Proc = proc
		hy.addEvent(e)
	}
}

// addFault says that a fault began at from and has ended now.
func (hy *history) addFault(from stamp, what string) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	p := period{From: from, To: now(), What: what}
	hy.faults = append(hy.faults, p)
	hy.writeLog(p)
}

// writeLog records an event or a fault, for the diagnosis of a run that failed.
func (hy *history) writeLog(what any) {
	if hy.log != nil {
		// Without it a run can still be judged.
		_ = json.NewEncoder(hy.log).Encode(what)
	}
}

func (hy *history) addEvent(e event) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	hy.writeLog(e)
	n := holdID{e.Proc, e.ID}
	h := hy.open[n]
	switch e.Op {
	case opReady:
		hy.ready[e.Proc] = true
	case opStill:
		hy.stopped[e.Proc] = append(hy.stopped[e.Proc], period{From: e.Until, To: e.At})
	case opReport:
		hy.reports[e.Proc] = e.Report
	case opWrong:
		hy.wrongs = append(hy.wrongs, e)
	case opTry:
		hy.attempts++
		hy.tries[n] = &attempt{proc: e.Proc, id: e.ID, key: e.Key, wait: e.Wait, called: e.At, left: forever}
	case opNot:
		a := hy.tries[n]
		delete(hy.tries, n)
		a.left = e.At
		hy.keyHistory(e.Key).attempts = append(hy.keyHistory(e.Key).attempts, a)
		hy.longest = max(hy.longest, e.At.sub(a.called))
	case opGot:
		hy.addHold(e, hy.tries[n])
	case opLost:
		h.lost, h.why, h.until = e.At, e.Why, max(h.until, e.Until)
	case opFree:
		h.free, h.until = e.At, max(h.until, e.Until)
		delete(hy.holding[e.Proc], e.Key)
	case opFreed:
		h.freed, h.out, h.whyOut = e.At, e.Out, e.Why
		delete(hy.open, n)
	case opUse:
		h.uses = append(h.uses, &use{called: e.At, returned: forever, write: e.Write, value: e.Value, out: outUnknown})
	case opUsed:
		u := h.uses[len(h.uses)-1]
		u.returned, u.out, u.value = e.At, e.Out, e.Value
	}
}

// addHold adds the hold of e, which is the result of the attempt a.
func (hy *history) addHold(e event, a *attempt) {
	n, l := holdID{e.Proc, e.ID}, hy.keyHistory(e.Key)
	delete(hy.tries, n)
	h := &hold{
		proc: e.Proc, id: e.ID, key: e.Key, kind: e.Kind, token: e.Token, called: a.called, minted: a.called, got: e.At,
		until: e.Until, lost: forever, free: forever, freed: forever,
	}
	hy.open[n] = h
	l.holds = append(l.holds, h)
	hy.holds++
	hy.longest = max(hy.longest, e.At.sub(a.called))
	if isOwn(e.Key) {
		return
	}
	hy.last[e.Key] = e.At
	if hy.holding[e.Proc] == nil {
		hy.holding[e.Proc] = map[string]bool{}
	}
	hy.holding[e.Proc][e.Key] = true
}

// ownKeys is the prefix of the keys that one process alone uses.
const ownKeys = "own-"

func isOwn(key string) bool { return strings.HasPrefix(key, ownKeys) }

func (hy *history) keyHistory(key string) *keyHistory {
	if hy.keys[key] == nil {
		hy.keys[key] = &keyHistory{}
	}
	return hy.keys[key]
}

// addKill notes that a process was killed. Its holders rely on nothing any more, and its
// attempts have an unknown outcome.
func (hy *history) addKill(proc int, at stamp) {
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
		delete(hy.open, n)
	}
	for n := range hy.tries {
		if n.proc == proc {
			delete(hy.tries, n)
		}
	}
}

// sort sorts the histories of the keys, at the end of a run.
func (hy *history) sort() {
	for _, l := range hy.keys {
		slices.SortFunc(l.holds, func(a, b *hold) int { return cmp.Compare(a.got, b.got) })
		slices.SortFunc(l.attempts, func(a, b *attempt) int { return cmp.Compare(a.called, b.called) })
	}
}

// theServer is the process number of Redis itself, as seen without the proxy. The parent, which has
// the proxy, is process 0.
const theServer, parent = -1, 0

// stoodStill returns for how much of the time from a to b the process stood still.
func (hy *history) stoodStill(proc int, a, b stamp) (sum time.Duration) {
	for _, p := range hy.stopped[proc] {
		sum += max(0, min(p.To, b).sub(max(p.From, a)))
	}
	return sum
}

// lastDisturbance returns the last moment from a to b at which a fault ended, or at which a process
// ran again after it had stood still for at least long; a if there is none. stood is the sum of the
// shorter times for which processes stood still.
func (hy *history) lastDisturbance(a, b stamp, long time.Duration) (since stamp, stood time.Duration) {
	since = a
	look := func(ps []period, long time.Duration) {
		for _, p := range slices.Backward(ps) {
			switch {
			case p.From > b || p.To <= a:
			case p.To.sub(p.From) >= long:
				since = max(since, p.To)
				return
			default:
				stood += min(p.To, b).sub(max(p.From, a))
			}
		}
	}
	look(hy.faults, 0)
	for _, ps := range hy.stopped {
		look(ps, long)
	}
	return since, stood
}
