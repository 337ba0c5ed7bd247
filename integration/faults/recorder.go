package faults

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// recorder writes events, each with one Write: a killed process loses none.
//
// A stamp is taken before its event is written, and goroutines overtake each
// other in between. The recorder keeps the stamps that are under way, and so can
// say up to when all is written (mark); who reads relies on nothing later.
type recorder struct {
	clock clock // immutable

	stamps sync.Mutex // guards open
	open   []stamp    // taken, and their events not written yet

	mu sync.Mutex // guards to
	to io.Writer
}

// stamp is now, for an event that is written later: write or drop must follow.
func (r *recorder) stamp() stamp {
	r.stamps.Lock()
	defer r.stamps.Unlock()
	at := now()
	r.open = append(r.open, at)
	return at
}

// drop is for a stamp whose event is not written after all.
func (r *recorder) drop(at stamp) {
	r.stamps.Lock()
	defer r.stamps.Unlock()
	if i := slices.Index(r.open, at); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// write stamps e, if it has no stamp yet, and sends it.
func (r *recorder) write(e event) {
	if e.At == 0 {
		e.At = r.stamp()
	}
	r.send(e)
	r.drop(e.At)
}

// mark says that all until at, and perhaps less, has been written.
func (r *recorder) mark(at stamp) {
	r.stamps.Lock()
	for _, open := range r.open {
		at = min(at, open-1)
	}
	r.stamps.Unlock()
	r.send(event{At: at, Op: opMark})
}

func (r *recorder) send(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic("faults: bug: " + err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Without a reader there is nobody to tell.
	_, _ = r.to.Write(append(line, '\n'))
}
