package lockprom_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/keeper"
	"github.com/wheellock/wheellock/lock/lockprom"
	"github.com/wheellock/wheellock/lock/locktest"
)

// gather returns what a registry with the Collector of c exports, by name.
func gather(t *testing.T, c *lock.Client) map[string]*dto.MetricFamily {
	t.Helper()
	return gatherFrom(t, lockprom.New(c))
}

func gatherFrom(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems, "Prometheus' linter")
	families, err := registry.Gather()
	require.NoError(t, err)
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// series returns the metric of a family whose only label has this value.
func series(t *testing.T, f *dto.MetricFamily, label string) *dto.Metric {
	t.Helper()
	for _, m := range f.GetMetric() {
		if len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
			return m
		}
	}
	require.Fail(t, "no such series", "%s %s", f.GetName(), label)
	return nil
}

func TestMetricsSayWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, ctx := srv.Client(lock.Config{}), t.Context()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		short, err := c.Mutex("short").LockFor(ctx, lock.MinLease)
		require.NoError(t, err)
		<-short.Done()
		got := make(chan error, 1)
		go func() {
			next, err := c.Mutex("m").Lock(ctx)
			if err == nil {
				err = next.Unlock(ctx)
			}
			got <- err
		}()
		time.Sleep(time.Minute)
		f := gather(t, c)
		require.EqualValues(t, 1, f["wheellock_waiters"].Metric[0].GetGauge().GetValue())
		require.EqualValues(t, 1, f["wheellock_locks_held"].Metric[0].GetGauge().GetValue())
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, <-got)

		f = gather(t, c)
		require.EqualValues(t, 3, series(t, f["wheellock_acquisitions_total"], "acquired").GetCounter().GetValue())
		require.EqualValues(t, 1, series(t, f["wheellock_acquisitions_total"], "refused").GetCounter().GetValue())
		require.Zero(t, series(t, f["wheellock_acquisitions_total"], "unknown").GetCounter().GetValue(), "it is there before it is needed")
		require.EqualValues(t, 1, series(t, f["wheellock_losses_total"], "expired").GetCounter().GetValue())
		require.Len(t, f["wheellock_losses_total"].Metric, 6)
		require.EqualValues(t, 2, f["wheellock_releases_total"].Metric[0].GetCounter().GetValue())
		require.InDelta(t, 60, f["wheellock_locks_held_seconds_total"].Metric[0].GetCounter().GetValue(), 0.5)
		require.Positive(t, f["wheellock_renewals_total"].Metric[0].GetCounter().GetValue())

		h := f["wheellock_acquire_duration_seconds"].Metric[0].GetHistogram()
		require.EqualValues(t, 3, h.GetSampleCount())
		require.InDelta(t, 60, h.GetSampleSum(), 0.5)
		require.InDelta(t, 128e-6, h.GetBucket()[0].GetUpperBound(), 1e-12)
		for _, b := range h.GetBucket() {
			want := 2 // two calls had their lock at once
			if b.GetUpperBound() > 60 {
				want = 3
			}
			require.EqualValues(t, want, b.GetCumulativeCount(), "at most %v s", b.GetUpperBound())
		}
		late := f["wheellock_renewal_lateness_seconds"].Metric[0].GetHistogram()
		require.EqualValues(t, c.Stats().Renewal.Late.Count, late.GetSampleCount())
	})
}

// TestMetricsAreWhatTheDocumentationLists, no more and no fewer, with their labels.
func TestMetricsAreWhatTheDocumentationLists(t *testing.T) {
	var exported []string
	families := gather(t, clientWithClock(t))
	maps.Copy(families, gatherFrom(t, lockprom.NewKeeper(newKeeper(t, locktest.NewServer(t).Client(lock.Config{})))))
	for name, f := range families {
		labels := ""
		if l := f.Metric[0].GetLabel(); len(l) > 0 {
			labels = fmt.Sprintf("{%s}", l[0].GetName())
		}
		exported = append(exported, name+labels)
	}
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(wheellock_[\w{}]+)  `).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	require.ElementsMatch(t, listed, exported)
}

// newKeeper returns a Keeper that ends with the test.
func newKeeper(t *testing.T, c *lock.Client) *keeper.Keeper {
	t.Helper()
	k, err := keeper.New(c, keeper.Config{Taken: func(context.Context, string, *lock.Held) {}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(context.Background())) })
	return k
}

func TestMetricsOfAKeeperSayWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		held, err := srv.Client(lock.Config{}).Mutex("other").TryLock(t.Context())
		require.NoError(t, err)
		k := newKeeper(t, srv.Client(lock.Config{}))
		require.NoError(t, k.Want("a", "b", "c", "other"))
		time.Sleep(time.Hour)
		srv.Delete("a") // it is lost, and taken again
		time.Sleep(time.Minute)
		k.Drop("b")
		time.Sleep(time.Minute)
		f := gatherFrom(t, lockprom.NewKeeper(k))
		value := func(name string) float64 {
			m := f["wheellock_keeper_"+name].Metric[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		names := f["wheellock_keeper_names"]
		for state, n := range map[string]float64{"kept": 2, "waiting": 1, "asking": 0, "ending": 0} {
			require.Equal(t, n, series(t, names, state).GetGauge().GetValue(), state)
		}
		for name, want := range map[string]float64{
			"sharers": 0, "failing": 0, "taken_total": 4, "lost_total": 1, "given_up_total": 1, "tries_failed_total": 0,
			"tries_total": float64(k.Stats().Tries), "looks_total": float64(k.Stats().Looks), "releases_heard_total": 0,
		} {
			require.Equal(t, want, value(name), name)
		}
		require.GreaterOrEqual(t, value("looks_total"), 100.0)
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		f = gatherFrom(t, lockprom.NewKeeper(k))
		require.EqualValues(t, 1, value("releases_heard_total"))
		require.EqualValues(t, 5, value("taken_total"))
		srv.Pause()
		require.NoError(t, k.Want("d", "e", "f", "g", "h", "i", "j", "k", "l"))
		time.Sleep(5 * time.Second)
		f = gatherFrom(t, lockprom.NewKeeper(k))
		require.EqualValues(t, 1, value("failing"))
		require.GreaterOrEqual(t, value("tries_failed_total"), 8.0)
		srv.Resume()
		time.Sleep(time.Minute)
	})
}

// clientWithClock returns a client that knows its server's clock.
func clientWithClock(t *testing.T) *lock.Client {
	t.Helper()
	c := locktest.NewServer(t).Client(lock.Config{})
	held, err := c.Mutex("m").Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Unlock(t.Context()) })
	require.NotEmpty(t, c.Stats().Clocks)
	return c
}

func TestSeveralClientsAreToldApartByALabel(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"orders", "jobs"} {
		c := locktest.NewServer(t).Client(lock.Config{})
		prometheus.WrapRegistererWith(prometheus.Labels{"locks": name}, registry).MustRegister(lockprom.New(c))
	}
	n, err := testutil.GatherAndCount(registry, "wheellock_locks_held")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestAScrapeIsText(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(lockprom.New(clientWithClock(t)))
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	lines := 0
	for s := bufio.NewScanner(answer.Body); s.Scan(); {
		if strings.HasPrefix(s.Text(), `wheellock_acquisitions_total{outcome="acquired"} 1`) {
			lines++
		}
	}
	require.Equal(t, 1, lines)
}
