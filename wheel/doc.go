// Package wheel is a hashed timing wheel: very many timers, most of which are stopped or moved before they
// fire, driven by one goroutine. It is the scheme of Varghese and Lauck ("Hashed and Hierarchical Timing
// Wheels", SOSP 1987) and does what Netty's HashedWheelTimer does; see the table at the end.
//
// A [Timer] is a field of the caller's own record, so a pending timer costs no allocation and 16 bytes
// beside itself. [Wheel.Schedule] arms it, [Timer.Stop] and [Timer.Reset] act at once, [Timer.Next] makes it
// periodic without drift, and a [Group] delivers timers in batches that can be re-armed by one call.
//
// # What it promises
//
//   - A timer never fires early. It fires at the first tick (a multiple of Config.Tick after New) that is not
//     before its deadline, so it is late by less than a tick and what the scheduler adds; by a whole tick only if it
//     was due at the very tick being processed. Delays of zero or less mean now; those beyond the clock's range never come.
//   - Each arming ends exactly once: claimed by the driver just before its callback, stopped, or returned
//     by [Wheel.Stop]. Stop succeeds until the claim, also for a timer due in the same tick as the callback
//     that calls it. After Stop returned true, the wheel holds no reference to the timer or its task.
//   - A timer re-armed in its own callback does not run again in the same tick.
//   - No goroutine before the first timer that can fire, no wake-up when nothing is due; at most one for each
//     deadline that was stopped or moved.
//   - After a stall every due timer fires once, those of the last revolution in the order of their ticks; that costs
//     at most two visits to each bucket, however long the stall.
//   - A callback that panics or calls runtime.Goexit delays no other timer. It is told to Config.OnError.
//   - Wheel.Stop waits for nothing, so it may be called anywhere; [Wheel.Done] says when all has ended.
//
// # What it does not
//
//   - It has no order within a tick.
//   - It is no sharper than a tick: timers that must be exact to a millisecond are better off with package time.
//   - It runs callbacks one after the other. What they take, others wait, unless there is a Config.Executor.
//   - It sleeps while the machine is suspended, as Go's monotonic clock does.
//   - A wheel that had a timer is not collected until it is stopped.
//
// # States of a timer
//
//	          Schedule              the driver collects it
//	Idle ───────────────▶ Pending ───────────────────────▶ (due)
//	                      ▲  │  ▲                           │ │ │
//	 Schedule, Reset, Next│  │  └───────── Reset, Next ─────┘ │ │ claim
//	                      │  │ Stop, Wheel.Stop               │ ▼
//	                      ├──┼──────────────────────────────── │ Fired
//	                      │  ▼                                │
//	                      └─Stopped ◀──── Stop, Wheel.Stop ───┘
//
// A plain timer that is due is taken out of its bucket before the callbacks of its tick begin; to callers it is
// Pending until its own claim. A group's timers are claimed when they are collected, a batch at a time: nothing of
// the caller's runs between that and the call.
//
// # Goroutines and locks
//
// The wheel owns one goroutine, the driver, started by the first timer that needs it and ended by Wheel.Stop.
// If a callback ends it by runtime.Goexit, another takes its place and goes on behind that callback.
//
// Timers are spread over shards, each with its lock and its own ring of buckets. A lock guards the ring, the
// counters and all fields of the shard's timers; it is held for tens of nanoseconds by callers and for at
// most some hundred timers by the driver, never two at once, and never while a callback, a hook or the
// Executor runs. Which shard a timer is in says the timer; it changes by Schedule alone, while it is not pending, which moves
// it to shards that the calling processor uses anyway: cache lines that travel cost more than all the rest.
// Wheel.mu serializes start and stop and is held together with a shard's lock only where a group of a stopped wheel is made.
//
// The driver publishes the tick it is going to sleep to and then looks at all shards once more; who files a
// timer publishes the tick of its shard and then looks at the driver's. One of the two sees the other, so no wake-up is lost.
//
// # How it is built
//
// A bucket is a chain of chunks, each with 15 entries of deadline and *Timer side by side: following links from
// timer to timer through memory is what makes wheels slow. Each bucket keeps a lower bound of
// its deadlines, so that one with nothing due is passed over untouched, and a bitmap says which are
// occupied. Timers and chunks name chunks by number, which is smaller than a pointer and nothing to the collector.
// Removal fills the gap from the chain's first chunk. Reset to a later deadline only writes it into the timer, which is filed
// anew when its old place is visited. Empty chunks are kept for use again, no more than are in use and a few.
//
// # When something fails
//
// Config errors come from [New], all at once. A refused Schedule, Reset or Next leaves the timer as it was. A failing callback
// is reported as a [CallbackError]; its timers stay claimed. A panic in a hook or in the Executor is not recovered.
// Without hooks slog.Default gets "wheel: a callback failed" with the keys error, timers and stack, and "wheel: a
// callback was slow" with task, timers and took.
//
// # What it costs
//
// A new wheel takes some 4 KiB; each of its 16 shards, and of each group's, 16 KiB more for 1024 slots once it is used.
// A pending timer takes 40 bytes in its record and some 20 in its bucket when there are many. Schedule,
// Stop and Reset cost a clock reading at most and some tens of nanoseconds, whatever is pending. A far timer is
// looked at once a revolution if its bucket has something due then, for about 2 ns. bench/BENCHMARKS.md has measurements.
//
// # Coming from Netty
//
//	HashedWheelTimer(ThreadFactory, ...)       -  the driver is a goroutine
//	  tickDuration, ticksPerWheel              Config.Tick (any from 1 µs), Config.Slots
//	  leakDetection                            -  a wheel costs nothing before its first timer
//	  maxPendingTimeouts                       Config.MaxPending; RejectedExecutionException is ErrTooManyPending
//	  taskExecutor                             Config.Executor, which may refuse
//	start()                                    -  by the first timer
//	newTimeout(task, delay, unit)              Wheel.Schedule, of a Timer of yours, or Wheel.AfterFunc
//	stop() Set<Timeout>                        Wheel.Stop, from callbacks too; Wheel.Done waits
//	pendingTimeouts()                          Wheel.Len, exact at once; Wheel.Stats
//	Timeout.timer(), task()                    Timer.Wheel, Timer.Task
//	Timeout.isExpired(), isCancelled()         Timer.State: Fired, Stopped
//	Timeout.cancel()                           Timer.Stop
//	TimerTask.run(timeout), cancelled(timeout) Task.Fire, an optional method Cancelled
//	an exception of a task, logged             Config.OnError, by default logged
//	-                                          Timer.Reset, Timer.Next, Timer.Deadline, Wheel.Group
package wheel
