package lock

import (
	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/renewal"
)

var _ carrier.Owner = (*hold)(nil)

// Class implements carrier.Owner.
func (h *hold) Class() carrier.Class { return h.kind.rules().class() }

// Name implements carrier.Owner.
func (h *hold) Name() string { return h.name }

// Key implements carrier.Owner.
func (h *hold) Key() string { return h.kind.rules().key(h.name) }

// AppendField implements carrier.Owner.
func (h *hold) AppendField(b []byte) []byte { return h.appendOwnTail(b) }

// Touch implements carrier.Owner.
func (h *hold) Touch() byte { return h.name[0] + h.owner.text[0] }

// Asked implements carrier.Owner.
func (h *hold) Asked() bool { return h.is(asked) }

// MoveTo implements carrier.Owner.
func (h *hold) MoveTo(lane *renewal.Lane, asking bool) {
	h.set(asked, asking)
	h.lease.Move(lane)
}
