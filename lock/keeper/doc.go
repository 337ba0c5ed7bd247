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
//	err = k.Want("device:1", "device:2") // at any time
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
//   - A name that is given up is released after Taken and Ended have returned (P42).
//     So the next holder begins when this one has finished.
//   - A name that is lost while it is wanted is asked for again at once, or a
//     second later if it was lost within a second.
//   - A name that another owner releases is asked for when the message comes, which
//     is at once (P43). All names of a server share one connection for messages.
//   - A name whose holder has died is looked at when the holder's lease ends, or up to
//     200 ms later, and asked for if it is free. 50,000 names that another process
//     kept cost the client 0.7 % of a core (bench/BENCHMARKS.md).
//   - A look asks Redis how long the key of a name still lives, for up to 512 names
//     at a time. A name is looked at when the lease ends that the last look found, and
//     after Config.Look at the latest; four times as long, while its messages come. A
//     lock of another library, such as redsync, publishes none. If the last try found
//     one, its name is looked at after Config.Look.
//   - At most Config.AtOnce tries are under way, and at most Config.PerSecond, or a
//     twentieth more, begin in a second. When 8 tries have failed in a row, all names
//     share one probe at a time (P44), with pauses that grow from 100 ms to 5 s, more
//     or less a quarter. Before a name shares the probe, it is looked at. If its server
//     answers that it is free, or tells its release, it is tried at once. So a dead
//     server of a Cluster does not hold up the names of the others. If that try fails
//     too, because the server refuses writes, the name waits for the probe.
//   - Close gives all names back, and returns when its context ends.
//   - A name that waits has no goroutine and no time.Timer.
//
// # What it does not promise
//
// A message can be lost, when the connection fails or the server stops. The Keeper
// looks at all names when it listens again. If it cannot listen, a release is noticed
// at the next look.
//
// Config.Most is a bound and not a share. If all processes together may keep fewer
// names than there are, some names are kept by no process. If they may keep more, the
// processes that came first have more. Config.Share is a share.
//
// A server that fails holds up names of other servers of a Cluster too. A try that
// gets no answer takes one of AtOnce places for an IOTimeout of the client, and
// a batch of releases waits for the server for up to two UnlockTimeouts.
//
// When Redis has lost its data, another Keeper may take a name before this one
// learns at the next renewal, within a third of the lease, that it is lost.
//
// After SIGSTOP a process may believe for a moment that it keeps a lock which
// another one has; see lock.Held.Valid.
//
// # A fair share
//
// Keepers with the same Config.Share count each other, without a coordinator. Each
// keeps at most ceil(names / n). When one joins, the others give up their surplus
// within a Look, and the new one takes these names at once, or when the functions
// of the others have returned. When one closes, the others take its names at once. When one dies, they
// do so a Look after its lease has ended.
//
// It is not promised that all parts are equal: of 10 names, four Keepers have 3, 3, 3
// and 1. All Keepers must want the same names. Which names a Keeper has, and which
// it gives up, is left to chance. When Redis has lost its data, some may keep more
// than their part until all are counted again. While a server does not answer, the
// parts stay as they were. At most 64 Keepers can share.
//
// # Why two functions
//
// The alternative was one function Keep(ctx, name, held), which ends a hold when it
// returns. Three programs decided, which are the examples. The sessions of 50,000
// devices have nothing that runs, so Keep would be 50,000 goroutines that wait. The
// shards of a queue and a leader have a loop, which may run in Taken for as long as
// ctx, without Ended.
//
// # States of a name
//
//	        Want            next           granted
//	gone ─────────▶ ready ─────────▶ asking ─────────▶ kept
//	 ▲               ▲  ▲  ▲           │                │  lost, Drop, SetMost
//	 │ Drop          │  │  │           │ refused,       ▼
//	 ├───────────────┤  │  └───────────┼───────────── ending
//	 │          free │  │ a release    │ failed
//	 │               │  │ is heard     ▼
//	 ├─────────── looking ◀── due ◀── resting
//	 │               │         timer,   ▲
//	 │               │         missed   │
//	 │               └──────────────────┘
//	 │                  held by another
//	 └── from due and resting too
//
// A name that is dropped while it is asked for goes to ending if the try takes the
// lock, and else to gone. Want during ending leads back to ready.
//
// # Goroutines and locks
//
// A Keeper has a wheel and a lock.Releases, whose goroutines Close ends. Each try has
// a goroutine, and so has each call of Taken or Ended. One releases locks while there
// are any to release, and one looks at names while any are due. Keeper.mu guards all
// names. It is not held during I/O or while a function of Config runs.
package keeper
