package wheel_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

// stressOps is how many operations the stress test does: WHEELLOCK_STRESS_OPS, else ten million, or fewer
// where they take longer.
func stressOps(t *testing.T) int {
	if text := os.Getenv("WHEELLOCK_STRESS_OPS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "WHEELLOCK_STRESS_OPS")
		return n
	}
	if testing.Short() || bounded.RaceDetector {
		return 1_000_000
	}
	return 10_000_000
}

// stressTimer counts its own armings' ends, to be compared with the wheel's counts.
type stressTimer struct {
	wheel.Timer
	fired     atomic.Int64
	cancelled atomic.Int64
	behave    func(*stressTimer)
}

func (t *stressTimer) Fire(*wheel.Timer)      { t.fired.Add(1); t.behave(t) }
func (t *stressTimer) Cancelled(*wheel.Timer) { t.cancelled.Add(1) }

func TestEveryArmingEndsExactlyOnce(t *testing.T) {
	const goroutines, perGoroutine = 64, 64
	ops := stressOps(t)
	for _, executor := range []bool{false, true} {
		cfg := wheel.Config{Tick: 100 * time.Microsecond, Slots: 64}
		refused := errors.New("refused")
		var failures, refusals atomic.Int64
		cfg.OnError = func(err *wheel.CallbackError) {
			if errors.Is(err, refused) {
				refusals.Add(1)
			} else {
				failures.Add(1)
			}
		}
		n := ops * 9 / 10
		if executor {
			n = ops / 10
			cfg.MaxPending = goroutines * perGoroutine / 2
			cfg.Executor = func(run func()) error {
				switch rand.N(10) {
				case 0:
					return refused
				case 1:
					go run()
				default:
					run()
				}
				return nil
			}
		}
		w, err := wheel.New(cfg)
		require.NoError(t, err)
		var armings, stops, panicked atomic.Int64
		timers := make([]stressTimer, goroutines*perGoroutine)
		for i := range timers {
			timers[i].behave = func(timer *stressTimer) {
				switch rand.N(64) {
				case 0:
					panicked.Add(1)
					panic("stress")
				case 1, 2, 3, 4:
					_ = timer.Next(time.Duration(1+rand.N(3000)) * time.Microsecond)
				case 5, 6, 7, 8:
					_, _ = timer.Reset(time.Duration(rand.N(3000)) * time.Microsecond)
				case 9:
					timers[rand.N(len(timers))].Stop()
				}
			}
		}
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(g), 1))
				for range n / goroutines {
					timer := &timers[g*perGoroutine+rnd.IntN(perGoroutine)]
					if rnd.IntN(4) == 0 { // somebody else's
						timer = &timers[rnd.IntN(len(timers))]
					}
					d := time.Duration(rnd.IntN(1500)) * time.Microsecond
					var err error
					switch rnd.IntN(10) {
					case 0, 1, 2:
						err = w.Schedule(&timer.Timer, d, timer)
					case 3:
						err = w.ScheduleWithin(&timer.Timer, d, d, timer)
					case 4:
						timer.Touch(d)
						continue
					case 5, 6, 7:
						if timer.Stop() {
							stops.Add(1)
						}
						continue
					case 8:
						_, err = timer.Reset(d)
						if errors.Is(err, wheel.ErrNotScheduled) {
							err = nil
						}
						if err == nil {
							continue
						}
					case 9:
						_, _ = timer.State(), timer.Deadline()
						continue
					}
					switch {
					case err == nil:
						armings.Add(1)
					case !errors.Is(err, wheel.ErrPending) && !errors.Is(err, wheel.ErrTooManyPending):
						t.Error(err)
					}
				}
			})
		}
		wg.Wait() // as long as stressOps says
		requireAllEnded(t, w)
		returned := w.Stop()
		bounded.Receive(t, w.Done())
		requireAllEnded(t, w)
		st := w.Stats()
		require.Zero(t, st.Pending)
		require.Equal(t, int64(len(returned)), st.Returned)
		require.GreaterOrEqual(t, st.Armed, armings.Load())
		require.GreaterOrEqual(t, st.Stopped, stops.Load())
		require.Equal(t, panicked.Load(), st.Panics)
		require.Equal(t, failures.Load(), st.Panics)
		var fired, cancelled int64
		for i := range timers {
			fired += timers[i].fired.Load()
			cancelled += timers[i].cancelled.Load()
			require.NotEqual(t, wheel.Pending, timers[i].State())
		}
		require.Equal(t, st.Fired, fired+refusals.Load(), "each claim is one callback, or one refusal")
		require.Equal(t, st.Stopped+st.Returned, cancelled, "each stop is one Cancelled")
		t.Logf("%+v", st)
	}
}

func TestNeverEarlyInRealTime(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: 500 * time.Microsecond})
	const n = 2000
	var early atomic.Int64
	var wg sync.WaitGroup
	wg.Add(n)
	for range n {
		d := time.Duration(rand.N(int64(300 * time.Millisecond)))
		began := time.Now() // before the wheel reads its clock
		_, err := w.AfterFunc(d, func() {
			if time.Since(began) < d {
				early.Add(1)
			}
			wg.Done()
		})
		require.NoError(t, err)
	}
	bounded.Wait(t, &wg)
	require.Zero(t, early.Load())
}
