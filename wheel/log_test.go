package wheel_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

// TestCallbacksThatAlwaysFailMakeFewRecords, and so do those that are slow. It sets slog's default,
// so it is not parallel.
func TestCallbacksThatAlwaysFailMakeFewRecords(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for text, f := range map[string]func(){
		"wheel: a callback failed":   func() { panic("at the disco") },
		"wheel: a callback was slow": func() { time.Sleep(time.Second / 10) },
	} {
		for _, n := range []int{1_000, 10_000} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
				w, err := wheel.New(wheel.Config{Tick: time.Millisecond, SlowCallback: time.Millisecond})
				require.NoError(t, err)
				began := time.Now()
				for range n {
					_, err := w.AfterFunc(0, f)
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
				require.Contains(t, log.String(), " suppressed=", text)
			})
		}
	}
}
