package lockprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wheellock/wheellock/lock/keeper"
)

// keeperCollector is a prometheus.Collector of one keeper.Keeper.
type keeperCollector struct{ keeper *keeper.Keeper }

// NewKeeper returns a Collector of k. See "Metrics of a Keeper" in the comment of the
// package. It is safe for concurrent use, and may still be used after k is closed.
func NewKeeper(k *keeper.Keeper) prometheus.Collector { return keeperCollector{k} }

var keeperNames = describe("keeper_names", "Wanted names and those that are given back, by state.", "state")

// keeperValue is a metric of a Keeper that is one number.
type keeperValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*keeper.Stats) float64
}

var keeperValues = []keeperValue{
	{describe("keeper_sharers", "Keepers that share the names, with this one."), prometheus.GaugeValue, func(s *keeper.Stats) float64 { return float64(s.Sharers) }},
	{describe("keeper_failing", "1 while the last tries failed."), prometheus.GaugeValue, func(s *keeper.Stats) float64 {
		if s.Failing {
			return 1
		}
		return 0
	}},
	{describe("keeper_taken_total", "Names that were taken."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Taken) }},
	{describe("keeper_lost_total", "Names that were lost."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Lost) }},
	{describe("keeper_given_up_total", "Names that were given up."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.GivenUp) }},
	{describe("keeper_tries_total", "Tries to take a name."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Tries) }},
	{describe("keeper_tries_failed_total", "Tries that got no answer, no connection or an error."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Failed) }},
	{describe("keeper_tries_refused_total", "Tries that found another owner."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Refused) }},
	{describe("keeper_unreleased_total", "Names whose release Redis did not confirm."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Unreleased) }},
	{describe("keeper_looks_total", "Names of which it was asked whether another owner still has them."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Looks) }},
	{describe("keeper_releases_heard_total", "Releases by other owners that were heard."), prometheus.CounterValue, func(s *keeper.Stats) float64 { return float64(s.Heard) }},
}

// Describe implements prometheus.Collector.
func (c keeperCollector) Describe(to chan<- *prometheus.Desc) {
	to <- keeperNames
	for _, v := range keeperValues {
		to <- v.desc
	}
}

// Collect implements prometheus.Collector. All values of a call come from one snapshot.
func (c keeperCollector) Collect(to chan<- prometheus.Metric) {
	s := c.keeper.Stats()
	for _, state := range []struct {
		name  string
		names int
	}{{"kept", s.Kept}, {"waiting", s.Waiting}, {"asking", s.Asking}, {"ending", s.Ending}} {
		to <- prometheus.MustNewConstMetric(keeperNames, prometheus.GaugeValue, float64(state.names), state.name)
	}
	for _, v := range keeperValues {
		to <- prometheus.MustNewConstMetric(v.desc, v.kind, v.of(&s))
	}
}
