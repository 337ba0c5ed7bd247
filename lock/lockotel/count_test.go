package lockotel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockotel"
	"github.com/wheellock/wheellock/lock/locktest"
)

// counted returns the value of a counter, with this attribute if key is not "".
func counted(t *testing.T, a metricdata.Aggregation, key attribute.Key, value string) int64 {
	t.Helper()
	sum, ok := a.(metricdata.Sum[int64])
	require.True(t, ok, "%T", a)
	for _, p := range sum.DataPoints {
		if v, there := p.Attributes.Value(key); key == "" || there && v.AsString() == value {
			return p.Value
		}
	}
	require.Fail(t, "no such point", "%s %s", key, value)
	return 0
}

func TestCountersAreThoseOfStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, srv := newTelemetry(), locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		counting, err := lockotel.Count(c, o.cfg)
		require.NoError(t, err)
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		short, err := c.Mutex("short").LockFor(t.Context(), lock.MinLease)
		require.NoError(t, err)
		<-short.Done()
		time.Sleep(5 * time.Minute)
		m := o.metrics(t)
		require.EqualValues(t, 1, counted(t, m["wheellock.locks.held"], "wheellock.client.id", c.ID()))
		require.EqualValues(t, 2, counted(t, m["wheellock.acquisitions"], "wheellock.outcome", "acquired"))
		require.EqualValues(t, 1, counted(t, m["wheellock.acquisitions"], "wheellock.outcome", "refused"))
		require.Zero(t, counted(t, m["wheellock.acquisitions"], "wheellock.outcome", "unknown"))
		require.EqualValues(t, 1, counted(t, m["wheellock.losses"], "wheellock.reason", "expired"))
		require.GreaterOrEqual(t, counted(t, m["wheellock.renewals"], "", ""), int64(29))
		require.False(t, m["wheellock.locks.held"].(metricdata.Sum[int64]).IsMonotonic)
		require.True(t, m["wheellock.renewals"].(metricdata.Sum[int64]).IsMonotonic)

		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		m = o.metrics(t)
		require.EqualValues(t, 1, counted(t, m["wheellock.releases"], "", ""), "a client that is closed is still counted")
		require.Zero(t, counted(t, m["wheellock.locks.held"], "", ""))
		require.NoError(t, counting.Unregister())
		require.Empty(t, o.metrics(t))
	})
}

// TestMetricsAreWhatTheDocumentationLists, no more and no fewer.
func TestMetricsAreWhatTheDocumentationLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTelemetry()
		c := locktest.NewServer(t).Client(lock.Config{Hooks: o.hooks(t)})
		_, err := lockotel.Count(c, o.cfg)
		require.NoError(t, err)
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, held.Unlock(t.Context()))
		var exported, listed []string
		for name := range o.metrics(t) {
			exported = append(exported, name)
		}
		text, err := os.ReadFile("doc.go")
		require.NoError(t, err)
		_, section, _ := strings.Cut(string(text), "# Metrics")
		for _, m := range regexp.MustCompile(`(?m)^//\t(wheellock\.[\w.]+)  `).FindAllStringSubmatch(section, -1) {
			listed = append(listed, m[1])
		}
		require.ElementsMatch(t, listed, exported)
	})
}
