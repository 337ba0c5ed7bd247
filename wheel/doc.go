// Package wheel is a timer library for programs with very many timers, most of
// which are stopped or moved before they fire. It is a hashed timing wheel. It
// suits idle timeouts of connections, deadlines of requests and leases of
// locks. One goroutine drives all timers of a wheel.
//
// A [Timer] is a field of your own struct. [Wheel.Schedule] arms it. When it
// fires, the wheel calls the method Fire of your [Task]. [Timer.Stop] and
// [Timer.Reset] take effect at once. [Timer.Touch] moves a timer only while it
// is pending, and [Timer.Next] makes it periodic without drift.
// [Wheel.AfterFunc] and [Wheel.Every] call a function and need no struct.
//
//	I want                              I call
//	a time limit that is mostly stopped Schedule, Timer.Stop
//	an idle timeout, put off often      Schedule, Timer.Touch
//	a job once per period               Every
//	to call a function later            AfterFunc
//	to try again after a pause          Schedule of a TaskFunc, Timer.Reset in it
//	few wake-ups, times may be inexact  ScheduleWithin
//	to end, and wait for callbacks      Shutdown
//
// # What it promises
//
// A mark such as P37 leads to the row of lock/PROMISES.md that names the proof.
//
//   - A timer never fires early (P37). A tick is a multiple of Config.Tick after New,
//     and a timer fires at the first tick that is not before its deadline. So
//     it is late by less than one tick, plus the delays of the Go scheduler and
//     of other callbacks. A timer armed for the tick that is being processed
//     fires one tick later.
//   - Every arming ends exactly once (P38): the timer fires, it is stopped, or
//     [Wheel.Stop] returns it. Just before the callback, the driver (the wheel's
//     goroutine) claims the timer. Stop succeeds until that claim, even in a
//     callback of the same tick. The wheel holds no reference to a timer or its task
//     after Stop has returned true, or when the callbacks of all timers that were due
//     with it, up to 128, have returned (P39).
//   - A timer that is armed again in its own callback does not run again in the
//     same tick.
//   - An unused wheel has no goroutine, and an idle one does not wake up. A
//     stopped or moved deadline causes at most one wake-up.
//   - After a stall, every due timer fires once. Timers of the last revolution
//     fire in the order of their ticks. A revolution is Config.Slots ticks.
//   - A callback that panics or calls runtime.Goexit delays no other timer.
//     Config.OnError is called.
//   - [Wheel.Stop] waits for nothing, so it may be called anywhere, even in a
//     callback. The channel of [Wheel.Done] closes when everything has ended.
//   - [Stats] shows a callback that hangs, while it hangs.
//
// # What it does not promise
//
//   - Timers of the same tick fire in no particular order.
//   - Callbacks run one after the other. A long callback delays all others, and
//     so do many short ones. Run callbacks that block in Config.Executor, or in
//     goroutines of their own. Give jobs of Every a wheel of their own if
//     hundreds of thousands of timers may be due together.
//   - Time stands still while the machine is suspended, because Go's monotonic
//     clock does.
//   - The garbage collector does not free a wheel that had a timer until it is
//     stopped.
//
// # When time.AfterFunc is the better choice
//
// Use time.AfterFunc if timers must be exact to a millisecond, or if there are
// fewer than some thousands of timers, because the 16 rings of a wheel then need
// more memory. Also use it if callbacks block, because it runs every callback in
// a goroutine of its own. MOVING.md lists what replaces the calls of package
// time, Netty and other wheels.
//
// # In tests
//
// With testing/synctest, make and stop the wheel inside the bubble. Its time is
// then virtual. A wheel from outside the bubble returns [ErrBubble]. Sleep for one
// Config.Tick more than the timeout, unless the wheel was made at that very moment,
// because a deadline is rounded up to a tick.
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
// # When something fails
//
// [New] returns all faults of its Config at once. A call that returns an error
// leaves the timer as it was. Config.OnError gets a [CallbackError] for a callback
// that fails, and the timer counts as fired. A panic in a hook or in the Executor
// is not recovered. A call that meets a copy of a pending timer panics with
// "wheel: Timer was copied after first use". If a hook is not set, slog.Default
// logs "wheel: a callback failed" with the keys error and stack, or "wheel: a
// callback was slow" with the keys task and took. Each of the two is logged at
// most 5 times a minute. The key suppressed counts the records left out. A
// goroutine of its own writes them while there are any, so a log that blocks
// delays no timer (P40). Neither Stop nor Done waits for it.
//
// # What it costs
//
// A new wheel takes about 7 KiB. Its driver takes 10 KiB with the first timer.
// With the default of 1024 slots, each of the 16 shards takes 19 KiB more once it
// is used, which is 0.3 MiB in all. A pending timer takes 40 bytes in your struct
// and, when there are many timers, about 20 bytes in the wheel. AfterFunc and
// Every allocate at each call. Schedule allocates only when the wheel has to
// grow. Touch takes some 30 ns if the timer is in the processor's cache, and 100
// to 200 ns if not. The first use of a shard takes 20 µs with 1024 slots, and 50 ms with
// 1<<20 slots. bench/BENCHMARKS.md has measurements.
//
// # How it works
//
// The first timer starts the driver goroutine, and Wheel.Stop ends it. If a
// callback ends the goroutine by runtime.Goexit, the wheel starts another one.
// Timers are spread over 16 shards, each with a lock and a ring of buckets. No
// lock is held while a callback, a hook or the Executor runs. design.go has more.
// The scheme is that of Varghese and Lauck ("Hashed and Hierarchical Timing
// Wheels", SOSP 1987).
package wheel
