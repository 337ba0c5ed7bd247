package hold

import (
	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/renewal"
)

// lane returns the lane of the server that has key, or nil if none is known.
func (k *Keeper) lane(key string) network.Lane { return k.Network.Server(key).Lane() }

// keep makes the watchdog renew h. The lease of h belongs to o. terms has the stamp of the
// request that acquired h.
func (k *Keeper) keep(h *Hold, o carrier.Owner, terms renewal.Terms) error {
	l := k.lane(h.name)
	if l == nil {
		return servers.ErrNoServer
	}
	if !terms.Fixed {
		l.Open()
	}
	return l.Leases().Hold(&h.lease, o, terms)
}

// place moves h to the lane of the server that has its key. h is checked there at once,
// because that server may not have the key. A hold that was found on the target of a moving
// slot stays there.
func (k *Keeper) place(h *Hold) {
	l := k.lane(h.name)
	switch {
	case l == nil:
	case h.lease.Lane() == l.Leases():
		h.setFlag(asked, false) // the slot has arrived
	case !h.has(asked):
		if h.lease.Move(l.Leases()) {
			l.Open()
			h.lease.Verify()
		}
	}
}

// relocate moves every hold to the lane of the server that now has its key. Waiters look
// for the server of their channel.
func (k *Keeper) relocate() {
	for _, h := range k.Table.All() {
		k.place(h)
	}
	k.Table.WakeAll()
}

// refusalOf returns the error that the server of h last answered to a renewal, if that was within
// a lease; nil otherwise.
func (k *Keeper) refusalOf(h *Hold) error {
	l := k.lane(h.name)
	if l == nil {
		return nil
	}
	said := l.Refusal()
	if said == nil {
		return nil
	}
	return said.Err
}
