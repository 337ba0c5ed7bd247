package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// One sentinel a condition; carriers of detail answer errors.Is with it.
// ErrNotAcquired, ErrNotHeld and ErrLost are definite: Redis, or the clock,
// said so. ErrUnknown is not: a request was, or may have been, carried out.
var (
	// ErrNotAcquired: somebody else holds the lock.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrNotHeld: this Held was already unlocked.
	ErrNotHeld = errors.New("lock: not held")
	// ErrLost: the lock was held and is no longer, other than by Unlock.
	ErrLost = errors.New("lock: lost")
	// ErrUnknown: Redis did not answer, so it is not known what it did.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrClosed: the Client is closed.
	ErrClosed = errors.New("lock: client is closed")
)

// refusal is a sentinel with the lock that it is about, and what to do.
type refusal struct {
	sentinel error
	text     string
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.sentinel }

// closedError is ErrClosed of a call for that lock.
func closedError(name string) error {
	return &refusal{ErrClosed, fmt.Sprintf("lock: %q: the client is closed: use one that is not", name)}
}

// notHeldError is ErrNotHeld of a call of a Held of that lock.
func notHeldError(name string) error {
	return &refusal{ErrNotHeld, fmt.Sprintf("lock: %q: this Held is unlocked already: use each Held once", name)}
}

// HeldError says that another owner holds the lock. It is ErrNotAcquired.
type HeldError struct {
	Name string
	TTL  time.Duration // what was left of the holder's lease; -1 if the key has no TTL
	// Foreign: the key is a string with a TTL, the lock of another library, as
	// redsync, redislock and SET NX PX make it.
	Foreign bool
}

func (e *HeldError) Error() string {
	if e.Foreign {
		return fmt.Sprintf("lock: %q is held through another library (a string with a TTL) for up to %v", e.Name, e.TTL)
	}
	return fmt.Sprintf("lock: %q is held by another owner for up to %v", e.Name, e.TTL)
}

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// ErrNotReplicated: fewer replicas than Config.Replicas have the lock, so it was
// given back.
var ErrNotReplicated = errors.New("lock: not replicated")

// ReplicationError says how many replicas have an acquisition. It is
// ErrNotReplicated.
type ReplicationError struct {
	Name         string
	Wanted       int // Config.Replicas
	Acknowledged int // within Config.ReplicaTimeout
}

func (e *ReplicationError) Error() string {
	return fmt.Sprintf("lock: %q was given back: %d replicas of %d wanted have it", e.Name, e.Acknowledged, e.Wanted)
}

// Is makes errors.Is(err, ErrNotReplicated) true.
func (e *ReplicationError) Is(target error) bool { return target == ErrNotReplicated }

// Reason says why a lock was lost.
type Reason uint8

const (
	// NotOwner: the key was deleted, forced, or is another's.
	NotOwner Reason = iota + 1
	// TrustEnded: no renewal was acknowledged in time.
	TrustEnded
	// MaxHold: Config.MaxHold is over.
	MaxHold
	// Expired: the lease of LockFor or TryLockFor is over.
	Expired
	// Closed: the Client is closing or closed.
	Closed
)

func (r Reason) String() string {
	switch r {
	case NotOwner:
		return "not the owner any more"
	case TrustEnded:
		return "no renewal was acknowledged in time"
	case MaxHold:
		return "the longest hold is over"
	case Expired:
		return "the lease is over"
	case Closed:
		return "the client is closed"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// LostError says that a lock was lost, and why. It is ErrLost.
type LostError struct {
	Name   string
	Reason Reason
	Token  int64 // the fencing token of the lost hold
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock: %q is lost: %v", e.Name, e.Reason)
}

// Is makes errors.Is(err, ErrLost) true, and ErrClosed if that is the reason.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == Closed
}

// UnknownError says what was tried and why its outcome is not known. It is
// ErrUnknown and unwraps to the cause.
type UnknownError struct {
	Op   string // acquire, reenter, release
	Name string
	Err  error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("lock: %s of %q: outcome unknown: %v", e.Op, e.Name, e.Err)
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

func (e *UnknownError) Unwrap() error { return e.Err }

// waitError is how a wait ends with its context: it is ctx.Err() and the
// cause, and what the last try said (ErrNotAcquired, ErrUnknown or neither).
type waitError struct {
	name string
	errs []error
}

// newWaitError is how a wait that ctx ended is reported; last is what the last
// try said, or nil.
func newWaitError(ctx context.Context, name string, last error) error {
	errs := []error{ctx.Err()}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		errs = append(errs, cause)
	}
	if last != nil {
		errs = append(errs, last)
	}
	return &waitError{name: name, errs: errs}
}

func (e *waitError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("lock: waiting for %q: %s", e.name, strings.Join(texts, ": "))
}

func (e *waitError) Unwrap() []error { return e.errs }

// redisError is a definite no of Redis itself, like NOPERM.
func redisError(op, name string, err error) error {
	// A guarded command has keys of its own, which are no locks.
	if op != "guard" && pipe.WrongType(err) {
		return fmt.Errorf("lock: %s of %q: Redis refused: %w (%w)", op, name, err, ErrNotALock)
	}
	return fmt.Errorf("lock: %s of %q: Redis refused: %w", op, name, err)
}

// clusterError is what a node of a Cluster says to a client that takes it for the
// only server. It does not change by itself.
func clusterError(op, name string, err error) error {
	return fmt.Errorf("lock: %s of %q: Redis refused: %w (the server is a node of a Redis Cluster: give a Topology of "+
		"package lock/cluster to lock.NewTopology or, if this server has all slots, Config.KeyPrefix %q, so that locks and their tokens share a slot)",
		op, name, err, "{"+keys.Counter+"}:")
}
