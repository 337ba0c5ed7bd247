package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// hold is one successful attempt as its process described it.
type hold struct {
	proc   int
	id     int64
	key    string
	kind   kind
	token  int64
	called stamp // Lock was called
	got    stamp // and returned
	until  stamp // its deadline, as last heard of
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
	hold             *hold
	called, returned stamp // returned is forever if there was no answer
	write            bool
	value            int64
	out              string
}

func (h *hold) String() string { return fmt.Sprintf("p%d.%d at %s", h.proc, h.id, h.key) }

// end is when the holder no longer believed in it.
func (h *hold) end() stamp { return min(h.free, h.lost, h.until) }

// period is a time in which something was done to the system.
type period struct {
	From, To stamp
	What     string
}

// renewed is a renewal that the server carried out.
type renewed struct {
	at    stamp
	proc  int
	id    int64
	field string
}

// history is all that is known of a run.
type history struct {
	mu       sync.Mutex // guards what follows while processes run
	events   []event
	faults   []period
	stopped  map[int][]period // by process: it stood still, whoever did that
	killed   map[int]stamp    // by process: it was gone then
	renewals []renewed
	last     map[string]event        // newest opGot of each contended key
	holding  map[int]map[string]bool // by process: the contended keys that it holds
	ready    map[int]bool
	reports  map[int]*Report

	// made by assemble
	holds    []*hold
	byKey    map[string][]*hold // in the order of got
	attempts int
	longest  stamp // of all calls of Lock
	// disturbances are the faults, and when somebody stood still.
	disturbances []period
}

func newHistory() *history {
	return &history{
		stopped: map[int][]period{}, killed: map[int]stamp{}, last: map[string]event{},
		holding: map[int]map[string]bool{}, ready: map[int]bool{}, reports: map[int]*Report{},
	}
}

// read takes the events of a process until it writes no more.
func (hy *history) read(proc int, r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, end := lines.ReadBytes('\n')
		if end != nil {
			return nil //nolint:nilerr // a last line without its end was cut by a kill
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("faults: process %d wrote %q: %w", proc, line, err)
		}
		e.Proc = proc
		hy.add(e)
	}
}

func (hy *history) add(e event) {
	hy.mu.Lock()
	defer hy.mu.Unlock()
	hy.events = append(hy.events, e)
	switch e.Op {
	case opReady:
		hy.ready[e.Proc] = true
	case opStill:
		hy.stopped[e.Proc] = append(hy.stopped[e.Proc], period{From: e.Until, To: e.At, What: "stood still"})
	case opReport:
		hy.reports[e.Proc] = e.Report
	case opGot, opFree:
		if strings.HasPrefix(e.Key, "many-") {
			return
		}
		if hy.holding[e.Proc] == nil {
			hy.holding[e.Proc] = map[string]bool{}
		}
		if e.Op == opFree {
			delete(hy.holding[e.Proc], e.Key)
			return
		}
		hy.last[e.Key] = e
		hy.holding[e.Proc][e.Key] = true
	}
}

// assemble makes holds of events. The processes have ended.
func (hy *history) assemble() {
	type name struct {
		proc int
		id   int64
	}
	tries, holds := map[name]event{}, map[name]*hold{}
	hy.byKey = map[string][]*hold{}
	for _, e := range hy.events {
		n := name{e.Proc, e.ID}
		h := holds[n]
		switch e.Op {
		case opTry:
			hy.attempts++
			tries[n] = e
		case opNot:
			hy.longest = max(hy.longest, e.At-tries[n].At)
		case opGot:
			try := tries[n]
			h = &hold{
				proc: e.Proc, id: e.ID, key: e.Key, kind: e.Kind, token: e.Token, called: try.At, got: e.At,
				until: e.Until, lost: forever, free: forever, freed: forever,
			}
			holds[n] = h
			hy.holds = append(hy.holds, h)
			hy.longest = max(hy.longest, e.At-try.At)
		case opLost:
			h.lost, h.why, h.until = e.At, e.Why, max(h.until, e.Until)
		case opFree:
			h.free, h.until = e.At, max(h.until, e.Until)
		case opFreed:
			h.freed, h.out, h.whyOut = e.At, e.Out, e.Why
		case opUse:
			h.uses = append(h.uses, &use{hold: h, called: e.At, returned: forever, write: e.Write, value: e.Value, out: outUnknown})
		case opUsed:
			u := h.uses[len(h.uses)-1]
			u.returned, u.out, u.value = e.At, e.Out, e.Value
		}
	}
	for _, h := range hy.holds {
		if end, ok := hy.killed[h.proc]; ok && h.free == forever && h.lost == forever {
			h.free = end      // it believes nothing any more
			h.until = forever // its last deadline died with it
		}
		hy.byKey[h.key] = append(hy.byKey[h.key], h)
	}
	hy.disturbances = slices.Clone(hy.faults)
	for _, stood := range hy.stopped {
		hy.disturbances = append(hy.disturbances, stood...)
	}
	for _, hs := range hy.byKey {
		slices.SortFunc(hs, func(a, b *hold) int { return int(a.got - b.got) })
	}
}

// The numbers of processes that do not work.
const (
	parent    = 0  // has the proxy
	theServer = -1 // is Redis, as seen by one who asks it directly
)

// excused is how much of the time from a to b the process stood still.
func (hy *history) excused(proc int, a, b stamp) (sum stamp) {
	for _, p := range hy.stopped[proc] {
		sum += max(0, min(p.To, b)-max(p.From, a))
	}
	return sum
}
