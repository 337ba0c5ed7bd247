package lock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Every condition has one sentinel. An error type with details matches its
// sentinel by errors.Is. ErrNotAcquired, ErrNotHeld, ErrLost and ErrNotSent are
// definite, because Redis, the clock or the client knows. ErrUnknown is not
// definite, because Redis may have carried out the request.
var (
	// ErrNotAcquired is returned when another owner holds the lock.
	ErrNotAcquired = errors.New("lock: not acquired")
	// ErrNotHeld is returned when the Held was already unlocked, or when a
	// permit is not taken (PermitIDError).
	ErrNotHeld = errors.New("lock: not held")
	// ErrLost is returned when the lock was lost, which means that the hold
	// ended in another way than by Unlock.
	ErrLost = errors.New("lock: lost")
	// ErrUnknown is returned when Redis did not answer, so the client does not
	// know what Redis did. ErrUnknown is also returned when Redis answered that
	// it is in a state that should pass, such as LOADING, MISCONF, NOREPLICAS or
	// a hash slot that is being moved. In such a state Redis has done nothing,
	// and Lock tries again until its context ends.
	ErrUnknown = errors.New("lock: outcome unknown")
	// ErrNotSent is returned when the client has no connection to Redis, so the
	// request was not sent and nothing was done. It unwraps to the cause. Lock
	// tries again until its context ends. A release that was not sent is
	// ErrUnknown, because the client keeps trying.
	ErrNotSent = errors.New("lock: not sent")
	// ErrClosed is returned when the Client is closed. If Redis may still carry
	// out what was asked, because Close gave up before the answer came, the error
	// is ErrUnknown too (errors.Is).
	ErrClosed = errors.New("lock: client is closed")
	// ErrNotALock is returned when the key, or a key that belongs to it, exists
	// but has another type or other values than a lock's key. The call leaves
	// the key as it is. A string with a TTL is the lock of another library. Only
	// ForceUnlock returns ErrNotALock for it; see HeldError.Foreign.
	ErrNotALock = errors.New("lock: the key is not a lock")
	// ErrNotReplicated is returned when fewer replicas than Config.Replicas
	// have the lock. The client has then released the lock again.
	ErrNotReplicated = errors.New("lock: not replicated")
	// ErrUpgrade is returned when an owner that holds the lock for reading also
	// wants to write. The owner would wait for itself.
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

// onOneLine is the text of err, which may be several errors joined, or nil. Redis 6.0 ends some
// errors of scripts with a line end.
func onOneLine(err error) string {
	lines := strings.FieldsFunc(fmt.Sprint(err), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}

// namedSentinel is a sentinel with the name of the lock and what to do.
type namedSentinel struct {
	sentinel error
	name     string
	happened string
	advice   string
}

func (e *namedSentinel) Error() string { return textOf(e) }
func (e *namedSentinel) Unwrap() error { return e.sentinel }
func (e *namedSentinel) what() string  { return fmt.Sprintf("%q: %s", e.name, e.happened) }
func (e *namedSentinel) hint() string  { return e.advice }

// closedError is ErrClosed with the name of the lock.
func closedError(name string) error {
	return &namedSentinel{ErrClosed, name, "the client is closed", "make a new client"}
}

// notHeldError is ErrNotHeld with the name of the lock.
func notHeldError(name string) error {
	return &namedSentinel{ErrNotHeld, name, "this Held was already unlocked", "call Unlock once per Lock, and do not use the Held afterwards"}
}

// HeldError says that another owner holds the lock. errors.Is(err,
// ErrNotAcquired) is true.
type HeldError struct {
	Name string
	TTL  time.Duration // the rest of the holder's lease, which is no forecast: a live holder renews it or unlocks; -1 if the key has no TTL
	// Foreign reports that the key is a string with a TTL. Such a key is the
	// lock of another library (redsync, redislock), or was made by SET NX PX.
	Foreign bool
	// Own reports that another owner of the same client holds the lock. It is
	// false for the Reader and the Writer of a RWMutex.
	Own bool
	// OthersWait says that Redis was not asked, because other calls of this client
	// wait for the lock, or the client itself holds it. TTL is then what the client
	// knows of the lease, and 0 if it knows nothing.
	OthersWait bool
}

func (e *HeldError) Error() string { return textOf(e) }

func (e *HeldError) what() string {
	holder := "by another owner"
	switch {
	case e.Foreign:
		holder = "through another library (a string with a TTL)"
	case e.Own:
		holder = "by another owner of this client"
	}
	if ttl := e.TTL.Round(time.Millisecond); ttl > 0 {
		holder += fmt.Sprintf(", its lease has %v left", ttl)
	} else if e.TTL == -1 {
		holder += ", its key has no TTL"
	}
	return fmt.Sprintf("%q is held %s", e.Name, holder)
}

func (e *HeldError) hint() string { return e.advice(tryLater) }

func (e *HeldError) adviceAfterWait() string { return e.advice(moreTime) }

// advice returns wait, which is to try again or to wait longer, or what is better than that.
func (e *HeldError) advice(wait string) string {
	switch {
	case e.Own:
		return reenter + ", else " + wait
	case e.TTL == -1:
		return "if its holder is gone, only ForceUnlock frees it"
	}
	return wait
}

const (
	// tryLater is what to do about a lock that is held.
	tryLater = "try again later, or give Lock time to wait"
	// moreTime is what to do about it after a wait.
	moreTime = "give Lock more time"
	// reenter is what a caller must do that waits for itself. Only the caller can know that.
	reenter = "if the caller itself holds the lock, re-enter it by Lock(held.Context(ctx))"
)

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
	return "check that the replicas are connected, or set a longer Config.ReplicaTimeout"
}

// Is makes errors.Is(err, ErrNotReplicated) true.
func (e *ReplicationError) Is(target error) bool { return target == ErrNotReplicated }

// Reason says why a lock was lost. It is the Reason of package renewal, whose
// watchdog finds most losses. String returns a text for logs. JSON has the same
// text.
type Reason = renewal.Reason

// The reasons for a loss.
const (
	// NotOwner: the key was deleted, or another owner has the lock.
	NotOwner = renewal.NotOwner
	// TrustEnded: no renewal was confirmed in time, although this process ran.
	TrustEnded = renewal.TrustEnded
	// MaxHold: the time of Config.MaxHold has passed.
	MaxHold = renewal.MaxHold
	// Expired: the lease of LockFor or TryLockFor has ended.
	Expired = renewal.Expired
	// Closed: the Client is closing or closed.
	Closed = renewal.Closed
	// Suspended: this process stood still, because it was stopped (SIGSTOP) or its
	// machine was suspended, until it was too late to renew the lock. On systems
	// other than Linux, a clock that was set forward looks the same.
	Suspended = renewal.Suspended
)

// LostError says that a lock was lost, and why. errors.Is(err, ErrLost) is
// true.
type LostError struct {
	Name   string
	Reason Reason
	Token  int64 // the fencing token of the lost hold
	// Err is the last error, a redis.Error, with which the lock's server answered
	// a renewal. It is nil if the reason is not TrustEnded, or if the server gave
	// no such answer within the last lease.
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
	const stop = "stop the work that needs the lock, "
	switch e.Reason {
	case NotOwner:
		return stop + "because another owner may have it"
	case TrustEnded:
		switch {
		case e.Err == nil:
			return stop + "and check that Redis answers"
		case pipe.RefusesWrites(e.Err):
			return stop + "and " + stateAdvice(e.Err)
		}
		return stop + "and fix what Redis complains about"
	case MaxHold:
		return stop + "or set a longer Config.MaxHold"
	case Expired:
		return stop + "or use Lock, which renews the lease"
	case Closed:
		return stop + "and unlock"
	case Suspended:
		return stop + "because another owner may have it since"
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
	Op   string // what was asked of Redis, such as acquire, reenter, release or inspect
	Name string
	Err  error
}

func (e *UnknownError) Error() string { return textOf(e) }

func (e *UnknownError) what() string {
	outcome := "outcome unknown"
	switch {
	case pipe.SlotMoves(e.Err):
		outcome = "its hash slot is being moved"
	case pipe.KeysApart(e.Err): // the script may have run in part
		outcome += ", because its hash slot is being moved"
	}
	return fmt.Sprintf("%s of %q: %s: %s", e.Op, e.Name, outcome, causeOf(e.Err))
}

// causeOf is the text of the error for which there is no answer.
func causeOf(err error) string {
	return silences.ReplaceAllString(whatOf(err), "no answer in time")
}

// silences matches the texts of all limits that can end the wait for an answer. To the user they
// are one thing, so they get one text.
var silences = regexp.MustCompile(`((read|write) \S+ \S+: )?i/o timeout|context deadline exceeded|no answer within Config.IOTimeout`)

func (e *UnknownError) hint() string {
	if stopped := (stoppedError{}); errors.As(e.Err, &stopped) {
		return "the client has stopped trying, so look whether it was done before you try again"
	}
	if pipe.RefusesWrites(e.Err) {
		return stateAdvice(e.Err) + ", then try again"
	}
	if errors.Is(e.Err, ErrClosed) {
		return "the client was closed before Redis answered, so look with another client whether it was done, and give Close more time"
	}
	const arrived = "try again when the slot has arrived"
	switch moves := pipe.SlotMoves(e.Err); e.Op {
	case "acquire", "drain":
		switch {
		case moves:
			return "this request took nothing, so " + arrived
		case pipe.NotRun(e.Err):
			return "this request took nothing, so try again"
		}
		return "try again; the client releases what this request may have taken"
	case "reenter", "extend", "force", "inspect", "wait", "lease", "ttl", "uptime":
		if moves {
			return arrived
		}
		return "try again"
	case "release", "handoff", "set permits", "add permits", "set lease", "set count", "count down", "reset", "delete", "expire":
		return "the client keeps trying"
	case "guard":
		if moves {
			return "the command was not run, so " + arrived
		}
		if pipe.NotRun(e.Err) {
			return "the command has changed nothing, so try again"
		}
		return "the command may have run, so check its effect before you try again"
	}
	return ""
}

// NotSentError says what was not sent to Redis, and why. errors.Is(err,
// ErrNotSent) is true, and it unwraps to the cause.
type NotSentError struct {
	Op   string // acquire, drain, reenter, guard or force
	Name string
	Err  error
}

func (e *NotSentError) Error() string { return textOf(e) }
func (e *NotSentError) hint() string  { return "check that Redis can be reached, then try again" }

func (e *NotSentError) what() string {
	return fmt.Sprintf("%s of %q: not sent: %s", e.Op, e.Name, causeOf(e.Err))
}

func (e *NotSentError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNotSent) true.
func (e *NotSentError) Is(target error) bool { return target == ErrNotSent }

// gotNoAnswer reports whether err says that Redis did not answer, or was not asked, so that another
// try may succeed.
func gotNoAnswer(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotSent) || hold.IsBusy(err)
}

// Is makes errors.Is(err, ErrUnknown) true.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

func (e *UnknownError) Unwrap() error { return e.Err }

// waitError is the error of a wait that its context ended. It has ctx.Err(),
// the cause, and the error of the last try (ErrNotAcquired, ErrUnknown,
// ErrNotSent or none of them).
type waitError struct {
	name string
	errs []error
}

// newWaitError is the error of a wait that ctx ended. last is the error of the
// last try, or nil.
func newWaitError(ctx context.Context, name string, last error) error {
	errs := endsOf(wait.Sound(ctx))
	if last != nil {
		errs = append(errs, last)
	}
	return &waitError{name: name, errs: errs}
}

// endsOf returns the error of a context that has ended, and its cause if that is another one.
func endsOf(ctx context.Context) []error {
	errs := []error{ctx.Err()}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		errs = append(errs, cause)
	}
	return errs
}

