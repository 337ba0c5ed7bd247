// Package keeper keeps many locks for a long time: one for each session, device,
// shard or partition of a service.
//
// A program says which names it wants. A [Keeper] takes each name that is free,
// calls a function, takes the name again after a loss or when another process has
// ended, and gives it back when it is not wanted any more.
//
//	k, err := keeper.New(client, keeper.Config{
//		Taken: func(ctx context.Context, name string, held *lock.Held) { ... },
//		Ended: func(name string, err error) { ... },
//	})
//	k.Want("device:1", "device:2") // at any time
//	k.Drop("device:1")
//	err = k.Close(ctx)
//
// The locks are plain mutexes of lock.Client.Mutex. The client may be one for a
// server, for a master behind Sentinels or for a Cluster.
//
// # What it promises
//
//   - Taken and Ended are called in turn for each name, and never at the same time.
//   - A slow function delays no other name and no renewal.
//   - The context of Taken ends when the lock is lost, before another process can
//     have it, and when the name is given up.
//   - A name that is given up is released after Taken and Ended have returned. So the
//     next holder begins when this one has finished.
//   - A name that is lost while it is wanted is asked for again at once, or a
//     second later if it was lost within a second.
//   - A name whose holder has died is asked for when the holder's lease ends.
//   - At most Config.AtOnce tries are under way, and at most Config.PerSecond begin
//     in a second. When 8 tries have failed in a row, all names share one probe at
//     a time, with pauses that grow from 100 ms to 5 s, more or less a quarter.
//   - Close gives all names back, and returns when its context ends.
//   - A name that waits has no goroutine and no time.Timer.
//
// # What it does not promise
//
// A release by another process is noticed within Config.Look, 10 s by default,
// and not sooner. The Keeper asks for each name that another owner holds, and does
// not subscribe to releases. With the default, 50,000 such names are about 5,700
// tries per second. If that is too much, set a longer Look.
//
// Config.Most is a bound and not a share. n processes share a set evenly if each
// of them keeps at most a nth part, rounded up. The program must know n, and call
// SetMost when n has changed. If all processes together may keep fewer names than
// there are, some names are kept by nobody. If they may keep more, those that
// came first have more.
//
// A server that fails holds up names of other servers of a Cluster too. A try that
// gets no answer takes one of AtOnce places for an IOTimeout of the client, and
// a batch of releases waits for the server for up to two UnlockTimeouts.
//
// After SIGSTOP a process may believe for a moment that it keeps a lock which
// another one has; see lock.Held.Valid.
//
// # Why two functions
//
// The alternative was one function Keep(ctx, name, held), which ends a hold when it
// returns. It needs a goroutine per kept name, as long as the name is kept. Three
// programs were written with both. The sessions of 50,000 devices have nothing that
// runs, so Keep would be 50,000 goroutines that wait for ctx. The shards of a queue
// and the leader have a loop that runs. They read the same with Taken, which may
// also run as long as ctx, and with no Ended. The examples are these programs.
//
// # States of a name
//
//	        Want            next           granted
//	gone ─────────▶ ready ─────────▶ asking ─────────▶ kept
//	 ▲               ▲  ▲              │                │  lost, Drop, SetMost
//	 │ Drop     timer│  │              │ refused,       ▼
//	 ├───────────────┤  └──────────────┼───────────── ending
//	 │               │     released    │ failed
//	 └─────────── resting ◀────────────┘
//
// A name that is dropped while it is asked for goes to ending if the try takes the
// lock, and else to gone. Want during ending leads back to ready.
//
// # Goroutines and locks
//
// A Keeper has a wheel, whose goroutine Close ends. Each try has a goroutine,
// at most AtOnce. Each call of Taken or Ended has one, and one releases locks
// while there are any to release. Keeper.mu guards all names. It is not held
// during I/O or while a function of Config runs.
//
// A name takes about 200 bytes while it waits. Stats costs no I/O.
package keeper
