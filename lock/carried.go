package lock

import (
	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/renewal"
)

var _ carrier.Owner = (*hold)(nil)

// Class implements carrier.Owner.
func (h *hold) Class() carrier.Class {
	switch h.kind {
	case readKind:
		return carrier.Readers
	case permitKind:
		return carrier.Permits
	}
	return carrier.Fields
}

// Name implements carrier.Owner.
func (h *hold) Name() string { return h.name }

// Key implements carrier.Owner.
func (h *hold) Key() string {
	if h.kind == permitKind {
		return keys.PermitsTaken(h.name)
	}
	return h.name
}

// AppendField implements carrier.Owner.
func (h *hold) AppendField(b []byte) []byte { return h.appendFieldTail(b) }

// Touch implements carrier.Owner.
func (h *hold) Touch() byte { return h.name[0] + h.owner.text[0] }

// Asked implements carrier.Owner.
func (h *hold) Asked() bool { return h.is(asked) }

// MoveTo implements carrier.Owner.
func (h *hold) MoveTo(lane *renewal.Lane, asking bool) {
	h.set(asked, asking)
	h.lease.Move(lane)
}
