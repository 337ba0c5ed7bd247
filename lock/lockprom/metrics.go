package lockprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wheellock/wheellock/lock"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("wheellock_"+name, help, labels, nil)
}

// Metrics with a label, and histograms.
var (
	acquisitions    = describe("acquisitions_total", "Calls that take a lock or permits, by how they ended.", "outcome")
	losses          = describe("losses_total", "Holds that were lost, by reason.", "reason")
	clocks          = describe("server_clock_ahead_seconds", "How far a server's clock is ahead of this process' clock.", "server")
	acquireDuration = describe("acquire_duration_seconds", "How long calls took that acquired a lock or permits.")
	lateness        = describe("renewal_lateness_seconds", "Time from when a renewal was due to its acknowledgement.")
)

// value is a metric that is one number.
type value struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*lock.Stats) float64
}

var values = []value{
	{
		describe("acquire_requests_total", "Scripts sent to take a lock or permits."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Tries) },
	},
	{
		describe("locks_held", "Locks held now."),
		prometheus.GaugeValue, func(s *lock.Stats) float64 { return float64(s.Held) },
	},
	{
		describe("locks_held_seconds_total", "How long all locks together have been held."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return s.HeldSeconds },
	},
	{
		describe("waiters", "Calls that wait for a lock or permits now."),
		prometheus.GaugeValue, func(s *lock.Stats) float64 { return float64(s.Waiting) },
	},
	{
		describe("releases_total", "Holds that ended by an Unlock that returned nil."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Released) },
	},
	{
		describe("unanswered_requests_total", "Requests to which no answer came in time."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Unanswered) },
	},
	{
		describe("refused_requests_total", "Requests that Redis answered with an error. A batch of renewals counts once."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Refused) },
	},
	{
		describe("still_seconds_total", "How long this process stood still while it held locks: stopped, starved or suspended."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return s.Renewal.Still.Seconds() },
	},
	{
		describe("unanswered_unlocks_total", "Calls of Unlock whose outcome is unknown."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Unreleased) },
	},
	{
		describe("unlogged_records_total", "Log records that were dropped because Config.Logger did not take earlier ones."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Unlogged) },
	},
	{
		describe("renewals_total", "Renewals that Redis acknowledged in time."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Renewal.Renewed) },
	},
	{
		describe("renewals_retried_total", "Renewals sent again, because no answer came."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Renewal.Retried) },
	},
	{
		describe("renewals_queued", "Renewals that are due and not yet sent."),
		prometheus.GaugeValue, func(s *lock.Stats) float64 { return float64(s.Renewal.Queued) },
	},
	{
		describe("renewals_in_flight", "Renewals that are sent and not yet answered."),
		prometheus.GaugeValue, func(s *lock.Stats) float64 { return float64(s.Renewal.InFlight) },
	},
	{
		describe("renewal_batches_total", "Batches of renewals that were sent."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Renewal.Batches) },
	},
	{
		describe("renewal_batches_failed_total", "Batches of renewals that were not answered."),
		prometheus.CounterValue, func(s *lock.Stats) float64 { return float64(s.Renewal.Failed) },
	},
}
