package hold

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

const (
	askEach   = time.Minute // a client asks who holds a lock at most once in that time
	maxHolder = 256         // bytes of a holder's field in the log: ours are shorter
)

// longWait warns about a call that waits long for a lock of another owner, and says who the
// owner is. The goroutine of the call asks. Its next try is due only later, so at most one round
// trip after a release is lost, once in a minute.
func (k *Engine) longWait(ctx context.Context, name string, waited time.Duration) {
	now, last := int64(k.Table.Now()), k.asked.Load()
	if !k.cfg.Logger.WouldLog(record.WaitsForOther) || last != 0 && time.Duration(now-last) < askEach || !k.asked.CompareAndSwap(last, now) {
		return
	}
	a := k.Network.Send(ctx, name, wire.Inspect(name), nil)
	key, ok := wire.ReadKey(a.Reply.Any())
	if wait.Ended(ctx) != nil || ok && !key.There { // it is free now
		return
	}
	holder := "" // stays empty if this user may not ask
	if holders := key.Holders(); len(holders) > 0 {
		holder = holders[0][:min(len(holders[0]), maxHolder)]
	}
	k.cfg.Logger.Log(record.WaitsForOther, name, waited.Truncate(time.Second), holder, owner.Label(holder))
}
