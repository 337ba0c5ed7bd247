package lockprom

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// Collector is a prometheus.Collector of one lock.Client. All methods are safe for
// concurrent use.
type Collector struct {
	client *lock.Client // immutable
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector of c. The Collector may still be used after c is closed. While
// the Collector is registered, the registry keeps c in memory.
func New(c *lock.Client) *Collector { return &Collector{client: c} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, v := range values {
		to <- v.desc
	}
	to <- acquisitions
	to <- losses
	to <- clocks
	to <- acquireDuration
	to <- lateness
}

// Collect implements prometheus.Collector. All values of a call come from one snapshot.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	st := c.client.Stats()
	for _, v := range values {
		to <- prometheus.MustNewConstMetric(v.desc, v.kind, v.of(&st))
	}
	for o := lock.OutcomeAcquired; o <= lock.OutcomeError; o++ {
		to <- prometheus.MustNewConstMetric(acquisitions, prometheus.CounterValue, float64(st.Calls[o]), o.String())
	}
	for r, label := range reasons {
		to <- prometheus.MustNewConstMetric(losses, prometheus.CounterValue, float64(st.Lost[r]), label)
	}
	for server, ahead := range clocksOf(st.Clocks) {
		to <- prometheus.MustNewConstMetric(clocks, prometheus.GaugeValue, ahead.Seconds(), server)
	}
	to <- histogram(acquireDuration, st.Waited)
	to <- histogram(lateness, st.Renewal.Late)
}

// reasons are the values of the label of losses.
var reasons = map[lock.Reason]string{
	lock.NotOwner: "not_owner", lock.TrustEnded: "trust_ended", lock.MaxHold: "max_hold",
	lock.Expired: "expired", lock.Closed: "closed", lock.Suspended: "suspended",
}

// clocksOf returns the clocks by server. Two servers may have the same address for a
// moment, but a series must not come twice. So clocksOf keeps the clock that differs more.
func clocksOf(all []lock.ServerClock) map[string]time.Duration {
	ahead := make(map[string]time.Duration, len(all))
	for _, c := range all {
		server := strings.ToValidUTF8(c.Server, "?")
		if before, twice := ahead[server]; !twice || c.Ahead.Abs() > before.Abs() {
			ahead[server] = c.Ahead
		}
	}
	return ahead
}

// bounds are the bounds of the buckets, the powers of 2 from 128 us to 67 s. The buckets of
// a renewal.Distribution end at the same bounds, so no count is estimated.
var bounds = func() (all []time.Duration) {
	for d := 128 * time.Microsecond; d < 100*time.Second; d *= 2 {
		all = append(all, d)
	}
	return all
}()

// histogram converts d to a histogram of Prometheus, which counts the values up to each bound.
func histogram(desc *prometheus.Desc, d renewal.Distribution) prometheus.Metric {
	upTo, fine, n := make(map[float64]uint64, len(bounds)), d.Buckets(), uint64(0)
	for _, bound := range bounds {
		for len(fine) > 0 && fine[0].UpTo < bound {
			n += fine[0].Count
			fine = fine[1:]
		}
		upTo[bound.Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(desc, d.Count, d.Sum.Seconds(), upTo)
}
