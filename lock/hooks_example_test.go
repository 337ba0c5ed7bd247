package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// A service that holds very many locks, 50,000 for instance. One hook is called for every loss,
// so no lock needs a goroutine, a channel or a context. The hook must not block, because it is
// called for one loss after the other and Close waits for it. At the end Close releases all locks
// that are held, in batches.
func ExampleHooks_manyLocks() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	var devices sync.Map // name of the lock: *lock.Held
	var mu sync.Mutex
	var lost []string              // guarded by mu; has all devices if Redis fails
	wake := make(chan struct{}, 1) // tells that lost is not empty
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{
		ReleaseOnClose: true,
		Hooks: lock.Hooks{Lost: func(e lock.Event) {
			if errors.Is(e.Err, lock.ErrClosed) {
				return // Close calls the hook for the locks that are still held
			}
			held, ok := devices.Load(e.Name)
			if ok && held.(*lock.Held).Token() == e.Token && devices.CompareAndDelete(e.Name, held) {
				mu.Lock()
				lost = append(lost, e.Name)
				mu.Unlock()
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		held, err := client.Mutex(fmt.Sprint("device:", i)).TryLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		devices.Store(held.Name(), held)
		if !held.Valid() { // lost before it was stored
			devices.CompareAndDelete(held.Name(), held)
		}
	}
	short, err := client.Mutex("short").LockFor(ctx, 200*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	devices.Store(short.Name(), short)
	<-wake // the goroutine that gives up the work of lost devices waits here
	mu.Lock()
	fmt.Println("lost:", lost)
	lost = nil
	mu.Unlock()

	// The work has ended. A ctx that has ended makes Close release the locks at once.
	now, cancel := context.WithCancel(ctx)
	cancel()
	fmt.Println(client.Close(now))
	// Output:
	// lost: [short]
	// lock: closed with 1000 locks held: 1000 were released, 0 are left to their TTL: context canceled: unlock when Held.Done is closed, or give Close more time
}

// In the JSON, durations are nanoseconds, and reasons for a loss are words.
func ExampleClient_Stats_expvar() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	expvar.Publish("locks", expvar.Func(func() any { return client.Stats() })) // at /debug/vars

	held, _ := client.Mutex("report").Lock(ctx)
	defer held.Unlock(ctx)
	short, _ := client.Mutex("short").LockFor(ctx, lock.MinLease)
	<-short.Done()

	var seen struct {
		Held    int
		Renewal struct{ Lost map[string]int }
	}
	_ = json.Unmarshal([]byte(expvar.Get("locks").String()), &seen)
	fmt.Println(seen.Held, seen.Renewal.Lost)
	// Output: 1 map[the lease is over:1]
}

// lockMetrics turns hooks into counters, and serves them as Prometheus reads
// them. With the OpenTelemetry SDK the hooks add to its instruments instead.
type lockMetrics struct {
	acquired, lost, renewed, unknown atomic.Uint64
	waitedNanos                      atomic.Int64
	client                           *lock.Client
}

func (m *lockMetrics) hooks() lock.Hooks {
	return lock.Hooks{
		Acquired: func(e lock.Event) { m.acquired.Add(1); m.waitedNanos.Add(int64(e.Waited)) },
		Lost:     func(lock.Event) { m.lost.Add(1) },
		Renewed: func(r renewal.BatchReport) {
			m.renewed.Add(uint64(r.Renewed))
			m.unknown.Add(uint64(r.Unknown))
		},
	}
}

func (m *lockMetrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# TYPE locks_held gauge\nlocks_held %d\n", m.client.Stats().Held)
	fmt.Fprintf(w, "# TYPE locks_acquired_total counter\nlocks_acquired_total %d\n", m.acquired.Load())
	fmt.Fprintf(w, "# TYPE locks_lost_total counter\nlocks_lost_total %d\n", m.lost.Load())
	fmt.Fprintf(w, "# TYPE locks_renewed_total counter\nlocks_renewed_total %d\n", m.renewed.Load())
	fmt.Fprintf(w, "# TYPE locks_renewals_unknown_total counter\nlocks_renewals_unknown_total %d\n", m.unknown.Load())
	fmt.Fprintf(w, "# TYPE locks_acquire_seconds_total counter\nlocks_acquire_seconds_total %g\n", float64(m.waitedNanos.Load())/1e9)
}

func ExampleHooks_prometheus() {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	metrics := new(lockMetrics)
	client, err := lock.New(server.Pool(0), lock.Config{Hooks: metrics.hooks()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	metrics.client = client
	scraped := httptest.NewServer(metrics) // http.Handle("/metrics", metrics)
	defer scraped.Close()

	ctx := context.Background()
	for range 3 {
		_ = client.Mutex("report").Do(ctx, func(context.Context, *lock.Held) error { return nil })
	}
	held, _ := client.Mutex("report").Lock(ctx)
	response, err := http.Get(scraped.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "locks_held") || strings.HasPrefix(line, "locks_acquired") || strings.HasPrefix(line, "locks_lost") {
			fmt.Print(line)
		}
	}
	_ = held.Unlock(ctx)
	// Output:
	// locks_held 1
	// locks_acquired_total 4
	// locks_lost_total 0
}

// The client does not log losses. A program that wants them in its log has a hook.
func ExampleHooks_slog() {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "token" {
				return slog.Attr{} // it differs each time
			}
			return a
		},
	}))
	client, err := lock.New(server.Pool(0), lock.Config{
		Logger: logger,
		Hooks: lock.Hooks{Lost: func(e lock.Event) {
			var lost *lock.LostError
			errors.As(e.Err, &lost)
			logger.Warn("lock lost", "name", e.Name, "token", e.Token, "reason", lost.Reason.String())
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held, _ := client.Mutex("report").LockFor(context.Background(), lock.MinLease)
	<-held.Done()
	client.Close(context.Background()) // the hook has been called when it returns
	// Output: level=WARN msg="lock lost" name=report reason="the lease is over"
}
