package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Every condition has one sentinel. The error types with details match theirs
// by errors.Is. ErrNotAcquired, ErrNotHeld and ErrLost are definite: Redis, or
// the clock, said so. ErrUnknown is not definite: the request may have been
// carried out.
var (
	// ErrNotAcquired is returned when another owner holds the lock.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrNotHeld is returned when this Held was already unlocked.
	ErrNotHeld = errors.New("lock: not held")
	// ErrLost is returned when the lock was held and was lost: it ended in
	// another way than by Unlock.
	ErrLost = errors.New("lock: lost")
	// ErrUnknown is returned when Redis did not answer, so it is not known what
	// Redis did. It is also returned when Redis answered that it is in a state
	// that should pass, as LOADING, MISCONF or NOREPLICAS say. Redis has then done
	// nothing, and Lock tries again until its context ends.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrClosed is returned when the Client is closed.
	ErrClosed = errors.New("lock: client is closed")
	// ErrNotALock is returned when the key, or a key that belongs to it, exists
	// but is not a lock's: it has another type, or ForceUnlock found other
	// values in it. The key is left as it is. A string with a TTL is
	// ErrNotALock only for ForceUnlock, see HeldError.Foreign.
	ErrNotALock = errors.New("lock: the key is no lock")
	// ErrNotReplicated is returned when fewer replicas than Config.Replicas
	// have the lock. The lock was released again.
	ErrNotReplicated = errors.New("lock: not replicated")
	// ErrUpgrade is returned when an owner that holds the lock for reading asks
	// for it for writing. It would wait for itself.
	ErrUpgrade = errors.New("lock: the owner holds the lock for reading")
)

// hinted is an error of this package that says what happened and what to do. An
// error about several locks uses the first part without the second.
type hinted interface {
	what() string // without "lock: "
	hint() string // "" if there is none
}

// textOf is the text of a hinted error.
func textOf(e hinted) string {
	text := "lock: " + e.what()
	if hint := e.hint(); hint != "" {
		text += ": " + hint
	}
	return text
}

// whatOf is the text of err on one line, without its hint.
func whatOf(err error) string {
	if e, ok := err.(hinted); ok {
		return e.what()
	}
	return strings.TrimPrefix(onOneLine(err), "lock: ")
}

// saidOf is the text of errs on one line, without their hints.
func saidOf(errs []error) string {
	said := make([]string, len(errs))
	for i, err := range errs {
		said[i] = whatOf(err)
	}
	return strings.Join(said, "; ")
}

// onOneLine is the text of err, which may be several errors joined, or nil.
func onOneLine(err error) string {
	return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ")
}

// refusal is a sentinel with the name of the lock and what to do.
type refusal struct {
	sentinel error
	name     string
	happened string
	advice   string
}

func (e *refusal) Error() string { return textOf(e) }
func (e *refusal) Unwrap() error { return e.sentinel }
func (e *refusal) what() string  { return fmt.Sprintf("%q: %s", e.name, e.happened) }
func (e *refusal) hint() string  { return e.advice }

// closedError is ErrClosed with the name of the lock.
func closedError(name string) error {
	return &refusal{ErrClosed, name, "the client is closed", "make a new one"}
}

// notHeldError is ErrNotHeld with the name of the lock.
func notHeldError(name string) error {
	return &refusal{ErrNotHeld, name, "this Held is unlocked already", "use each Held once"}
}

// HeldError says that another owner holds the lock. errors.Is(err,
// ErrNotAcquired) is true.
type HeldError struct {
	Name string
	TTL  time.Duration // what was left of the holder's lease; -1 if the key has no TTL
	// Foreign: the key is a string with a TTL. That is the lock of another
	// library, such as redsync or redislock, or of SET NX PX.
	Foreign bool
}

func (e *HeldError) Error() string { return textOf(e) }