func (e *waitError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = strings.TrimPrefix(onOneLine(err), "lock: ")
		if last, ok := err.(interface{ adviceAfterWait() string }); ok {
			texts[i] = whatOf(err) + ": " + last.adviceAfterWait()
		}
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
	// A guarded command has keys of its own, which are not locks.
	return target == ErrNotALock && e.op != "guard" && pipe.WrongType(e.said)
}

func redisError(op, name string, err error) error {
	e := &refusedError{op: op, name: name, said: err, advice: "fix the cause, because retrying will not help"}
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(err.Error(), word) })
	}
	switch {
	case op == "guard" && pipe.WrongType(err):
		e.advice = "give the command keys of the type that it needs"
	case pipe.WrongType(err):
		e.advice = otherName + "; a string is another library's lock only if it has a TTL"
	case says("NOAUTH", "WRONGPASS", "invalid password"):
		e.advice = logIn
	case says("NOPERM", "ACL failure", "can't run this command", "can't access at least one"):
		e.advice = "give the user the rights that lock/SERVERS.md lists"
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
const logIn = "log in: give the password in the URL (redis://:password@host, redis://user:password@host), or in the dial options of the pool " +
	"or the Topology (redis.DialPassword, redis.DialUsername)"

// otherName is the advice about a key that is ErrNotALock.
const otherName = "use another name, or a Config.KeyPrefix"

// clusterError is the error of a client that uses a node of a Cluster as its
// only server. The error returns until the configuration is changed.
func clusterError(op, name string, err error) error {
	return &refusedError{op: op, name: name, said: err, advice: "the server is a node of a Redis Cluster, so give a Topology of " +
		"package lock/cluster to lock.NewTopology; if this server has all slots, you can instead set a Config.KeyPrefix with a hash tag, " +
		"such as \"{app}:\", so that locks and their tokens share a slot"}
}
