// Package wheel is a hashed timing wheel. It is for very many timers, most of
// which are stopped or moved before they fire: deadlines of connections, of
// requests, of leases. One goroutine drives them all.
//
// A [Timer] is a field of your own record. [Wheel.Schedule] arms it,
// [Timer.Stop] and [Timer.Reset] act at once, [Timer.Touch] moves it only while
// it is pending, and [Timer.Next] makes it periodic without drift.
// [Wheel.AfterFunc] and [Wheel.Every] need no record.
//
// In a test with testing/synctest make the wheel inside the bubble, and stop it
// there. Time is virtual then. A wheel that was made outside says [ErrBubble].
//
//	func TestSessionExpires(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			w, _ := wheel.New(wheel.Config{}) // inside the bubble
//			defer w.Stop()
//			expired := false
//			_, _ = w.AfterFunc(time.Hour, func() { expired = true })
//			time.Sleep(time.Hour) // takes no time
//			synctest.Wait()
//			require.True(t, expired)
//		})
//	}
//
// # What it promises
//
//   - A timer never fires early. It fires at the first tick (a multiple of
//     Config.Tick after New) that is not before its deadline. So it is late by
//     less than a tick, and by what the scheduler and other callbacks add. A
//     timer that is armed for the very tick being processed is a tick late.
//   - Each arming ends exactly once. The driver claims it just before its
//     callback, or it is stopped, or [Wheel.Stop] returns it. Stop succeeds
//     until the claim, also for a timer due in the same tick as the callback
//     that calls it. After Stop returned true, the wheel holds no reference to
//     the timer or its task.
//   - A timer re-armed in its own callback does not run again in the same tick.
//   - There is no goroutine before the first timer that can fire, and no wake-up
//     when nothing is due; at most one for each deadline that was stopped or
//     moved.
//   - After a stall every due timer fires once, those of the last revolution in
//     the order of their ticks.
//   - A callback that panics or calls runtime.Goexit delays no other timer.
//     Config.OnError is told.
//   - [Wheel.Stop] waits for nothing, so it may be called anywhere. [Wheel.Done]
//     says when all has ended.
//   - [Stats] shows a callback that hangs while it hangs.
//
// # What it does not
//
//   - It has no order within a tick.
//   - It runs callbacks one after the other. While one runs the others wait,
//     unless there is a Config.Executor.
//   - It sleeps while the machine is suspended, as Go's monotonic clock does.
//   - A wheel that had a timer is not collected until it is stopped.
//
// # When time.AfterFunc is the better choice
//
// Take time.AfterFunc if timers must be exact to a millisecond, if they are fewer
// than some thousands (a wheel's 16 rings weigh more then), or if callbacks
// block: it gives each callback a goroutine of its own.
//
// # States of a timer
//
//	          Schedule             the driver collects it
//	Idle ──────────────▶ Pending ─────────────────────────▶ due
//	                     ▲  ▲  │                            │ │ │
//	                     │  │  │ Stop                       │ │ │
//	  Schedule, Reset,   │  │  │ Wheel.Stop                 │ │ │
//	  Next               │  │  ▼      Stop, Wheel.Stop      │ │ │
//	                     │  │ Stopped ◀─────────────────────┘ │ │
//	                     │  │            Reset, Next, Touch   │ │
//	                     │  └─────────────────────────────────┘ │
//	                     │                                claim ▼
//	                     └──────────────────────────────────── Fired
//
// Schedule, Reset and Next lead from Stopped back to Pending too. To callers a
// due timer is Pending until its claim.
//
// # Goroutines and locks
//
// The wheel owns one goroutine, the driver. The first timer starts it and
// Wheel.Stop ends it. If a callback ends it by runtime.Goexit, another takes its
// place and continues behind that callback.
//
// Timers are spread over 16 shards, each with a lock and a ring of buckets. A
// timer gets its shard at its first Schedule, one that the calling processor
// uses anyway, and keeps it. The lock guards the ring and the timers' fields,
// and is never held while a callback, a hook or the Executor runs. Callers hold
// it for tens of nanoseconds as a rule; for longer when 64 new timers are put
// into their buckets, and when a shard makes its ring (some 20 µs with 1024
// slots, 50 ms with 1<<20). Two locks are held together only where a timer of a
// stopped wheel moves to another; the stopped one's comes first.
//
// From the second time on, a Reset or Touch that moves a pending timer to later
// takes no lock but one compare-and-swap of the deadline. The driver, Stop and
// Next end that, by one of theirs, before they act on the deadline.
//
// The driver collects up to 128 timers under the lock and claims them without
// it: whoever decides about a timer's slot, by one compare-and-swap, has it. The
// last slot that is claimed also says whose callback runs now.
//
// The driver publishes the tick that it will sleep to and then looks at all
// shards once more. A caller files its timer and then looks at what the driver
// has published. One of the two sees the other, so no wake-up is lost. A ring
// files no timer at a tick that it has let the driver collect. A test explores
// these steps in all orders.
//
// # How it is built
//
// It is the scheme of Varghese and Lauck ("Hashed and Hierarchical Timing
// Wheels", SOSP 1987). A bucket is a chain of chunks with 15 entries of deadline
// and *Timer side by side, because following links through memory is what makes
// wheels slow. A lower bound of its deadlines says whether a bucket has to be
// visited. New timers wait in an inbox and are put into their buckets 64 at a
// time; many are stopped before. A later deadline is only written into the
// timer, which is filed anew when its old place is visited.
//
// # When something fails
//
// [New] returns all faults of its Config at once. A refused call leaves the
// timer as it was. A failing callback is reported as a [CallbackError]; its
// timer stays claimed. A panic in a hook or in the Executor is not recovered. A
// call that meets a copy of a pending timer panics with "wheel: Timer was copied
// after first use". Without hooks slog.Default gets "wheel: a callback failed"
// with the keys error, timers and stack, and "wheel: a callback was slow" with
// task, timers and took.
//
// # What it costs
//
// A new wheel takes some 7 KiB. Each shard takes 18 KiB more for 1024 slots once
// it is used. A pending timer takes 40 bytes in your record and some 20 in its
// bucket when there are many. No call allocates but AfterFunc and Every, and
// Schedule where the buckets have to grow. bench/BENCHMARKS.md has measurements.
//
// # Coming from elsewhere
//
// From package time:
//
//	time.AfterFunc(d, f)              Wheel.AfterFunc, or Wheel.Schedule of a Timer of yours
//	t.Stop(), t.Reset(d)              Timer.Stop, Timer.Reset
//	time.NewTicker(d)                 Wheel.Every
//	conn.SetReadDeadline(t), often    Timer.Touch (50 ns, not 200), and close the connection in Fire
//	time.NewTimer, time.After         -  no channels: send in the callback
//
// From RussellLuo/timingwheel:
//
//	NewTimingWheel(tick, size)        New(Config{Tick: tick, Slots: a power of two})
//	tw.Start(), tw.Stop()             -  by the first timer; Wheel.Stop
//	tw.AfterFunc(d, f)                Wheel.AfterFunc; f is called on the driver, not in a goroutine
//	tw.ScheduleFunc(scheduler, f)     Wheel.Every, or Timer.Reset in the callback
//	t.Stop()                          Timer.Stop
//
// From antlabs/timer:
//
//	NewTimer(), Run(), Stop()         New, -, Wheel.Stop
//	AfterFunc(d, f)                   Wheel.AfterFunc
//	ScheduleFunc(d, f)                Wheel.Every
//	CustomFunc(next, f)               Timer.Reset in the callback
//	node.Stop(), node.Reset(d)        Timer.Stop, Timer.Reset
//
// From go-zero's collection.TimingWheel:
//
//	NewTimingWheel(tick, n, execute)  New; the task is given with each timer
//	SetTimer(key, value, d)           Wheel.Schedule; the record is the key
//	MoveTimer(key, d)                 Timer.Touch
//	RemoveTimer(key)                  Timer.Stop
//	Drain(f)                          Wheel.Stop, which returns the timers
//
// From Netty's HashedWheelTimer:
//
//	tickDuration, ticksPerWheel       Config.Tick (any from 1 µs), Config.Slots
//	maxPendingTimeouts                Config.MaxPending; RejectedExecutionException is ErrTooManyPending
//	taskExecutor                      Config.Executor, which may refuse
//	leakDetection, ThreadFactory      -  a wheel costs nothing before its first timer
//	start()                           -  by the first timer
//	newTimeout(task, delay, unit)     Wheel.Schedule or Wheel.AfterFunc
//	stop() Set<Timeout>               Wheel.Stop, from callbacks too; Wheel.Done waits
//	pendingTimeouts()                 Wheel.Len, exact at once; Wheel.Stats
//	Timeout.timer(), task()           Timer.Wheel, Timer.Task
//	Timeout.isExpired(), isCancelled()  Timer.State: Fired, Stopped
//	Timeout.cancel()                  Timer.Stop
//	TimerTask.run(timeout), cancelled(timeout)  Task.Fire, an optional method Cancelled
//	an exception of a task, logged    Config.OnError, by default logged
package wheel
