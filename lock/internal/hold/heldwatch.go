package hold

import (
	"github.com/wheellock/wheellock/lock/internal/watch"
)

// heldWatch has the channel and the contexts of a Held. Most Helds never need one.
type heldWatch struct {
	watch.Watch
	hold *Hold // immutable; nil before Init
	// guarded by hold.mu
	next     *heldWatch // see ends
	rested   bool       // its Held wants no renewal any more
	unlisted bool       // it does not end with the hold any more
}

// ends has what ends with a hold, and the error of its loss. The first Done or Context of its Helds
// makes it, or the loss. hold.mu guards the fields, and is not held while a watch ends.
type ends struct {
	first heldWatch // of the Held that asked first; those of others that end with the hold follow it
	lost  error     // made once; nil while the hold is not lost
}

// newWatchLocked makes the watch of a Held.
func (h *Hold) newWatchLocked() *heldWatch {
	e := h.endsLocked()
	w := &e.first
	if w.hold != nil {
		w = &heldWatch{next: e.first.next}
		e.first.next = w
	}
	w.hold = h
	w.Init(h)
	return w
}

// endsLocked makes h.ends, if it is not there.
func (h *Hold) endsLocked() *ends {
	if h.ends == nil {
		h.ends = new(ends)
	}
	return h.ends
}

// unlistLocked drops w, which ends before its hold.
func (h *Hold) unlistLocked(w *heldWatch) {
	w.unlisted = true
	for p := &h.ends.first.next; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			return
		}
	}
}

// takeWatchesLocked takes the watches from h. The caller ends them without h.mu.
func (h *Hold) takeWatchesLocked() (first, others *heldWatch) {
	e := h.ends
	if e == nil {
		return nil, nil
	}
	if e.first.hold != nil && !e.first.unlisted {
		first, e.first.unlisted = &e.first, true
	}
	others, e.first.next = e.first.next, nil
	return first, others
}

// endWatches ends what takeWatchesLocked has returned.
func endWatches(cause error, first, others *heldWatch) {
	if first != nil {
		first.End(cause)
	}
	for w := others; w != nil; w = w.next {
		w.End(cause)
	}
}
