package hold

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/backlog"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// Config is what a client's holds need of it. Fields that lock.Config has mean the same.
type Config struct {
	ID string // of the client: the first part of every hash field

	Lease, IOTimeout, UnlockTimeout, MaxPoll time.Duration
	Replicas                                 int
	ReadersFirst, FailFast, DropForgotten    bool

	Traits   topology.Traits // none of a pool
	Counters keys.Counters   // of tokens
	Servers  servers.Config  // of its Network; but for Opened and Moved

	Watchdog *renewal.Watchdog // the Keeper's from then on
	Random   *rand.Rand        // safe for concurrent use
	Closing  <-chan struct{}   // closed when Close began
	Closed   error             // of what the end of the client cuts off
	Cast     *role.Cast        // its goroutines
	Logger   *slog.Logger
	Errors   Errors
	Observer Observer
}

// Observer is told what happens to holds. None of it may panic.
type Observer interface {
	// Waited is told when a call that had to wait ends: with h, or with err.
	Waited(ctx context.Context, name string, took time.Duration, h *Hold, err error)
	// Released is told how the last Unlock of h ended, on the goroutine of that.
	Released(ctx context.Context, h *Hold, err error)
	// Lost is told of a loss, and err says why h was lost. It must not block.
	Lost(h *Hold, err error)
}

// Counts are what a Keeper counts.
type Counts struct {
	Tries      atomic.Uint64 // scripts that take something
	Released   atomic.Uint64 // holds that ended by an Unlock that Redis answered
	Unreleased atomic.Uint64 // calls of Unlock whose outcome is not known
	Lost       [renewal.Closed + 1]atomic.Uint64
}

// Keeper is what the holds of a client share, from the first script of a hold to its last.
// All methods are safe for concurrent use.
type Keeper struct {
	// immutable after New; each says itself what guards its fields
	cfg     Config
	errors  Errors
	calls   calls
	Table   *locktable.Table[*Hold]
	Network network.Network
	Orphans *orphans.Orphans
	ctx     context.Context // ends when Close gives up waiting
	cancel  context.CancelFunc

	Counts Counts

	seqs    atomic.Uint64         // the last seq: one for every outermost attempt
	turns   sync.Map              // of *Hold to the chan struct{} that is closed when it is no more busy, if somebody waits for that
	lost    backlog.Backlog[loss] // holds that are lost, to be taken out of the table
	unlocks wait.Deadlines        // of Unlock
	refused atomic.Pointer[refused]
	wg      sync.WaitGroup // what Close waits for, even if it has given up waiting for holds
}

// loss is a hold that was lost, and why.
type loss struct {
	hold *Hold
	why  renewal.Reason
}

// Seq returns a number that it has not returned before.
func (k *Keeper) Seq() uint64 { return k.seqs.Add(1) }

// Context ends when Close gives up waiting.
func (k *Keeper) Context() context.Context { return k.ctx }

// Publisher is the command that publishes a release of name, where that may be another one than
// PUBLISH, and nil elsewhere.
func (k *Keeper) Publisher(name string) any { return k.calls.publisher(name) }

// Force is the script that deletes holds of that kind, whose fields come behind the arguments.
// left is what a key is that it leaves alone.
func (k *Keeper) Force(kind Kind, name string) (call wire.Call, left string) {
	return k.calls.force(kind, name)
}

// FreezeLosses keeps those who are lost in the table until free is called. For tests.
func (k *Keeper) FreezeLosses() (free func()) { return k.lost.Freeze() }
