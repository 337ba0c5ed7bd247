package wheel_test

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

// TestCallbacksThatAlwaysFailMakeFewRecords, and so do slow callbacks. It sets slog's default, so it
// is not parallel.
func TestCallbacksThatAlwaysFailMakeFewRecords(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for text, c := range map[string]struct {
		f    func()
		keys []string // users search for them
	}{
		"wheel: a callback failed":   {func() { panic("at the disco") }, []string{"error", "stack", "suppressed"}},
		"wheel: a callback was slow": {func() { time.Sleep(time.Second / 10) }, []string{"task", "took", "suppressed"}},
	} {
		for _, n := range []int{1_000, 10_000} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
				w, err := wheel.New(wheel.Config{Tick: time.Millisecond, SlowCallback: time.Millisecond})
				require.NoError(t, err)
				began := time.Now()
				for range n {
					_, err := w.AfterFunc(0, c.f)
					require.NoError(t, err)
					time.Sleep(time.Second / 5)
				}
				minutes := 1 + int(time.Since(began)/time.Minute)
				synctest.Wait()
				w.Stop()
				<-w.Done()
				said := strings.Count(log.String(), text)
				require.LessOrEqual(t, said, 5*minutes, "%s, of %d", text, n)
				require.GreaterOrEqual(t, said, 5*(minutes-1), "%s, of %d", text, n)
				for _, key := range c.keys {
					require.Contains(t, log.String(), " "+key+"=", text)
				}
			})
		}
	}
}

func beSlow(*wheel.Timer) { time.Sleep(time.Second / 10) }

// TestARecordOfASlowCallbackNamesItsFunction, or the type of a task of the program's own.
func TestARecordOfASlowCallbackNamesItsFunction(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, arm := range map[string]func(*wheel.Wheel) error{
		"wheel_test.beSlow":  func(w *wheel.Wheel) error { _, err := w.Every(time.Minute, beSlow); return err },
		"wheel_test.beSlow ": func(w *wheel.Wheel) error { return w.Schedule(new(wheel.Timer), 0, wheel.TaskFunc(beSlow)) },
		"wheel_test.TestARecordOfASlowCallbackNamesItsFunction.func": func(w *wheel.Wheel) error {
			_, err := w.AfterFunc(0, func() { beSlow(nil) })
			return err
		},
		"*wheel_test.slowTask": func(w *wheel.Wheel) error { return w.Schedule(new(wheel.Timer), 0, &slowTask{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			w, err := wheel.New(wheel.Config{SlowCallback: time.Millisecond})
			require.NoError(t, err)
			require.NoError(t, arm(w))
			time.Sleep(time.Minute + time.Second)
			w.Stop()
			<-w.Done()
			synctest.Wait()
			require.Regexp(t, ` task="?\S*`+regexp.QuoteMeta(strings.TrimSpace(name)), log.String())
		})
	}
}

type slowTask struct{}

func (*slowTask) Fire(t *wheel.Timer) { beSlow(t) }

// blockedHandler is a slog.Handler that blocks until it is freed.
type blockedHandler struct {
	slog.Handler
	free chan struct{}
}

func (h *blockedHandler) Enabled(context.Context, slog.Level) bool {
	<-h.free
	return true
}

// TestALogThatBlocksDelaysNoTimer, and Done closes all the same. The waiting records are bounded.
func TestALogThatBlocksDelaysNoTimer(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for text, f := range map[string]func(){
		"wheel: a callback failed":   func() { panic("at the disco") },
		"wheel: a callback was slow": func() { time.Sleep(time.Second / 10) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			h := &blockedHandler{slog.NewTextHandler(&log, nil), make(chan struct{})}
			slog.SetDefault(slog.New(h))
			w, err := wheel.New(wheel.Config{SlowCallback: time.Millisecond})
			require.NoError(t, err)
			fired := 0
			for range 100 {
				_, err := w.AfterFunc(0, func() {
					fired++
					f()
				})
				require.NoError(t, err)
				time.Sleep(time.Minute)
			}
			w.Stop()
			<-w.Done()
			require.Equal(t, 100, fired)
			close(h.free)
			synctest.Wait()
			require.Equal(t, 1+5, strings.Count(log.String(), text), "the first, and what the queue holds")
		})
	}
}
