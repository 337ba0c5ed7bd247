package lock

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/renewal"
)

// keeper is what the holds of a Client share, from the first script of a hold to its last.
type keeper struct {
	// immutable after New
	cfg     Config
	id      string // random UUID: the first part of every hash field of this client
	dog     *renewal.Watchdog
	router  *servers.Router
	orphans *orphans.Orphans
	random  *rand.Rand
	ctx     context.Context // ends when Close gives up waiting
	closing chan struct{}   // closed when Close began

	// atomic
	seqs   atomic.Uint64 // the last seq: one for every outermost attempt
	counts counters

	// Each of these says itself what guards its fields.
	scripts scripts
	sender  *sender.Routed
	hooks   hooks
	table   *locktable.Table[*hold]
	turns   sync.Map      // of *hold to the chan struct{} that is closed when it is no more busy, if somebody waits for that
	lost    backlog[loss] // holds that are lost, to be taken out of the table

	cast    role.Cast      // its goroutines
	unlocks wait.Deadlines // of Unlock

	wg sync.WaitGroup // what releaseUnclaimed started
}