func (e *HeldError) what() string {
	holder := "by another owner"
	if e.Foreign {
		holder = "through another library (a string with a TTL)"
	}
	if ttl := e.TTL.Round(time.Millisecond); ttl > 0 {
		holder += fmt.Sprintf(", its lease has %v left", ttl)
	} else if e.TTL == -1 {
		holder += ", its key has no TTL"
	}
	return fmt.Sprintf("%q is held %s", e.Name, holder)
}

func (e *HeldError) hint() string { return tryLater }

// tryLater is what to do about a lock that is held.
const tryLater = "try again later, or give Lock time to wait"

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// ReplicationError says how many replicas have a new lock. errors.Is(err,
// ErrNotReplicated) is true.
type ReplicationError struct {
	Name         string
	Wanted       int // Config.Replicas
	Acknowledged int // within Config.ReplicaTimeout
}

func (e *ReplicationError) Error() string { return textOf(e) }

func (e *ReplicationError) what() string {
	return fmt.Sprintf("%q was released again: %d of the %d wanted replicas have it", e.Name, e.Acknowledged, e.Wanted)
}

func (e *ReplicationError) hint() string {
	return "check that they are connected, or wait longer for them (Config.ReplicaTimeout)"
}

// Is makes errors.Is(err, ErrNotReplicated) true.
func (e *ReplicationError) Is(target error) bool { return target == ErrNotReplicated }

// Reason says why a lock was lost. It is package renewal's: the watchdog finds most losses.
// Its String is a sentence for logs, and its text in JSON.
type Reason = renewal.Reason

// The reasons of a loss.
const (
	// NotOwner: the key was deleted, or another owner has it.
	NotOwner = renewal.NotOwner
	// TrustEnded: no renewal was confirmed in time.
	TrustEnded = renewal.TrustEnded
	// MaxHold: the time of Config.MaxHold has passed.
	MaxHold = renewal.MaxHold
	// Expired: the lease of LockFor or TryLockFor has ended.
	Expired = renewal.Expired
	// Closed: the Client is closing or closed.
	Closed = renewal.Closed
)

// LostError says that a lock was lost, and why. errors.Is(err, ErrLost) is
// true.
type LostError struct {
	Name   string
	Reason Reason
	Token  int64 // the fencing token of the lost hold
	// Err is the last error that its server answered to a renewal, a redis.Error,
	// if that was within the last lease and the reason is TrustEnded; nil otherwise.
	Err error
}

func (e *LostError) Error() string { return textOf(e) }

func (e *LostError) what() string {
	if e.Err != nil {
		return fmt.Sprintf("%q is lost: %v: Redis answered %s", e.Name, e.Reason, onOneLine(e.Err))
	}
	return fmt.Sprintf("%q is lost: %v", e.Name, e.Reason)
}

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

func (e *LostError) hint() string {
	const stop = "stop the work that needs it, "
	switch e.Reason {
	case NotOwner:
		return stop + "another owner may have it"
	case TrustEnded:
		switch {
		case e.Err == nil:
			return stop + "and check that Redis answers"
		case pipe.RefusesWrites(e.Err):
			return stop + "and " + stateAdvice(e.Err)
		}
		return stop + "and correct what Redis says"
	case MaxHold:
		return stop + "or set a longer Config.MaxHold"
	case Expired:
		return stop + "or use Lock, which renews"
	case Closed:
		return stop + "and unlock"
	}
	return ""
}

// Is makes errors.Is(err, ErrLost) true, and errors.Is(err, ErrClosed) if the
// reason is Closed.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == Closed
}

// UnknownError says what was asked of Redis and why the outcome is not known.
// errors.Is(err, ErrUnknown) is true, and it unwraps to the cause.
type UnknownError struct {
	Op   string // what was asked of Redis: acquire, reenter, release, inspect
	Name string
	Err  error
}

func (e *UnknownError) Error() string { return textOf(e) }

