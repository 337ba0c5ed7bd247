package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// PermitIDError says that permits with given ids are not taken. They were
// released, their lease has ended, or they belong to another semaphore. The call
// has changed nothing. errors.Is(err, ErrNotHeld) is true.
type PermitIDError struct {
	Op   string   // release, set lease, lease
	Name string   // of the semaphore
	IDs  []string // the ids that are not taken
}

func (e *PermitIDError) Error() string { return textOf(e) }

func (e *PermitIDError) what() string {
	return fmt.Sprintf("%s of %q: no such permit of this semaphore is taken: %s; nothing was changed",
		e.Op, e.Name, strings.Join(e.IDs, ", "))
}

func (e *PermitIDError) hint() string {
	if e.Op == "release" {
		return "release the other permits without these"
	}
	return "acquire a permit again"
}

// Is makes errors.Is(err, ErrNotHeld) true.
func (e *PermitIDError) Is(target error) bool { return target == ErrNotHeld }

// Release gives back the permits with the given ids, from 1 to 1000, all of them
// or none, and wakes waiters. Without ids it does nothing. Any process that knows
// the id of a permit may release it. Held.Permits of any client returns such ids,
// and so does Redisson's acquire. Release works with a cancelled ctx, because ctx
// only carries values. This is Redisson's release(permitId) and
// release(permitsIds).
//
// *PermitIDError: Release has released nothing. The error names the ids whose
// permits are not taken, including those whose lease has ended by the server's
// clock. ErrUnknown: Redis did not answer within Config.UnlockTimeout. The client
// keeps sending this request until 20 s after it was first sent. The request
// takes effect once, however late a copy arrives, because no two permits ever
// have the same id.
//
// For a permit in a Held of the same process use Unlock. If a permit of a Held is
// released by id, the holder is told (NotOwner) at its next renewal, at most a
// third of the lease later. Another process may have the permit before. A holder
// that does not renew is told only when its lease ends. The other permits of the
// Held go back with its Unlock, which returns ErrLost. Client.Close waits for this
// Unlock.
func (p *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	c, name := p.s.c, p.s.name
	texts, err := checkIDs(ids)
	if err := errors.Join(c.checkName(name), err); err != nil || len(ids) == 0 {
		return err
	}
	d := newRecorded(c, "release", name, wire.Once{
		Script: script.PermitFree, Keys: []string{keys.PermitsTaken(name)}, Args: []any{texts, time.Now().UnixMilli(), keys.SemaphoreChannel(name)},
	})
	reply, err := d.run(context.WithoutCancel(ctx), false)
	if err != nil || reply == int64(1) {
		return err
	}
	indexes, ok := reply.([]any)
	var gone []string
	for _, index := range indexes {
		i, isNumber := index.(int64)
		if !isNumber || i < 1 || i > int64(len(ids)) {
			return badReply("release", name, reply)
		}
		gone = append(gone, ids[i-1])
	}
	if !ok || len(gone) == 0 {
		return badReply("release", name, reply)
	}
	return &PermitIDError{Op: "release", Name: name, IDs: gone}
}

// SetLease makes the lease of the permit with that id end after d, later or
// earlier than before: whole milliseconds from 100 ms to 30 days. Use SetLease
// for permits that Redisson gave without a lease time to a process that has died,
// because nothing else ends them. This is Redisson's updateLeaseTime(permitId,
// leaseTime).
//
// *PermitIDError: no such permit is taken. ErrUnknown: Redis did not answer
// within Config.UnlockTimeout. The client keeps sending this request until 20 s
// after it was first sent. The request takes effect once. d counts from when Redis
// carries it out.
//
// Do not use SetLease for permits that a process renews. The next renewal gives
// such a permit a whole lease again. If the permit's lease ends before that
// renewal, another process may have the permit before its holder is told
// (NotOwner). If the end was moved to an earlier time, a waiter learns of it
// within Config.MaxPoll.
func (p *PermitSemaphore) SetLease(ctx context.Context, id string, d time.Duration) error {
	c, name := p.s.c, p.s.name
	text, err := checkID(id)
	if err := errors.Join(err, hold.CheckLease(name, d)); err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	request := newRecorded(c, "set lease", name, wire.Once{
		Script: script.PermitSetLease, Object: keys.PermitsTaken(name), Args: []any{text, now + wire.Milliseconds(d), now},
	})
	n, err := request.runForNumber(ctx, true)
	if err == nil && n != 1 {
		err = &PermitIDError{Op: "set lease", Name: name, IDs: []string{id}}
	}
	return err
}

// Lease returns the rest of the lease of the permit with that id, by this
// client's clock. It is -1 if the lease never ends, as after Redisson's acquire
// without a lease time. The answer may be out of date when Lease returns. This is
// Redisson's getLeaseTime(permitId).
//
// *PermitIDError: no such permit is taken. ErrUnknown: Redis did not answer.
func (p *PermitSemaphore) Lease(ctx context.Context, id string) (time.Duration, error) {
	c, name := p.s.c, p.s.name
	text, err := checkID(id)
	if err != nil {
		return 0, err
	}
	reply, err := c.read(ctx, "lease", name, wire.PermitDeadline(name, text))
	if err != nil {
		return 0, err
	}
	gone := &PermitIDError{Op: "lease", Name: name, IDs: []string{id}}
	if reply == nil {
		return 0, gone
	}
	score, ok := reply.([]byte)
	if !ok {
		return 0, badReply("lease", name, reply)
	}
	deadline, err := strconv.ParseFloat(string(score), 64) // 1e+17, say, or inf
	left := deadline - float64(time.Now().UnixMilli())
	switch {
	case err != nil:
		return 0, badReply("lease", name, reply)
	case left > float64(math.MaxInt64/time.Millisecond):
		return -1, nil // Redisson's "never" is 922337203685477
	case left <= 0:
		return 0, gone
	}
	return time.Duration(left) * time.Millisecond, nil
}

// checkIDs returns the ids as one text.
func checkIDs(ids []string) (string, error) {
	if len(ids) > maxPermitsAtOnce {
		return "", fmt.Errorf("lock: the number of permit ids is %d: it must be from 1 to %d", len(ids), maxPermitsAtOnce)
	}
	var all strings.Builder
	var errs []error
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		text, err := checkID(id)
		if err == nil && seen[text] {
			err = fmt.Errorf("lock: the permit id %s is given twice: give it once", id)
		}
		seen[text] = true
		errs = append(errs, err)
		all.WriteString(text)
	}
	return all.String(), errors.Join(errs...)
}

// checkID returns the id in lower case, as Redisson writes it.
func checkID(id string) (string, error) {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return "", fmt.Errorf("lock: the permit id %.50q must be 32 hexadecimal digits, as Held.Permits and Redisson give it", id)
	}
	return strings.ToLower(id), nil
}
