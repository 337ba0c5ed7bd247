package wheel_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

// hookRecorder keeps what the hooks are told.
type hookRecorder struct {
	errs []*wheel.CallbackError
	slow []time.Duration
	of   []*wheel.Timer
}

func (r *hookRecorder) config() wheel.Config {
	return wheel.Config{
		OnError: func(err *wheel.CallbackError) { r.errs = append(r.errs, err) },
		OnSlow: func(timer *wheel.Timer, took time.Duration) {
			r.slow = append(r.slow, took)
			r.of = append(r.of, timer)
		},
	}
}

// modes are the ways that a callback can be run in.
var modes = []struct {
	name     string
	executor func(func()) error
}{
	{"on the driver", nil},
	{"in its own goroutine", func(run func()) error { go run(); return nil }},
	{"on the spot", func(run func()) error { run(); return nil }},
}

func TestFailingCallbackDelaysNoOther(t *testing.T) {
	for _, mode := range modes {
		for name, fail := range map[string]func(){
			"panic":  func() { panic(io.ErrUnexpectedEOF) },
			"goexit": runtime.Goexit,
		} {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var told atomic.Pointer[wheel.CallbackError]
					var count atomic.Int64
					w := startWheel(t, wheel.Config{Executor: mode.executor, OnError: func(err *wheel.CallbackError) {
						told.Store(err)
						count.Add(1)
					}})
					const n = 1000
					var fired atomic.Int64
					timers := make([]wheel.Timer, n)
					for i := range timers {
						require.NoError(t, w.Schedule(&timers[i], 10*ms, taskFunc(func(*wheel.Timer) {
							fired.Add(1)
							if i%100 == 50 {
								fail()
							}
						})))
					}
					advance(10 * ms)
					synctest.Wait()
					require.Equal(t, int64(n), fired.Load(), "in the same tick")
					require.Equal(t, int64(n/100), count.Load())
					require.Equal(t, int64(n/100), w.Stats().Panics)
					require.Equal(t, int64(n), w.Stats().Fired, "claimed all the same")
					err := told.Load()
					require.NotNil(t, err.Timer)
					require.Contains(t, string(err.Stack), "TestFailingCallbackDelaysNoOther")
					if name == "panic" {
						require.ErrorIs(t, err, io.ErrUnexpectedEOF)
						require.Equal(t, io.ErrUnexpectedEOF, err.Panic)
						require.EqualError(t, err, "wheel: callback of wheel_test.taskFunc panicked: unexpected EOF")
					} else {
						require.ErrorIs(t, err, wheel.ErrGoexit)
						require.EqualError(t, err, "wheel: callback called runtime.Goexit: callback of wheel_test.taskFunc")
					}
					ts := newFireTimes()
					_, e := w.AfterFunc(time.Second, ts.note)
					require.NoError(t, e)
					advance(2 * time.Second)
					require.Equal(t, []time.Duration{time.Second}, ts.all(), "and the wheel goes on")
				})
			})
		}
	}
}

func TestGoexitInTheHookRestartsTheDriverToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{
			OnError:      func(*wheel.CallbackError) { runtime.Goexit() },
			OnSlow:       func(*wheel.Timer, time.Duration) { runtime.Goexit() },
			SlowCallback: ms,
		})
		var fired int
		for i := range 10 {
			_, err := w.AfterFunc(10*ms, func() {
				if fired++; i%2 == 0 {
					panic(i)
				}
				time.Sleep(2 * ms)
			})
			require.NoError(t, err)
		}
		advance(time.Second)
		require.Equal(t, 10, fired)
		require.Equal(t, int64(5), w.Stats().SlowCallbacks)
	})
}

const childEnv = "WHEEL_TEST_CHILD"

// children are run by TestMain instead of the tests, in a process that is expected to crash.
var children = map[string]func(){
	"panic in OnError": func() {
		w, _ := wheel.New(wheel.Config{OnError: func(*wheel.CallbackError) { panic("from the hook") }})
		_, _ = w.AfterFunc(0, func() { panic("from the callback") })
		<-w.Done()
	},
	"panic in OnSlow": func() {
		w, _ := wheel.New(wheel.Config{SlowCallback: 1, OnSlow: func(*wheel.Timer, time.Duration) { panic("from the hook") }})
		_, _ = w.AfterFunc(0, func() {})
		<-w.Done()
	},
	"panic in Executor": func() {
		w, _ := wheel.New(wheel.Config{OnError: func(*wheel.CallbackError) {}, Executor: func(func()) error { panic("from the hook") }})
		_, _ = w.AfterFunc(0, func() {})
		<-w.Done()
	},
}

func TestPanicInAHookCrashes(t *testing.T) {
	for name := range children {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 2, exit.ExitCode())
			require.True(t, strings.Contains(string(out), "from the hook"), "%s", out)
		})
	}
}

func TestSlowCallbacksAreCountedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r hookRecorder
		cfg := r.config()
		cfg.SlowCallback = 50 * ms
		w := startWheel(t, cfg)
		sleep := func(d time.Duration) wheel.Task { return taskFunc(func(*wheel.Timer) { time.Sleep(d) }) }
		var timers [4]wheel.Timer
		require.NoError(t, w.Schedule(&timers[0], 1*time.Second, sleep(50*ms)), "not over it")
		require.NoError(t, w.Schedule(&timers[1], 2*time.Second, sleep(51*ms)))
		require.NoError(t, w.Schedule(&timers[2], 3*time.Second, sleep(200*ms)))
		require.NoError(t, w.Schedule(&timers[3], 3*time.Second+20*ms, sleep(0)), "waits for it")
		advance(time.Minute)
		require.Equal(t, []time.Duration{51 * ms, 200 * ms}, r.slow)
		require.ElementsMatch(t, []*wheel.Timer{&timers[1], &timers[2]}, r.of)
		require.Equal(t, int64(2), w.Stats().SlowCallbacks)
		require.Equal(t, 180*ms, w.Stats().LargestLateness)
	})
}

func TestSlowHookIsNotTheNextCallbacksFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow int
		w := startWheel(t, wheel.Config{OnSlow: func(*wheel.Timer, time.Duration) {
			slow++
			time.Sleep(time.Minute)
		}})
		fired := 0
		for range 100 { // some in each shard
			_, err := w.AfterFunc(time.Second, func() {
				if fired++; fired == 1 {
					time.Sleep(time.Second)
				}
			})
			require.NoError(t, err)
		}
		advance(time.Hour)
		require.Equal(t, 1, slow)
	})
}

func TestDefaultHooksLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: ms}) // to a logger that discards, see TestMain
		_, err := w.AfterFunc(0, func() { panic("logged") })
		require.NoError(t, err)
		_, err = w.AfterFunc(0, func() { time.Sleep(time.Second) })
		require.NoError(t, err)
		advance(time.Minute)
		require.Equal(t, int64(1), w.Stats().Panics)
		require.Equal(t, int64(1), w.Stats().SlowCallbacks)
	})
}

func TestExecutorRunsEveryCallbackWithNoLockHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue []func()
		var w *wheel.Wheel
		w = startWheel(t, wheel.Config{Executor: func(run func()) error {
			_ = w.Len() // takes every lock
			queue = append(queue, run)
			return nil
		}})
		fired := map[*wheel.Timer]int{}
		var timers [10]wheel.Timer
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], time.Second, taskFunc(func(timer *wheel.Timer) { fired[timer]++ })))
		}
		advance(2 * time.Second)
		require.Empty(t, fired, "handed over only")
		require.Len(t, queue, 10)
		for i := range timers {
			require.False(t, timers[i].Stop(), "claimed when it was handed over")
		}
		require.Empty(t, w.Stop())
		for i, run := range queue {
			select {
			case <-w.Done():
				t.Fatalf("done before callback %d", i)
			default:
			}
			run()
			run() // a second call does nothing
			synctest.Wait()
		}
		<-w.Done()
		require.Len(t, fired, 10)
		for _, n := range fired {
			require.Equal(t, 1, n)
		}
	})
}

func TestExecutorMayRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("queue is full")
		var r hookRecorder
		cfg := r.config()
		var late func()
		cfg.Executor = func(run func()) error { late = run; return full }
		w := startWheel(t, cfg)
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(func(*wheel.Timer) { t.Error("ran") })))
		advance(2 * time.Second)
		require.Len(t, r.errs, 1)
		require.ErrorIs(t, r.errs[0], wheel.ErrRefused)
		require.ErrorIs(t, r.errs[0], full)
		require.Same(t, &timer, r.errs[0].Timer)
		require.Equal(t, wheel.Fired, timer.State())
		require.Equal(t, int64(1), w.Stats().Fired)
		require.Zero(t, w.Stats().Panics)
		late() // it said it would not
		require.Empty(t, w.Stop())
		<-w.Done()
	})
}

func TestGoexitInTheExecutorIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r hookRecorder
		cfg := r.config()
		cfg.Executor = func(func()) error { runtime.Goexit(); return nil }
		w := startWheel(t, cfg)
		for range 10 {
			_, err := w.AfterFunc(time.Second, func() { t.Error("ran") })
			require.NoError(t, err)
		}
		advance(2 * time.Second)
		require.Len(t, r.errs, 10)
		require.ErrorIs(t, r.errs[0], wheel.ErrRefused)
		w.Stop()
		<-w.Done()
	})
}
