package hold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/wait"
)

// Unlocks is many calls of Unlock that belong together. A server that answers none of them for
// the time that one may take counts as silent, and later calls do not wait for it. The zero
// Unlocks works. All methods are safe for concurrent use.
type Unlocks struct {
	servers sync.Map // by network.Server: *answering
}

// answering is what is known of a server.
type answering struct {
	answers atomic.Uint64 // calls that ended well
	silent  atomic.Bool   // stays so
}

// Server returns the server that has x now. Servers can be compared.
func (x *Held) Server() network.Server { return x.h.k.Network.Server(x.h.name) }

// Unlock is x.Unlock. At a silent server the outcome is unknown at once. The client then acts as
// after an Unlock whose time has passed.
func (u *Unlocks) Unlock(ctx context.Context, x *Held) error {
	known, _ := u.servers.LoadOrStore(x.Server(), &answering{})
	s := known.(*answering)
	before := s.answers.Load()
	ctx = x.h.k.unlocks.Bound(ctx)
	if s.silent.Load() {
		over, cancel := context.WithDeadline(wait.Sound(ctx), time.Time{})
		defer cancel()
		ctx = over
	}
	err := x.unlockWithin(ctx)
	switch {
	case err == nil:
		s.answers.Add(1)
	case wait.Ended(ctx) != nil && s.answers.Load() == before:
		s.silent.Store(true)
	}
	return err
}
