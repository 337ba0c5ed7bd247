package pipe

import "github.com/wheellock/wheellock/lock/script"

// acquires reports whether s takes something for a hold.
func acquires(s *script.Script) bool {
	switch s {
	case script.Acquire, script.FairTake, script.RwRead, script.RwWrite, script.PermitTake:
		return true
	}
	return false
}

// tookLock reports whether the answer of such a script says yes.
func tookLock(reply any) bool {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return false
	}
	n, _ := values[0].(int64)
	return n > 0
}

// concludes reports whether s deletes a lock because of keys that are not there,
// beside those that it names. Where a slot is just being moved to they may not
// have arrived, so s waits until the slot has.
func concludes(s *script.Script) bool {
	return s == script.RwReadRelease || s == script.RwWriteRelease
}

// publishes reports whether s answers {a number, the error} in the place of the
// number when Redis refuses its message.
func publishes(s *script.Script) bool {
	switch s {
	case script.FairForce, script.FairRelease, script.Force, script.LatchDown,
		script.LatchReset, script.LatchSet, script.PermitFree, script.PermitRelease, script.PermitSet,
		script.Release, script.RwForce, script.RwReadRelease, script.RwWithdraw,
		script.RwWriteRelease, script.SemaphoreAdd, script.SemaphoreRelease, script.SemaphoreSet,
		script.SemaphoreUndo:
		return true
	}
	return false
}

// unpublished takes the refusal of its message off the answer of a script that
// publishes.
func unpublished(s *script.Script, reply any) (number any, refusal string, refused bool) {
	pair, ok := reply.([]any)
	if !ok || len(pair) != 2 {
		return reply, "", false
	}
	text, ok := pair[1].([]byte)
	if !ok || !publishes(s) {
		return reply, "", false
	}
	return pair[0], string(text), true
}
