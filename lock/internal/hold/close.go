package hold

import "context"

// BeginClose refuses new holds, and tells the holders. Config.Closing is already closed. Call
// BeginClose once.
func (k *Keeper) BeginClose() {
	for _, h := range k.Table.Close() {
		h.announceClose()
	}
}

// Close ends the holds that are left, and all that needs a server. Until ctx ends it waits for
// acquisitions under way and for pending releases. It returns how many of these were not answered. It
// does not wait for functions of the user; see Wait.
func (k *Keeper) Close(ctx context.Context) (unanswered int) {
	k.cfg.Watchdog.Close()
	unanswered = k.Orphans.Close(ctx)
	k.cancel()
	k.Network.Close(k.cfg.Closed)
	return unanswered
}

// Wait returns after Close when no goroutine of the holds runs. One that takes a member of a
// RedLock again calls hooks.
func (k *Keeper) Wait() {
	k.wg.Wait()
	k.Table.Wait()
	k.lost.Drain()
}

// Settle returns when the holds that were lost so far are no longer in the table.
func (k *Keeper) Settle() { k.lost.Drain() }

// Begin begins work on the lock of that name. Close waits for that work, even if it no longer
// waits for holds. Begin returns nil if the client is closing. The caller must call end.
func (k *Keeper) Begin(name string) (end func()) {
	if !k.Table.Begin(name, true) {
		return nil
	}
	k.wg.Add(1)
	return func() {
		k.Table.End(name)
		k.wg.Done()
	}
}
