package wheel_test

import (
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		children[name]()
		return
	}
	// The seed that a failure prints repeats it. A file would make later runs fail too.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// startWheel makes a wheel that is stopped, and waited for, at the end of the test.
func startWheel(t testing.TB, cfg wheel.Config) *wheel.Wheel {
	t.Helper()
	w, err := wheel.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.Stop()
		bounded.Receive(t, w.Done())
	})
	return w
}

type taskFunc func(*wheel.Timer)

func (f taskFunc) Fire(t *wheel.Timer) { f(t) }

func doNothing(*wheel.Timer) {}

// fireTimes collects instants from callbacks.
type fireTimes struct {
	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func newFireTimes() *fireTimes { return &fireTimes{start: time.Now()} }

func (ts *fireTimes) Fire(*wheel.Timer) { ts.note() }

func (ts *fireTimes) note() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.at = append(ts.at, time.Since(ts.start))
}

func (ts *fireTimes) all() []time.Duration {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return append([]time.Duration(nil), ts.at...)
}

// requireAllEnded checks that every arming ended once, of a wheel that no call is in progress on.
func requireAllEnded(t testing.TB, w *wheel.Wheel) {
	t.Helper()
	st := w.Stats()
	require.Equal(t, st.Armed, int64(st.Pending)+st.Fired+st.Stopped+st.Returned, "%+v", st)
	require.GreaterOrEqual(t, st.Pending, 0)
}

// advance lets d pass in the bubble, and returns when its effects have ended.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
