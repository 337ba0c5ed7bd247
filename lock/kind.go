package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// kind says what sort of object a hold is one of. What that means say its rules.
type kind uint8

const (
	mutexKind  kind = iota
	fencedKind      // a mutex whose tokens come from a counter of its own
	fairKind        // a mutex with a queue in Redis
	readKind        // a RWMutex held for reading
	writeKind       // a RWMutex held for writing
	permitKind      // permits of a PermitSemaphore, see permitIDs
)

// rules are what kinds differ in. Every kind has one value of them, which has no
// state.
type rules interface {
	// release gives a whole hold back. One count alone is given back by a re-entry, which
	// has a time limit.
	release(s *scripts, name, field string) wire.Call
	// reenter sets the count of a hold, which must be there, and its least lease.
	reenter(h *hold, count int32, lease time.Duration) wire.Call
	// class says which script renews the holds, and key where their fields stand.
	class() carrier.Class
	key(name string) string
	// orphanOutlived leaves the field of a hold that its time has ended to the
	// orphans, if the key may live on with another hold's lease.
	orphanOutlived(h *hold, why Reason)
}

// mutexRules are those of the kinds that a Mutex is of.
type mutexRules interface {
	rules
	// take takes the lock, or waits for it if the caller does.
	take(ctx context.Context, a *attempt) (*Held, error)
	// acquire is the script that takes the lock, but for the fields that are owed.
	acquire(a *attempt, field string) wire.Call
	// channel is where waiters are told of a release.
	channel(name string) string
	// force deletes holds, whose fields come behind the arguments. left is what a
	// key is that it leaves alone.
	force(s *scripts, name string) (cmd wire.Call, left string)
}

// rules returns the rules of a kind.
func (k kind) rules() rules {
	switch k {
	case mutexKind, fencedKind:
		return mutexes{}
	case fairKind:
		return fairMutexes{}
	case readKind:
		return readers{}
	case writeKind:
		return writers{}
	}
	return permits{}
}

// exclusive kinds have one hold a name, found by the name.
func (k kind) exclusive() bool { return k.mode() == locktable.Exclusive }

// mode says with whom a hold shares its name.
func (k kind) mode() locktable.Mode {
	switch k {
	case readKind:
		return locktable.Reading
	case writeKind:
		return locktable.Writing
	case permitKind:
		return locktable.Permit
	}
	return locktable.Exclusive
}

// family are the kinds whose holds are fields of one key in the same form, so that the
// scripts of one may remove fields of the other.
func (k kind) family() orphans.Family {
	switch k {
	case readKind, writeKind:
		return familyRW
	case permitKind:
		return familyPermits
	}
	return familyExclusive
}

const (
	familyExclusive orphans.Family = iota
	familyRW
	familyPermits
)
