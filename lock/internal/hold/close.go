package hold

import "context"

// BeginClose refuses new holds, and tells those who hold something. Config.Closing is closed
// already. It is called once.
func (k *Keeper) BeginClose() {
	for _, h := range k.Table.Close() {
		h.announceClose()
	}
}

// Close ends what is held yet, and returns when no goroutine of the holds runs. Until ctx ends
// it waits for calls that nobody answers for.
func (k *Keeper) Close(ctx context.Context) {
	k.cfg.Watchdog.Close()
	k.Orphans.Close(ctx)
	k.cancel()
	k.Network.Close(k.cfg.Closed)
	k.wg.Wait()
	k.Table.Wait()
	k.lost.Drain()
}

// Settle returns when those who were lost so far are in the table no more.
func (k *Keeper) Settle() { k.lost.Drain() }

// Begin begins work at the lock of that name that Close waits for, even if it has given up
// waiting for holds. It returns nil if the client is closing. The caller calls end.
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
