package lockotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/wheellock/wheellock/lock"
)

// Count exports the counters of c each time that metrics are read. It does so until Unregister
// of the returned Registration is called. Until then c stays in memory, even if c is closed. An
// error comes from the MeterProvider.
func Count(c *lock.Client, cfg Config) (metric.Registration, error) {
	m := meter{Meter: cfg.withDefaults().MeterProvider.Meter(scope)}
	var (
		acquisitions = m.counter("wheellock.acquisitions", "{call}", "Calls that take a lock or permits, by how they ended.")
		losses       = m.counter("wheellock.losses", "{lock}", "Holds that were lost, by reason.")
		requests     = m.counter("wheellock.acquire.requests", "{request}", "Scripts sent to take a lock or permits.")
		releases     = m.counter("wheellock.releases", "{lock}", "Holds that ended by an Unlock that returned nil.")
		unanswered   = m.counter("wheellock.requests.unanswered", "{request}", "Requests to which no answer came in time.")
		refused      = m.counter("wheellock.requests.refused", "{request}", "Requests that Redis answered with an error; a batch of renewals counts once.")
		unreleased   = m.counter("wheellock.unlocks.unanswered", "{call}", "Calls of Unlock whose outcome is unknown.")
		unlogged     = m.counter("wheellock.log.dropped", "{record}", "Log records that were dropped because Config.Logger did not take earlier ones.")
		renewals     = m.counter("wheellock.renewals", "{renewal}", "Renewals that Redis acknowledged in time.")
		retried      = m.counter("wheellock.renewals.retried", "{renewal}", "Renewals sent again, because no answer came.")
		still        = m.sum("wheellock.still", "How long this process stood still while it held locks: stopped, starved or suspended.")
		held         = m.now("wheellock.locks.held", "{lock}", "Locks held now.")
		waiters      = m.now("wheellock.waiters", "{call}", "Calls that wait for a lock or permits now.")
	)
	if m.err != nil {
		return nil, fmt.Errorf("lockotel: %w", m.err)
	}
	client := clientKey.String(c.ID())
	observe := func(_ context.Context, to metric.Observer) error {
		st := c.Stats()
		for o := lock.OutcomeAcquired; o <= lock.OutcomeError; o++ {
			to.ObserveInt64(acquisitions, int64(st.Calls[o]), metric.WithAttributes(client, outcomeKey.String(o.String())))
		}
		for r, reason := range reasons {
			to.ObserveInt64(losses, int64(st.Lost[r]), metric.WithAttributes(client, reasonKey.String(reason)))
		}
		one := metric.WithAttributes(client)
		to.ObserveInt64(requests, int64(st.Tries), one)
		to.ObserveInt64(releases, int64(st.Released), one)
		to.ObserveInt64(unanswered, int64(st.Unanswered), one)
		to.ObserveInt64(refused, int64(st.Refused), one)
		to.ObserveInt64(unreleased, int64(st.Unreleased), one)
		to.ObserveInt64(unlogged, int64(st.Unlogged), one)
		to.ObserveInt64(renewals, int64(st.Renewal.Renewed), one)
		to.ObserveInt64(retried, int64(st.Renewal.Retried), one)
		to.ObserveFloat64(still, st.Renewal.Still.Seconds(), one)
		to.ObserveInt64(held, int64(st.Held), one)
		to.ObserveInt64(waiters, int64(st.Waiting), one)
		return nil
	}
	r, err := m.RegisterCallback(observe, acquisitions, losses, requests, releases, unanswered, refused, unreleased, unlogged, renewals, retried, still, held, waiters)
	if err != nil {
		return nil, fmt.Errorf("lockotel: %w", err)
	}
	return r, nil
}

func (m *meter) counter(name, unit, what string) metric.Int64ObservableCounter {
	c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.note(err)
	return c
}

// sum makes a counter of seconds.
func (m *meter) sum(name, what string) metric.Float64ObservableCounter {
	c, err := m.Float64ObservableCounter(name, metric.WithUnit("s"), metric.WithDescription(what))
	m.note(err)
	return c
}

// now makes an instrument for a current number, which can fall and can be summed over clients.
func (m *meter) now(name, unit, what string) metric.Int64ObservableUpDownCounter {
	c, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.note(err)
	return c
}
