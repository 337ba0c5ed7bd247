package hold

import (
	"github.com/wheellock/wheellock/lock/internal/watch"
)

// heldWatch has the channel and the contexts of a Held. Most Helds never need one.
type heldWatch struct {
	watch.Watch
	hold *Hold // immutable; nil of an error that is kept as one, see lostErrorLocked
	// guarded by hold.mu
	next   *heldWatch // in hold.watching
	rested bool       // its Held wants no renewal any more
}

// end ends all of a list that no longer belongs to its hold.
func (w *heldWatch) end(cause error) {
	for ; w != nil; w = w.next {
		w.End(cause)
	}
}
