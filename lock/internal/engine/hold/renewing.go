package hold

import (
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/renewal"
)

// Rest says that x no longer needs renewal of the hold. When no Held needs renewal, the
// hold ends with its longest lease.
func (x *Held) Rest() {
	x.h.mu.Lock()
	last := x.restLocked()
	x.h.mu.Unlock()
	if last {
		x.h.settle()
	}
}

// restLocked is Rest without settle. It reports whether no Held needs renewal any more. Then the
// caller must call settle, unless the lease has ended.
func (x *Held) restLocked() (last bool) {
	if !x.renewed {
		return false
	}
	x.renewed = false
	x.h.renewing--
	if x.watch != nil {
		x.watch.rested = true
	}
	return x.h.renewing == 0
}

// isRenewed reports whether some Held of h needs renewal.
func (h *Hold) isRenewed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewing > 0
}

// settle makes the watchdog renew the hold, or stop renewing it, as its Helds need now.
func (h *Hold) settle() {
	for again := true; again; {
		fixed := !h.isRenewed()
		h.lease.SetFixed(fixed)
		if l := h.engine.lane(h.name); l != nil && !fixed {
			l.Open()
		}
		h.mu.Lock()
		again = fixed != (h.renewing == 0) // changed meanwhile, and the other settle may have come first
		h.mu.Unlock()
	}
}

// lane returns the lane of the server that has key, or nil if none is known.
func (k *Engine) lane(key string) network.Lane { return k.Network.Server(key).Lane() }

// keep makes the watchdog renew h. The lease of h belongs to o. terms has the stamp of the
// request that acquired h. l is the lane of the server that had the key before that request was sent.
// If the key has moved since, h begins on its old lane, and place then moves it and checks it. Its new
// server may not have the key.
func (k *Engine) keep(h *Hold, l network.Lane, o renewer.Owner, terms renewal.Terms) error {
	wasKnown := l != nil
	if !wasKnown { // the request waited for the first Layout
		l = k.lane(h.name)
	}
	if l == nil {
		return servers.ErrNoServer
	}
	if !terms.Fixed {
		l.Open()
	}
	err := l.RenewalLane().Hold(&h.lease, o, terms)
	if err == nil && !wasKnown {
		h.lease.Verify() // the key may have moved since that Layout
	}
	return err
}

// place moves h to the lane of the server that has its key. h is checked there at once,
// because that server may not have the key. A hold that was found on the target of a moving
// slot stays there.
func (k *Engine) place(h *Hold) {
	l := k.lane(h.name)
	switch {
	case l == nil:
	case h.lease.Lane() == l.RenewalLane():
		h.setFlag(needsAsking, false) // the slot has arrived
	case !h.has(needsAsking):
		if h.lease.Move(l.RenewalLane()) {
			l.Open()
			h.lease.Verify()
		}
	}
}

// relocate moves every hold to the lane of the server that now has its key. Waiters look
// for the server of their channel, and so do Followers.
func (k *Engine) relocate() {
	for _, h := range k.Table.All() {
		k.place(h)
	}
	k.Table.WakeAll()
	for _, f := range k.followers.all() {
		f.Relocate()
	}
}