func (e *UnknownError) what() string {
	return fmt.Sprintf("%s of %q: outcome unknown: %s", e.Op, e.Name, onOneLine(e.Err))
}

func (e *UnknownError) hint() string {
	if pipe.RefusesWrites(e.Err) {
		return stateAdvice(e.Err) + ", then try again"
	}
	switch e.Op {
	case "acquire", "drain":
		return "try again, what it may have taken is released"
	case "reenter", "extend", "force", "inspect", "wait", "lease", "ttl", "uptime":
		return "try again"
	case "release", "handoff", "set permits", "add permits", "set lease", "set count", "count down", "reset", "delete", "expire":
		return "the client goes on trying"
	case "guard":
		return "the command may have run, look before you try again"
	}
	return ""
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

func (e *UnknownError) Unwrap() error { return e.Err }

// waitError is the error of a wait that its context ended: ctx.Err(), the
// cause, and what the last try said (ErrNotAcquired, ErrUnknown or neither).
type waitError struct {
	name string
	errs []error
}

// newWaitError is the error of a wait that ctx ended. last is the error of the
// last try, or nil.
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
		texts[i] = strings.TrimPrefix(onOneLine(err), "lock: ")
	}
	return fmt.Sprintf("lock: waiting for %q: %s", e.name, strings.Join(texts, ": "))
}

func (e *waitError) Unwrap() []error { return e.errs }

// refusedError is a definite refusal by Redis itself, like NOPERM.
type refusedError struct {
	op, name string
	said     error // by Redis
	advice   string
}

func (e *refusedError) Error() string { return textOf(e) }
func (e *refusedError) hint() string  { return e.advice }

func (e *refusedError) what() string {
	return fmt.Sprintf("%s of %q: Redis refused: %s", e.op, e.name, onOneLine(e.said))
}

func (e *refusedError) Unwrap() error { return e.said }

// Is makes errors.Is(err, ErrNotALock) true if the key has the wrong type.
func (e *refusedError) Is(target error) bool {
	// A guarded command has keys of its own, which are no locks.
	return target == ErrNotALock && e.op != "guard" && pipe.WrongType(e.said)
}

func redisError(op, name string, err error) error {
	e := &refusedError{op: op, name: name, said: err, advice: "correct what it names, until then it will refuse again"}
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(err.Error(), word) })
	}
	switch {
	case op == "guard" && pipe.WrongType(err):
		e.advice = "a key of the command has another type"
	case pipe.WrongType(err):
		e.advice = otherName
	case says("NOAUTH", "WRONGPASS", "invalid password"):
		e.advice = logIn
	case says("NOPERM", "ACL failure", "can't run this command", "can't access at least one"):
		e.advice = "give its user the rights that README.md lists"
	}
	return e
}

// stateAdvice is what to do about a server that refuses to write, see pipe.RefusesWrites.
func stateAdvice(err error) string {
	if pipe.WantsReplicas(err) {
		return "connect the replicas of the server, or lower its min-replicas-to-write"
	}
	return "make the server save its data again (see its log and its disk), or set stop-writes-on-bgsave-error no"
}

// logIn is the advice where a password is missing or wrong.
const logIn = "log in: give the password in the URL (redis://:password@host, redis://user:password@host), or to what the pool or the " +
	"Topology dials with (redis.DialPassword, redis.DialUsername)"

// otherName is the advice about a key that is ErrNotALock.
const otherName = "use another name, or a Config.KeyPrefix"

// clusterError is what a node of a Cluster answers to a client that uses it as
// the only server. It stays so until the configuration is changed.
func clusterError(op, name string, err error) error {
	return &refusedError{op: op, name: name, said: err, advice: "the server is a node of a Redis Cluster, give a Topology of " +
		"package lock/cluster to lock.NewTopology or, if this server has all slots, a Config.KeyPrefix with a hash tag, such as \"{app}:\", " +
		"so that locks and their tokens share a slot"}
}
