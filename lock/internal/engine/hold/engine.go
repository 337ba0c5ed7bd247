package hold

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// Config has what a client's holds need from the client. Fields with a name of lock.Config mean
// the same as there.
type Config struct {
	ID string // of the client: the first part of every hash field

	Lease, IOTimeout, UnlockTimeout, MaxPoll time.Duration
	Replicas                                 int
	ReadersFirst, FailFast, DropForgotten    bool

	Traits   topology.Traits // none of a pool
	Counters keys.Counters   // of tokens
	Servers  servers.Config  // of its Network, without Opened and Moved

	Watchdog *renewal.Watchdog // Close of the Engine closes it
	Random   *rand.Rand        // safe for concurrent use
	Closing  <-chan struct{}   // closed when Close began
	Closed   error             // of requests that the end of the client cuts off
	Labeler  *work.Labeler     // its goroutines
	Logger   *record.Logger
	Errors   Errors
	Observer Observer
	// Advice returns what to do about a server that refuses to renew, or "" if the refusal ends
	// by itself.
	Advice func(refusal error) string
}

// Observer is told what happens to holds. Its methods must not panic.
type Observer interface {
	// Released is called with the result of the last Unlock of h, on the goroutine of that
	// Unlock.
	Released(ctx context.Context, h *Hold, err error)
	// Lost is called when h was lost, and err says why. It must not block.
	Lost(h *Hold, err error)
}

// Errors makes the errors for users.
type Errors interface {
	// Of returns the error of a call with ctx about the lock of that name. It is nil if o says that
	// the call has what it wanted.
	Of(ctx context.Context, name string, o wire.Outcome) error
	// NotHeld returns the error of a Held that was unlocked before.
	NotHeld(name string) error
	// Lost returns the error of a hold that was lost. refusal is the error with which its server
	// last refused a renewal, or nil.
	Lost(name string, why renewal.Reason, token int64, refusal error) error
}

// Counts has the counters of an Engine.
type Counts struct {
	Tries      atomic.Uint64 // scripts that take something
	Signs      atomic.Uint64 // requests for signs of life that were not answered
	Released   atomic.Uint64 // holds that ended by an Unlock that returned nil
	Unreleased atomic.Uint64 // calls of Unlock whose outcome is not known
	Lost       [renewal.Suspended + 1]atomic.Uint64
}

// Engine has what the holds of a client share, from the first script of a hold to its last.
// All methods are safe for concurrent use.
type Engine struct {
	// immutable after New; each says itself what guards its fields
	cfg     Config
	errors  Errors
	Table   *locktable.Table[*Hold]
	Network network.Network
	Orphans *orphans.Orphans
	ctx     context.Context // ends when Close gives up waiting
	cancel  context.CancelFunc

	Counts Counts

	seqs      atomic.Uint64 // the last seq: one for every outermost attempt
	fair      fairLines     // of the waiters for FairMutexes
	followers followers
	turns     sync.Map           // from *Hold to a chan struct{} that is closed when it is not busy, if a call waits
	lost      work.Backlog[loss] // holds that are lost, to be taken out of the table
	unlocks   wait.Deadlines     // of Unlock
	asked     atomic.Int64       // when longWait last asked, as Table.Now says; 0: never
	wg        sync.WaitGroup     // what Close waits for, even if it has given up waiting for holds
}

// loss is a hold that was lost, with the reason.
type loss struct {
	hold *Hold
	why  renewal.Reason
}

// Seq returns a number that it has not returned before.
func (k *Engine) Seq() uint64 { return k.seqs.Add(1) }

// Context ends when Close gives up waiting.
func (k *Engine) Context() context.Context { return k.ctx }

// FreezeLosses keeps lost holds in the table until free is called. It is for tests.
func (k *Engine) FreezeLosses() (free func()) { return k.lost.Freeze() }
